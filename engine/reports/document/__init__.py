"""A document for people and programs: one model, drawn as HTML, Markdown, JSON and PDF."""
