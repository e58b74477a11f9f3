"""The page Compare: several configurations in one chart."""
