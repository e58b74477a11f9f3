"""What will be done to the data (plan), the random mechanisms that do it, and what it costs (accounting)."""
