"""What will be done to the data, decided once and read by sampler, clipper, noise and accountant alike.

What is done and what is priced can therefore not drift apart. Light: pages import it.
"""

import math
from dataclasses import dataclass, replace

from engine.config import SimulationConfig
from engine.errors import InvalidConfig

SHUFFLED = (
    "sampling='shuffle': batches are fixed, so ε has no amplification by sampling; what papers print for such batches "
    "assumes Poisson sampling, which was not done, and stands beside it."
)
"""What is said first of such an ε."""


@dataclass(frozen=True, kw_only=True)
class PrivacyPlan:
    """DP-SGD over one shard (Abadi et al. 2016, algorithm 1); or what is done to whole clients, where those are
    protected.

    examples: sentences in the shard, n, or clients. batch_size: expected sentences a step. steps: in the whole run.
    noise_multiplier: σ, noise standard deviation divided by clip_norm. clip_norm: C, L2; None is no clipping.
    delta: δ. sampling: "poisson", "shuffle", or "all" where everybody takes
    part in each. by_layer: whether each part of the tagger is clipped by itself, all of
    them together to C. noise_source: "seeded" or "system". Unit: one labelled sentence; neighbours differ by adding or
    removing one.
    """

    examples: int
    batch_size: int
    steps: int
    noise_multiplier: float
    clip_norm: float | None
    delta: float
    sampling: str
    by_layer: bool = False
    noise_source: str = "seeded"

    @classmethod
    def from_config(cls, config: SimulationConfig, examples: int) -> "PrivacyPlan":
        """The plan for ``config`` on a shard of ``examples`` sentences. Raises InvalidConfig if they do not fit."""
        batch_size = config.training.batch_size
        if examples < 1:
            raise InvalidConfig(f"examples={examples}, expected at least one training sentence")
        if batch_size > examples:
            raise InvalidConfig(f"batch_size={batch_size:,}, expected at most the {examples:,} training sentences")
        shuffled = config.privacy.sampling == "shuffle"
        per_epoch = math.ceil(examples / batch_size) if shuffled else examples / batch_size
        return cls(
            examples=examples,
            batch_size=batch_size,
            steps=max(1, round(config.training.epochs * per_epoch)),
            noise_multiplier=config.privacy.noise_multiplier,
            clip_norm=config.privacy.clip_norm,
            delta=config.privacy.delta,
            sampling=config.privacy.sampling,
            by_layer=config.privacy.clipping == "per-layer",
            noise_source=config.privacy.noise_source,
        )

    @classmethod
    def of_piece(cls, config: SimulationConfig, examples: int, every: int) -> "PrivacyPlan":
        """What a client does in a round to a piece of its sentences, without noise where whole clients are protected.
        every: sentences of all clients. A piece smaller than the batch is used whole at each step (q = 1), unless it is
        all there is. Where gradients travel, a round is a step and a client's batch is in proportion to its sentences
        (FedNER, section 3.2). Raises InvalidConfig."""
        training, gradients = config.training, config.federation.schedule == "gradients"
        batch = training.batch_size
        if gradients:
            batch = max(1, round(batch * examples / every))
        elif config.federation.clients > 1:
            batch = min(batch, examples)
        plan = cls.from_config(replace(config, training=replace(training, batch_size=batch)), examples)
        plan = replace(plan, steps=1) if gradients else plan
        return replace(plan, noise_multiplier=0.0, clip_norm=None) if config.privacy.kind.client_level else plan

    @classmethod
    def of_clients(cls, config: SimulationConfig, visits: int) -> "PrivacyPlan":
        """What is done to whole clients: by the server in each round, or, where they add the noise themselves, by each
        that takes part, so many times in all."""
        federation, privacy = config.federation, config.privacy
        messages = privacy.kind.client_side_noise
        return cls(
            examples=federation.clients,
            batch_size=federation.participants or federation.clients,
            steps=max(1, visits) if messages else federation.rounds,
            noise_multiplier=privacy.noise_multiplier,
            clip_norm=privacy.clip_norm,
            delta=privacy.delta,
            sampling="all" if messages else "poisson",
            noise_source=privacy.noise_source,
        )

    @property
    def private(self) -> bool:
        """Whether noise is added."""
        return self.noise_multiplier > 0

    @property
    def sampling_probability(self) -> float:
        """q: chance of each sentence to join a step."""
        return self.batch_size / self.examples

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on each coordinate of the clipped sum, σ·C."""
        return self.noise_multiplier * self.clip_norm if self.private and self.clip_norm is not None else 0.0

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one permutation when shuffling; the last one may be smaller."""
        return math.ceil(self.examples / self.batch_size)

    def warnings(self) -> tuple[str, ...]:
        """What a reader of this plan's ε should know first, one sentence each."""
        found = []
        if self.private and self.delta >= 1 / self.examples:
            found.append(
                f"delta={self.delta:g} is not below 1/n = {1 / self.examples:.2g} for the {self.examples:,} training "
                "sentences: such a δ would allow a mechanism that publishes one sentence whole."
            )
        if self.private and self.sampling == "shuffle":
            found.append(SHUFFLED)
        return tuple(found)


def tier(epsilon: float) -> str:
    """How much an ε promises, in the tiers of Ponomareva et al. 2023 ("How to DP-fy ML", section 5.2.1)."""
    if epsilon <= 1:
        return "strong"
    if epsilon <= 10:
        return "reasonable"
    return "none" if math.isinf(epsilon) else "weak"
