"""How often one address may ask: a bucket of requests that fills up again (token bucket)."""

from collections import OrderedDict

BURST = 120
"""Requests that one address may make at once: a whole class behind one router, opening the page together."""
A_SECOND = 10.0
"""Requests that one address may go on to make each second."""
MOST_ADDRESSES = 2000
"""That are remembered; the one that has been quiet longest is forgotten first."""


class Buckets:
    """One bucket for each address."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when that was so

    def allows(self, address: str, now: float) -> bool:
        """Whether one request more is taken from ``address``. now: seconds of any clock that only goes forward."""
        left, since = self._left.pop(address, (float(BURST), now))
        left = min(BURST, left + (now - since) * A_SECOND)
        allowed = left >= 1
        self._left[address] = (left - 1 if allowed else left, now)
        if len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)
        return allowed
