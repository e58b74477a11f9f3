"""The page Tag text: entities found by models trained at different ε, and the redacted text."""
