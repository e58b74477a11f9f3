"""The Pareto frontier: what nothing else beats."""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def pareto_front(found: Iterable[T], *, epsilon: Callable[[T], float], f1: Callable[[T], float]) -> list[T]:
    """Those that none beats: no other has a higher F1 at the same or a smaller ε. By ε, the smallest first; of equals
    the first one stays."""
    top, kept = -math.inf, []
    for each in sorted(found, key=lambda one: (epsilon(one), -f1(one))):
        if f1(each) > top:
            top = f1(each)
            kept.append(each)
    return kept
