"""Explore: choose, see, run."""
