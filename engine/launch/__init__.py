"""Setting up this checkout and serving the dashboard."""
