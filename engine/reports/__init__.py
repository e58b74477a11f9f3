"""Records, scores, checks and searches as words and as plain fields, for pages and the shell alike."""
