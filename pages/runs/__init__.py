"""Runs: the list of all."""
