"""The alphabet of taggers that read characters, fixed in advance, so that it reveals nothing about any text."""

ALPHABET = "".join(map(chr, range(0x20, 0x7F)))
"""The printable characters of ASCII. Their ids begin with 1; 0 is padding after a word's end."""
OTHER = len(ALPHABET) + 1
"""Id of every other character; letters with diacritics count as their base letters."""
NUMBER = OTHER + 1
"""Number of ids, including 0."""
