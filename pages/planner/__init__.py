"""Planner: from what is needed to settings that reach it."""
