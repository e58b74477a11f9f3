"""Page Pareto frontier: the highest F1 at each ε."""
