"""Privacy audits: lower bounds on ε from attacks on a run, for comparison with the claimed ε.

The package is imported on demand, since it needs SciPy, which the pages do not load.
"""
