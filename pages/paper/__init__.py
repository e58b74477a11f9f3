"""Paper: the published tables beside ours."""
