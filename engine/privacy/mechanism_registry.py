"""What kinds of mechanisms there are: whom each protects, from whom, and where its noise is added.

Light, and below the configuration, which names one of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MechanismKind:
    """A kind of mechanism.

    name: in configurations, for ever, since identities rest on it. title: what people see. unit: what is clipped and
    drawn, "sentence" or "client". protected, neighbours: what two data sets differ in that cannot be told apart, in
    words. noise: where it is added, at the "steps" of training, by the "server" to a round's sum, to the "messages"
    that clients send, or in "shares" by all clients of a round, whose messages nobody sees. trusted: who must be
    trusted with what, a sentence among what ε rests on. note: whom it protects and who must be trusted, for whoever
    chooses one. drawn: whether each client joins a round independently, which its accounting rests on.
    """

    name: str
    title: str
    unit: str
    protected: str
    neighbours: str
    noise: str
    trusted: str
    note: str
    poisson_clients: bool = False

    @property
    def client_level(self) -> bool:
        """Whether all that a client has is protected at once."""
        return self.unit == "client"

    @property
    def client_side_noise(self) -> bool:
        """Whether clients add the noise themselves to what they send."""
        return self.noise in ("messages", "shares")

    @property
    def distributed_noise(self) -> bool:
        """Whether each client of a round adds a share of the noise, and nobody sees more than the sum."""
        return self.noise == "shares"


_CLIENT = "one client, with all its sentences"

DP_SGD = MechanismKind(
    name="dp-sgd",
    title="In each client's training (DP-SGD)",
    unit="sentence",
    protected="one labelled sentence",
    neighbours="add or remove one",
    noise="steps",
    trusted="Each client is trusted with its own sentences; the server need not be trusted.",
    note="Protects each sentence. Only the client that holds it sees it; nobody else need be trusted.",
)
"""Abadi et al. 2016; each client adds the noise to each step of its own training."""
DP_FEDAVG = MechanismKind(
    name="dp-fedavg",
    title="By the server, on the sum (DP-FedAvg)",
    unit="client",
    protected=_CLIENT,
    neighbours="add or remove one",
    noise="server",
    trusted="The server sees each client's update before the noise is added, and must keep it to itself.",
    note="Protects each client with all it has, from everybody but the server, which sees the updates and must be "
    "trusted to add the noise and to keep them.",
    poisson_clients=True,
)
"""McMahan et al. 2018."""
LOCAL = MechanismKind(
    name="local",
    title="By each client, on its update (local)",
    unit="client",
    protected=_CLIENT,
    neighbours="replace all that one client has",
    noise="messages",
    trusted="Each client adds the noise to its own update before it leaves: nobody else need be trusted.",
    note="Protects each client with all it has. Nobody else need be trusted, and the noise is the heaviest.",
)

SECURE_SUM = MechanismKind(
    name="secure-sum",
    title="By all clients together, under masks (secure sum)",
    unit="client",
    protected=_CLIENT,
    neighbours="replace all that one client has",
    noise="shares",
    trusted="Each client adds its share of the noise, and masks hide its update: the server learns the sum alone, as "
    "long as it follows the protocol and at most a third of a round's clients vanish or tell it their shares.",
    note="Protects each client with all it has, from a server that follows the protocol too: it sees the sum alone. "
    "All noise together is about what one client alone would have to add.",
)
"""Bonawitz et al. 2017, with shares of the noise as in Truex et al. 2019."""

MECHANISMS: dict[str, MechanismKind] = {kind.name: kind for kind in (DP_SGD, DP_FEDAVG, LOCAL, SECURE_SUM)}
"""By name, in the order in which they are offered."""
