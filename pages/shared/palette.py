"""One colour a meaning, the same on every page, in light and dark.

Chosen so that precision, recall and F1 stay apart from one another, and *private* from *not private*, under
protanopia, deuteranopia and tritanopia (CIE76 distance of at least 18 in the simulation of Machado et al. 2009);
symbols, dashes and hatching say the same without colour.
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
"""Background of the ε axis: the more private, the deeper; sand where nothing is private."""
TYPES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
"""Entity types side by side: the palette of Okabe and Ito 2008, which stays apart under every colour blindness."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Of lines side by side, in the order of :data:`TYPES`: what says the same as their colours."""
