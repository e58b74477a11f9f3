"""The planner: from what is needed to settings that stored runs say reach it."""
