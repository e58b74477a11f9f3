"""The Pareto frontier of F1 and ε."""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def pareto_front(found: Iterable[T], *, epsilon: Callable[[T], float], f1: Callable[[T], float]) -> list[T]:
    """Return the Pareto-optimal items: no other item has a higher F1 at the same or a smaller ε.

    Args:
        found: the items.
        epsilon: returns the ε of an item.
        f1: returns the F1 of an item.

    Returns:
        Items by ε, the smallest first; of equal items the first one.
    """
    best, front = -math.inf, []
    for item in sorted(found, key=lambda item: (epsilon(item), -f1(item))):
        if f1(item) > best:
            best = f1(item)
            front.append(item)
    return front
