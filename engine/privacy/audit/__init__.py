"""Measured privacy: what an attacker gets out of a run, as a lower bound on ε to hold beside the claimed one.

Nothing here is imported until it is asked for: it needs SciPy, which the pages do without.
"""
