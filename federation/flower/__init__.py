"""What needs Flower (flwr 1.41): messages, secure aggregation, processes. Installed by `make federation`."""
