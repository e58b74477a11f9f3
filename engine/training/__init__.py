"""A training step (sampling, per-example clipping, noise, optimiser) and the state between two steps."""
