"""A real federation: the engine's clients and server as separate processes, connected by Flower.

The engine trains, clips, adds noise, checks the noise and accounts for ε. This package adds what a simulation does not
need: files of each client, a persistent privacy ledger, keys, and messages. Only ``federation.flower`` imports flwr.
"""
