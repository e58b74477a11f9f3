"""The characters that taggers read: an alphabet that was fixed in advance, so that nothing is learned from any text."""

ALPHABET = "".join(map(chr, range(0x20, 0x7F)))
"""The printable characters of ASCII. Their numbers begin with 1; 0 stands after a word's end."""
OTHER = len(ALPHABET) + 1
"""Every other character; letters with accents and the like count as those without."""
NUMBER = OTHER + 1
"""How many numbers there are, 0 included."""
