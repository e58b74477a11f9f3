"""Privacy of a training: the plan, the random mechanisms that carry it out, and the accounting of ε."""
