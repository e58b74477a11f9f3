"""Rate limit of requests per address (token bucket)."""

from collections import OrderedDict

BURST = 120
"""Requests that one address may send in a burst: a whole class behind one router opens the page together."""
A_SECOND = 10.0
"""Requests per second that one address may send after the burst."""
MOST_ADDRESSES = 2000
"""Largest number of addresses in memory; the one without requests for the longest time is removed first."""


class Buckets:
    """One bucket for each address."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and the time of that state

    def allows(self, address: str, now: float) -> bool:
        """Return whether ``address`` may send another request at time ``now``, in seconds of a monotonic clock."""
        left, since = self._left.pop(address, (float(BURST), now))
        left = min(BURST, left + (now - since) * A_SECOND)
        allowed = left >= 1
        self._left[address] = (left - 1 if allowed else left, now)
        if len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)
        return allowed
