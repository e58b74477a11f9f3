"""The page Ledger: ε as a sum of assumptions."""
