"""The planner: settings that reach a target, from stored runs."""
