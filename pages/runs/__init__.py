"""The page Runs: the list of all runs."""
