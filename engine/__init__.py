"""The engine of Epsilon Explorer: private training of named-entity taggers. Nothing here knows streamlit."""

ENGINE_VERSION = "5"
"""Part of every run's identity: raise it when the same configuration would give different records."""
