"""The engine of Epsilon Explorer: private training of named-entity taggers. Nothing here knows streamlit."""

VERSION = "0.7.0"
"""Of the whole program: the uppermost heading of CHANGELOG.md."""

PRIVATE_VERSION, PLAIN_VERSION = "6", "5"
"""Part of the identity of every run with noise, and of every one without: raise it when the same configuration would
give different records (CONTRIBUTING.md says when)."""
