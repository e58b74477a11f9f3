"""Diagnose: where privacy costs what it does."""
