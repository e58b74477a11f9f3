"""``python -m engine``: the actions of the pages, for a shell and for other programs."""
