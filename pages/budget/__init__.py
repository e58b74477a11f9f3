"""The page Budget: what a corpus may lose in all."""
