"""Page Home."""
