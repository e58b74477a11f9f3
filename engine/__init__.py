"""The engine of Epsilon Explorer: private training of named-entity taggers. Nothing here knows streamlit."""

PRIVATE_VERSION, PLAIN_VERSION = "6", "5"
"""Part of the identity of every run with noise, and of every one without: raise it when the same configuration would
give different records."""
