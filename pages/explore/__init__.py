"""The page Explore: choose a configuration, see its results, run it."""
