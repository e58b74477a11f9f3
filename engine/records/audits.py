"""Measurements of a configuration's privacy: runs with canaries, membership inference, gradient inversion."""

from dataclasses import dataclass

from engine.config import SimulationConfig

RATES = tuple(10 ** (step / 12 - 4) for step in range(49))
"""False-positive rates at which ROC curves are drawn, 0.0001 to 1."""
SHOWN = (0.001, 0.01)
"""False-positive rates at which the TPR is reported."""


@dataclass(frozen=True, kw_only=True)
class CanaryAudit:
    """Result of one run with canaries.

    Attributes:
        kind: "directions" or "sentences".
        claimed: The run's ε at ``delta``.
        delta: δ of all ε.
        canaries: Number of canaries; an independent coin flip includes each.
        made: Number of guesses.
        right: Number of correct guesses.
        bound: Lower bound on ε (95 % confidence) without any assumption on the mechanism.
        bound_of_steps: The same, if the mechanism is this number of DP-SGD steps with some noise.
        bound_of_trials: The same, if canaries are also independent of each other; None where they are not.
        check_failed: Whether the noise check failed on the same run; None without noise.
        trials: Correct guesses and guesses behind ``bound_of_trials``. None if that bound comes from error rates on
            half of the canaries, as in older audits.
        examples: Training sentences, canaries included; None in older audits.
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
    trials: tuple[int, int] | None = None
    examples: int | None = None

    @property
    def best(self) -> float:
        """The largest of the lower bounds."""
        return max(self.bound, self.bound_of_steps, self.bound_of_trials or 0.0)

    @property
    def contradicted(self) -> bool:
        """Whether the lower bound exceeds the claimed ε."""
        return self.best > self.claimed


@dataclass(frozen=True, kw_only=True)
class AttackCurve:
    """ROC curve of one membership-inference attack.

    Attributes:
        attack: Name of the attack.
        area: Area under the curve, mean over models.
        caught: TPR at each of ``RATES``, mean over models.
        shown: TPR at each of ``SHOWN``: mean, and both ends of its 95 % CI. The CI covers the variation between models,
            or is Clopper and Pearson's for one model.
    """

    attack: str
    area: float
    caught: tuple[float, ...]
    shown: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, kw_only=True)
class MembershipAudit:
    """Result of membership inference.

    Attributes:
        claimed: ε of each attacked model at ``delta``.
        delta: δ of ``claimed``.
        models: Number of attacked models.
        references: Shadow models with which each is compared.
        sentences: Number of sentences asked for.
        curves: ROC curve of each attack.
        best: Name of the attack with the largest area.
        by_type: Area of the best attack among sentences with an entity of each type.
        by_client: Area of the best attack for the sentences of each client, against those of no client.
        at_risk: Indices of the most exposed sentences, each with the distance between *in* and *out* in standard
            deviations.
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
    """Words that a server reconstructs from messages at one noise multiplier.

    Attributes:
        noise_multiplier: σ.
        there: Words of the senders that have a vector.
        said: Words that the server guesses.
        right: Correct guesses.
        names: Words that are part of an entity.
        names_read: Those of them that the server guesses.
        by_message: Whether it used the messages, or did better with frequent words.
    """

    noise_multiplier: float
    there: int
    said: int
    right: int
    names: int
    names_read: int
    by_message: bool

    @property
    def precision(self) -> float:
        """Share of correct guesses, 0 to 1; 0 without guesses."""
        return self.right / max(1, self.said)

    @property
    def recall(self) -> float:
        """Share of words guessed, 0 to 1."""
        return self.right / max(1, self.there)


@dataclass(frozen=True, kw_only=True)
class ServerAudit:
    """Words that an honest-but-curious server reconstructs from the first messages of a federated run.

    Attributes:
        claimed: The run's ε at ``delta``.
        delta: δ of ``claimed``.
        sums: Whether the server sees only the sum of all messages.
        clients: Number of attacked messages.
        sentences: Sentences of a client, on average.
        steps: Training steps of a client before it sends.
        readings: Results at some noise multipliers, ascending, including the run's own.
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
    """All privacy measurements of one configuration.

    Attributes:
        run_id: Run with this configuration.
        config: The configuration.
        created: ISO 8601, UTC.
        machine: Class of the machine.
        command: Command that repeats the measurement.
        engine_version: Version of the measured code.
        white: White-box audit, whose canaries are directions.
        black: Black-box audit, whose canaries are sentences.
        membership: Membership inference.
        server: Gradient inversion by the server of a federated run.
    """

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
