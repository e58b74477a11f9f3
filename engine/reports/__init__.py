"""Records, scores, checks and searches as text and as plain fields, for pages and the command line."""
