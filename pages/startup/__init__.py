"""What the app needs before its first page."""
