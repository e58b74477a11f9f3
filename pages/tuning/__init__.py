"""Tuning: what a search found and cost."""
