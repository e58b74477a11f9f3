"""What the lessons show, computed: attacks, mechanisms and what they promise, small enough to answer at once."""
