"""The page Privacy budget: the total ε of a corpus."""
