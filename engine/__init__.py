"""The engine of Epsilon Explorer: private training of NER taggers. No module here imports Streamlit."""

VERSION = "0.7.0"
"""Version of the program: the top heading of CHANGELOG.md."""

PRIVATE_VERSION, PLAIN_VERSION = "6", "5"
"""Engine versions of runs with and without noise; part of each run's identity.

Increase one when the same configuration gives different records (see CONTRIBUTING.md).
"""
