"""Page Check a claim: the meaning of an ε that another party states, the missing facts, and questions to ask."""
