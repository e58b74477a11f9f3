"""The page Tag text: entities predicted by models trained at different ε, and the redacted text."""
