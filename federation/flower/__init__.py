"""The part that needs Flower (flwr 1.41, `make federation`): messages, secure aggregation and processes."""
