"""Colours with the same meaning on every page, in the light and the dark theme.

Precision, recall and F1 remain distinguishable under protanopia, deuteranopia and tritanopia, and so do *private* and
*not private*. Their CIE76 distance is at least 18 in the simulation of Machado et al. 2009. Symbols, dashes and
hatching carry the same information without colour.
"""

PRECISION = "#3b8bd0"
RECALL = "#db7a14"
F1 = "#b23a6e"
PRIVATE = "#0e8c76"
NOT_PRIVATE = "#b8a987"
GRID = "rgba(128, 128, 118, 0.22)"
QUIET = "rgba(128, 128, 118, 0.85)"
BAND = {
    "strong": "rgba(14, 140, 118, 0.17)",
    "reasonable": "rgba(14, 140, 118, 0.08)",
    "none": "rgba(184, 169, 135, 0.20)",
}
"""Background of the ε axis: darker green for stronger privacy, sand for no privacy."""
TYPES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
"""Colours of entity types: the palette of Okabe and Ito 2008, distinguishable under every colour blindness."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Dashes of adjacent lines, in the order of :data:`TYPES`; they repeat the information of the colours."""
ENTITIES = {"PER": "#aa9cfc", "LOC": "#ff9561", "ORG": "#7aecec", "MISC": "#bfeeb7"}
"""Background of an entity in a text by its type: the colours of displaCy for PERSON, LOC, ORG and PRODUCT."""
