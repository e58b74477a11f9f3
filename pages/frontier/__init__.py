"""Frontier: the best at each ε."""
