"""``python -m engine``: the same verbs as the pages, for a shell and for other programs."""
