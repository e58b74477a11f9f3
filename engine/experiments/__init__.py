"""Experiments over many runs: the papers' tables, recommended settings, diagnosis, audits, sweeps and searches."""
