"""Good practice: the ladder of recipes."""
