"""Registry of mechanisms: the protected unit of each, its attacker, and where its noise is added.

:mod:`engine.privacy` implements them.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MechanismKind:
    """A type of mechanism.

    Attributes:
        name: Name in configurations. It never changes, since run identities depend on it.
        title: Label shown to users.
        short: Name within the title of a run.
        option_help: What it does, in the help of the command line.
        unit: What is clipped and sampled, "sentence" or "client".
        protected: The protected unit, described.
        neighbours: The adjacency: the difference between two indistinguishable data sets, described.
        noise: Where noise is added: at the "steps" of training, by the "server" to a round's sum, to the "messages"
            that clients send, or in "shares" by all clients of a round, whose messages no other process sees.
        trusted: The trust assumption, one sentence among the assumptions of ε.
        note: Protected unit and trust assumption, for users who choose a mechanism.
        poisson_clients: Whether each client joins a round independently, as its accounting assumes.
    """

    name: str
    title: str
    short: str
    option_help: str
    unit: str
    protected: str
    neighbours: str
    noise: str
    trusted: str
    note: str
    poisson_clients: bool = False

    @property
    def client_level(self) -> bool:
        """Whether all data of a client is the protected unit."""
        return self.unit == "client"

    @property
    def client_side_noise(self) -> bool:
        """Whether clients add the noise to their own messages."""
        return self.noise in ("messages", "shares")

    @property
    def distributed_noise(self) -> bool:
        """Whether each client of a round adds a share of the noise, and only the sum is revealed."""
        return self.noise == "shares"


_CLIENT = "one client, with all its sentences"
ADD_OR_REMOVE = "add or remove one"
ZERO_OUT = "zero out one"
"""Adjacency of two corpora of equal size, of which one has an empty sentence in place of one of the other."""

DP_SGD = MechanismKind(
    name="dp-sgd",
    title="In each client's training (DP-SGD)",
    short="DP-SGD",
    option_help="each client adds noise at each step; protects a sentence",
    unit="sentence",
    protected="one labelled sentence",
    neighbours=ADD_OR_REMOVE,
    noise="steps",
    trusted="Each client is trusted with its own sentences; the server does not need to be trusted.",
    note="Protects each sentence. A sentence is seen by its client only; if the noise is secret, no other party needs "
    "to be trusted.",
)
"""Abadi et al. 2016; each client adds noise to each step of its own training."""
DP_FEDAVG = MechanismKind(
    name="dp-fedavg",
    title="By the server, on the sum (DP-FedAvg)",
    short="DP-FedAvg",
    option_help="the server adds noise to the sum of updates; protects a client",
    unit="client",
    protected=_CLIENT,
    neighbours=ADD_OR_REMOVE,
    noise="server",
    trusted="The server sees each client's update before the noise is added, and is trusted to keep it secret.",
    note="Protects all data of each client from every party except the server. The server sees the updates and is "
    "trusted to add the noise and to keep the updates secret.",
    poisson_clients=True,
)
"""McMahan et al. 2018."""
LOCAL = MechanismKind(
    name="local",
    title="By each client, on its update (local)",
    short="noise added by each client",
    option_help="each client adds noise to its update; protects it from the server too",
    unit="client",
    protected=_CLIENT,
    neighbours="replace all that one client has",
    noise="messages",
    trusted="Each client adds the noise to its own update before sending it: no other party needs to be trusted.",
    note="Protects all data of each client. No other party needs to be trusted, and the noise is the largest.",
)

SECURE_SUM = MechanismKind(
    name="secure-sum",
    title="By all clients together (secure aggregation)",
    short="secure aggregation",
    option_help="distributed noise with secure aggregation: the server sees only the sum",
    unit="client",
    protected=_CLIENT,
    neighbours="replace all that one client has",
    noise="shares",
    trusted="Each client adds its share of the noise, and masks hide its update. The server learns only the sum if it "
    "is honest but curious and at most a third of a round's clients drop out or reveal their shares to it.",
    note="Protects all data of each client, also from an honest-but-curious server, which sees only the sum. "
    "The total noise is about as large as a single client would have to add under the local mechanism.",
)
"""Bonawitz et al. 2017, with shares of the noise as in Truex et al. 2019."""

NOT_RECORDED = "not recorded"


def common_adjacency(names: Iterable[str]) -> str | None:
    """Return the adjacency under which several values of ε all hold; None if there is none.

    ε for adding or removing one also holds for zeroing it out: the sum of a step is the same without a sentence and
    with an empty one, and the settings are fixed.
    """
    found = set(names)
    if found == {ADD_OR_REMOVE, ZERO_OUT}:
        return ZERO_OUT
    return found.pop() if len(found) == 1 else None


def adjacency_text(names: Iterable[str]) -> str:
    """Return the adjacency under which several values of ε all hold, in words.

    Args:
        names: Their adjacencies, at least one; empty where none is stored.
    """
    found = set(names)
    if "" in found:
        return NOT_RECORDED
    return common_adjacency(found) or f"none for all ({'; '.join(sorted(found))})"


MECHANISMS: dict[str, MechanismKind] = {kind.name: kind for kind in (DP_SGD, DP_FEDAVG, LOCAL, SECURE_SUM)}
"""Mechanisms by name, in display order."""
