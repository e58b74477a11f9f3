"""What was measured of a configuration's privacy: runs with canaries, and membership inference."""

from dataclasses import dataclass

from engine.config import SimulationConfig

RATES = tuple(10 ** (step / 12 - 4) for step in range(49))
"""Shares of other sentences taken for members, 0.0001 to 1, at which curves are drawn."""
SHOWN = (0.001, 0.01)
"""Shares at which the share of members caught is said."""


@dataclass(frozen=True, kw_only=True)
class CanaryAudit:
    """What one run with canaries gave.

    kind: "directions" or "sentences". claimed: the run's ε at ``delta``. canaries: of which ``members`` were in, by
    coins. made, right: of as many guesses so many were right, all guessed. At least lost, together at 95 %: bound, if
    nothing is known of the mechanism; bound_of_steps, if it is so many steps of DP-SGD with some noise;
    bound_of_trials, if besides no canary tells of another, None where they do. check_failed: the noise check's verdict
    on the same run, None without noise.
    """

    kind: str
    claimed: float
    delta: float
    canaries: int
    made: int
    right: int
    bound: float
    bound_of_steps: float
    bound_of_trials: float | None
    check_failed: bool | None

    @property
    def best(self) -> float:
        """The highest of the bounds."""
        return max(self.bound, self.bound_of_steps, self.bound_of_trials or 0.0)

    @property
    def contradicted(self) -> bool:
        """Whether more is lost than is claimed."""
        return self.best > self.claimed


@dataclass(frozen=True, kw_only=True)
class AttackCurve:
    """One attack on membership. area: below its curve, mean over models. caught: share of members caught at each of
    ``RATES``, mean over models. shown: the same at each of ``SHOWN``, mean and the ends of its 95 % interval: over
    models, or by Clopper and Pearson where one model was attacked."""

    attack: str
    area: float
    caught: tuple[float, ...]
    shown: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, kw_only=True)
class MembershipAudit:
    """What membership inference found.

    claimed: ε of each model that was attacked, at ``delta``. models: that were attacked; references: that each was
    compared with. sentences: that were asked for. curves: of each attack. best: name of that with the largest area.
    by_type, by_client: of the best one, its area among sentences with a name of that type, and among those that each
    client holds against those that nobody does. at_risk: numbers of the sentences that models betray most, with how
    many standard deviations *in* and *out* are apart.
    """

    claimed: float
    delta: float
    models: int
    references: int
    sentences: int
    curves: tuple[AttackCurve, ...]
    best: str
    by_type: dict[str, float]
    by_client: dict[str, float]
    at_risk: tuple[tuple[int, float], ...]

    @property
    def strongest(self) -> AttackCurve:
        """The curve of the best attack."""
        return next(curve for curve in self.curves if curve.attack == self.best)


@dataclass(frozen=True, kw_only=True)
class ServerReading:
    """What a server reads in messages at a noise multiplier. there: words with a vector that their senders have; said:
    that it names; right: those that it names rightly. names: words that are part of a name; names_read: those of them
    that it names. by_message: whether it used the messages at all, or did better with frequent words."""

    noise_multiplier: float
    there: int
    said: int
    right: int
    names: int
    names_read: int
    by_message: bool

    @property
    def precision(self) -> float:
        """Of what is named, 0 to 1; 0 where nothing is."""
        return self.right / max(1, self.said)

    @property
    def recall(self) -> float:
        """Of what is there, 0 to 1."""
        return self.right / max(1, self.there)


@dataclass(frozen=True, kw_only=True)
class ServerAudit:
    """What a curious server reads in the first messages of a federated run.

    claimed: the run's ε at ``delta``. sums: whether it sees the sum of all alone. clients: messages that were attacked.
    sentences: of a client, on average; steps: that it takes before it sends. readings: at some noise multipliers,
    ascending, the run's own among them.
    """

    claimed: float
    delta: float
    sums: bool
    clients: int
    sentences: int
    steps: int
    readings: tuple[ServerReading, ...]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All that was measured of one configuration. run_id: of the run with it. white, black: canaries that are
    directions, and that are sentences. server: that reads the messages of a federated run. created: ISO 8601, UTC.
    machine: its class. command: that measures again. engine_version: of the code that was measured."""

    run_id: str
    config: SimulationConfig
    created: str
    machine: str
    command: str
    engine_version: str
    white: CanaryAudit | None = None
    black: CanaryAudit | None = None
    membership: MembershipAudit | None = None
    server: ServerAudit | None = None
