"""Many runs and what they say: the paper's tables, recipes, diagnosis, sweeps, searches."""
