"""Page Hyperparameter search: results and privacy cost of a search."""
