"""The privacy budget of a corpus and the charges against it.

Users choose the next run after they have seen the previous one. Therefore the ε of many runs must not be composed
afterwards at whichever order happens to give the smallest sum. The total and the order of the Rényi divergences are
fixed before the first run. A run is admitted only if the sum stays within the capacity of the total
(:mod:`engine.privacy.rdp_filter`; Feldman and Zrnic 2021). The guarantee is then the total, however much of it was
used. A share of it is not an ε.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from engine.config.mechanism_registry import adjacency_text
from engine.privacy.rdp_filter import RdpFilter

UNITS = ("sentence", "client")
"""Protected units that a budget can have."""

BUDGET, BOOKED, SPENT, LOOK, UNUSED = "budget", "booked", "spent", "look", "unused"
"""Kinds of entries of the privacy ledger, as they are stored; the last one withdraws an access that never began."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The total privacy loss allowed for a corpus over all trainings on it: ``epsilon`` at ``delta`` for each ``unit``.

    Attributes:
        epsilon: Total ε.
        delta: Total δ.
        unit: One of ``UNITS``.
        order: α of the Rényi divergences that are summed, fixed before the first charge.
        set_at: When it was set, ISO 8601, UTC.
    """

    epsilon: float
    delta: float
    unit: str
    order: float
    set_at: str

    @property
    def filter(self) -> RdpFilter:
        """The Rényi filter that admits runs."""
        return RdpFilter(self.epsilon, self.delta, self.order)


@dataclass(frozen=True, kw_only=True)
class Charge:
    """The charge of one noise stream against a corpus.

    Attributes:
        stream: Name of the noise stream. Runs that share it have the same noise and count once.
        run: The last run that used the stream.
        what: Description of that run.
        rdp: Rényi divergence at the budget's order.
        pending: Whether ``rdp`` is the whole cost of a run that has not finished.
        at: When it was last charged.
        parties: Fingerprint of the run's clients, which separates them from those of another run; empty if unknown.
        neighbouring: Adjacency for which the cost holds; empty if it is not recorded, as by versions up to 0.7.0.
    """

    stream: str
    run: str
    what: str
    rdp: float
    pending: bool
    at: str
    parties: str = ""
    neighbouring: str = ""


@dataclass(frozen=True, kw_only=True)
class UnprotectedAccess:
    """An access to a corpus without a privacy guarantee.

    Attributes:
        run: The run that made it.
        what: Description.
        at: When it happened.
        published: Whether it stands for published runs of others, which are no releases of this installation.
    """

    run: str
    what: str
    at: str
    published: bool = False


@dataclass(frozen=True, kw_only=True)
class BudgetState:
    """All ledger data on one corpus.

    Attributes:
        corpus: Checksum of its content.
        name: Its last name.
        totals: The budget and its predecessors; the last one is valid. Empty without a budget.
        bookings: Charges.
        looks: Unprotected accesses.
        chain_hash: Hash of the last entry of all corpora (chain head), empty without entries. A reader who keeps it can
            later detect changes to earlier entries.
    """

    corpus: str
    name: str
    totals: tuple[Budget, ...] = ()
    bookings: tuple[Charge, ...] = ()
    looks: tuple[UnprotectedAccess, ...] = ()
    chain_hash: str = ""

    @property
    def budget(self) -> Budget | None:
        """The valid budget, if any."""
        return self.totals[-1] if self.totals else None

    @property
    def holds(self) -> bool:
        """Whether the total bounds the loss by all runs here: none of them was an unprotected access.

        Published runs of others, which are not the user's releases, do not count.
        """
        return all(access.published for access in self.looks)

    @property
    def adjacency(self) -> str:
        """The adjacency under which the total holds for all charged runs, in words."""
        if not self.bookings:
            return "that of the charged runs"
        return adjacency_text(charge.neighbouring for charge in self.bookings)

    @property
    def booked(self) -> float:
        """Sum of the Rényi divergences of all charges."""
        return sum(charge.rdp for charge in self.bookings)

    @property
    def share(self) -> float:
        """Charged share of the capacity, 0 to 1; 0 without a budget."""
        return self.booked / self.budget.filter.capacity if self.budget else 0.0

    def with_more(self, stream: str, cost: float, *, again: bool) -> float:
        """Return the share that would be charged after another run.

        Args:
            stream: Noise stream of the run.
            cost: Its Rényi divergence at the budget's order.
            again: Whether the run has fresh noise although the stream has its name.
        """
        if not self.budget:
            return 0.0
        before = next((charge.rdp for charge in self.bookings if charge.stream == stream), 0.0)
        more = cost if again else max(0.0, cost - before)
        return (self.booked + more) / self.budget.filter.capacity


@dataclass(frozen=True, kw_only=True)
class ChargeRequest:
    """The charge that a run requests on one corpus.

    Attributes:
        corpus: Checksum of the corpus content.
        name: Name of the corpus.
        stream: Noise stream of the run.
        run: The run.
        what: Description of the run.
        cost: Returns its Rényi divergence under a budget, ∞ without a privacy guarantee.
        neighbouring: Returns the adjacency for which this cost holds.
        again: Whether the run has fresh noise although the stream has its name.
        even: Whether its cost is proportional to its steps.
        steps: Steps of the whole run.
        ended: Whether the whole run is charged even if it does not finish.
        parties: Fingerprint of the run's clients, as in :class:`Charge`.
        title: Title of the corpus in messages; empty if its name is its title.
        shared: Why a run on another corpus draws on this budget; empty if it trains on this corpus.
        unprotected: Whether the user accepts an unprotected access.
    """

    corpus: str
    name: str
    stream: str
    run: str
    what: str
    cost: Callable[[Budget], float]
    again: bool
    even: bool
    steps: int
    ended: bool = False
    parties: str = ""
    title: str = ""
    shared: str = ""
    unprotected: bool = False
    neighbouring: Callable[[Budget], str] = lambda _: ""

    def may_be_unprotected(self, budget: Budget) -> bool:
        """Return whether the user may accept an unprotected access: ε is ∞, or the budget is that of another corpus."""
        return math.isinf(self.cost(budget)) or bool(self.shared)
