"""Tagging of any text with a trained NER tagger, and redaction of the entities."""
