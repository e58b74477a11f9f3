"""ε and δ for people."""

import math


def epsilon_text(epsilon: float, digits: int = 3) -> str:
    """ε for people: three significant digits, ∞ without noise."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:.{digits}g}"


def delta_text(delta: float) -> str:
    """δ for people: 1e-5, not 1e-05."""
    return f"{delta:g}".replace("e-0", "e-")
