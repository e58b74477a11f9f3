"""What a corpus may lose in all, and what was booked on it.

People choose the next run after they have seen the last one. So ε of many runs must not be added up afterwards at
whatever order happens to suit them: the total, and the order at which Rényi divergences add up, are fixed before the
first run, and a run is admitted only if the sum stays within what the total allows (:mod:`engine.privacy.rdp_filter`;
Feldman and Zrnic 2021). What then holds is the total, whatever was used of it. A share of it is no ε.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.privacy.rdp_filter import RdpFilter

UNITS = ("sentence", "client")
"""Whose loss a budget is of."""


BUDGET, BOOKED, SPENT, LOOK = "budget", "booked", "spent", "look"
"""Kinds of entries of the privacy ledger, as they are stored."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The total that a corpus may lose, over all that is ever trained on it: ``epsilon`` at ``delta`` of each ``unit``.
    order: α at which Rényi divergences add up, fixed before the first booking. set_at: ISO 8601, UTC."""

    epsilon: float
    delta: float
    unit: str
    order: float
    set_at: str

    @property
    def filter(self) -> RdpFilter:
        """What admits runs."""
        return RdpFilter(self.epsilon, self.delta, self.order)


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What one stream of noise costs a corpus. stream: its name: runs that share it give the same noise, and count
    once. run: the last that used it. what: it was, in words. booked: Rényi divergence at the budget's order; open:
    whether that is of a run that has not ended, whole. at: when it was booked last. parties: by what its clients are
    told from those of another run, empty where that is not known."""

    stream: str
    run: str
    what: str
    rdp: float
    pending: bool
    at: str
    parties: str = ""


@dataclass(frozen=True, kw_only=True)
class UnprotectedAccess:
    """Something that was done to a corpus without any promise. run: that did it. what: in words."""

    run: str
    what: str
    at: str


@dataclass(frozen=True, kw_only=True)
class BudgetState:
    """Everything on one corpus. corpus: the checksum of its content; name: what it was called last. totals: the budget
    and those before it, the last one counts; empty without any. seal: of the last entry of all corpora, empty without
    any: whoever keeps it can tell later whether what stands before it was changed."""

    corpus: str
    name: str
    totals: tuple[Budget, ...] = ()
    bookings: tuple[Charge, ...] = ()
    looks: tuple[UnprotectedAccess, ...] = ()
    chain_hash: str = ""

    @property
    def budget(self) -> Budget | None:
        """The one that counts."""
        return self.totals[-1] if self.totals else None

    @property
    def booked(self) -> float:
        """Rényi divergence of all bookings together."""
        return sum(each.rdp for each in self.bookings)

    @property
    def share(self) -> float:
        """Of the allowance that is booked, 0 to 1; 0 without a budget."""
        return self.booked / self.budget.filter.capacity if self.budget else 0.0

    def with_more(self, stream: str, cost: float, *, again: bool) -> float:
        """The share if such a run were booked too. again: whether it has new noise although the stream has its
        name."""
        if not self.budget:
            return 0.0
        before = next((each.rdp for each in self.bookings if each.stream == stream), 0.0)
        more = cost if again else max(0.0, cost - before)
        return (self.booked + more) / self.budget.filter.capacity


@dataclass(frozen=True, kw_only=True)
class ChargeRequest:
    """What a run is to be booked as on one corpus. corpus: checksum of its content; name: of it. stream: of its noise;
    again: whether it has new noise although the stream's name was used. what: it is, in words. cost: its Rényi
    divergence under a budget, ∞ where nothing is promised. looks: whether it is only listed. even: whether its cost
    grows evenly with its steps; steps: of the whole run. ended: whether it counts whole, whatever becomes of it.
    parties: by what its clients are told from those of another run, empty where that is not known."""

    corpus: str
    name: str
    stream: str
    run: str
    what: str
    cost: Callable[[Budget], float]
    looks: bool
    again: bool
    even: bool
    steps: int
    ended: bool = False
    parties: str = ""
