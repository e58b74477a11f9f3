"""A real federation: the engine's clients and server as processes of their own, joined by Flower.

What trains, clips, adds noise, checks and accounts is the engine's; here is what a simulation does without: files of
each party's own, a ledger that outlives the run, keys, and messages. Only ``federation.flower`` imports flwr.
"""
