"""One step of learning: sampling, per-example clipping, noise, optimiser; and the state between two steps."""
