"""Federated training of one tagger: partition of the data, exchanged messages, and the privacy loss of each client."""
