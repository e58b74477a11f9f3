"""The page Assumptions: ε under different assumptions."""
