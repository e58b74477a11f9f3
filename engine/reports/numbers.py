"""ε and δ as text."""

import math

SURE = 20.0
"""ε above which success rates are shown as 100 %: the attacker's error is below one in 100 million."""


def epsilon_text(epsilon: float, digits: int = 3) -> str:
    """Return ε as text: three significant digits, no decimals from 1,000 on, ∞ without noise."""
    if epsilon >= 1000 and math.isfinite(epsilon):
        return f"{epsilon:,.0f}"
    return "∞" if math.isinf(epsilon) else f"{epsilon:.{digits}g}"


def delta_text(delta: float) -> str:
    """Return δ as text: 1e-5, not 1e-05."""
    return f"{delta:g}".replace("e-0", "e-")


def right_text(epsilon: float) -> str:
    """Return the largest success rate of an attacker who guesses membership at equal prior odds, without δ.

    The rate is 1/(1 + e^−ε) (Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015), rounded up: it is a limit.
    """
    if epsilon > SURE:
        return "100\u00a0%"
    wrong = 100 / (1 + math.exp(epsilon))  # per cent
    digits = max(1, math.ceil(-math.log10(wrong)))
    least = math.floor(wrong * 10**digits) / 10**digits
    return f"{100 - least:.{digits}f}\u00a0%"


def points_text(share: float) -> str:
    """Return a difference of shares in percentage points, with its sign: +0.2, −0.2."""
    return f"{100 * share:+.1f}".replace("-", "−")
