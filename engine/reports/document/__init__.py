"""A document model with HTML, Markdown, JSON and PDF output."""
