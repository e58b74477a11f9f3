"""Compare: settings laid over each other."""
