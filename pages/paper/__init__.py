"""News: the published tables beside ours."""
