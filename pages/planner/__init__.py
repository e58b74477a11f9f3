"""Page Planner: from requirements to configurations that meet them."""
