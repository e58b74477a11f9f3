"""The page Learn: seven lessons, each with a question, a guess and a picture to play with."""
