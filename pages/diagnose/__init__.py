"""Page Training diagnostics: where a private run loses accuracy."""
