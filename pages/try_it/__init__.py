"""Try a sentence: which names taggers at different ε find in a text of one's own, and the text without them."""
