"""Any text → the names that a trained tagger finds in it, and the text without them."""
