"""The privacy plan: one object from which sampler, clipper, noise and accountant read their parameters.

The training and its accounting can therefore not diverge. This module is light, because pages import it.
"""

import math
from dataclasses import dataclass, replace

from engine.config import SimulationConfig
from engine.errors import InvalidConfig

SHUFFLED = (
    "sampling='shuffle': batches are shuffled, so ε has no amplification by subsampling. The ε that papers report for "
    "such batches assumes Poisson sampling, which was not used; it is shown for comparison."
)
"""First warning about the ε of shuffled batches."""


@dataclass(frozen=True, kw_only=True)
class PrivacyPlan:
    """DP-SGD over one shard (Abadi et al. 2016, algorithm 1), or the mechanism applied to whole clients if those are
    protected.

    The protected unit is one labelled sentence, with add-or-remove adjacency.

    Attributes:
        examples: Sentences in the shard, n, or clients.
        batch_size: Expected number of sentences in a step.
        steps: Steps of the whole run.
        noise_multiplier: σ, the noise standard deviation divided by ``clip_norm``.
        clip_norm: C, an L2 norm; None means no clipping.
        delta: δ.
        sampling: "poisson", "shuffle", or "all" if every unit takes part in each step.
        by_layer: Whether each layer of the tagger is clipped separately, all of them together to C.
        noise_source: "seeded" or "system".
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
        """Return the plan for ``config`` on a shard of ``examples`` sentences.

        Raises InvalidConfig if they do not fit.
        """
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
        """Return the plan of a client's training in a round on a piece of its sentences.

        The plan has no noise if whole clients are protected. A piece smaller than the batch is used whole at each step
        (q = 1), unless there is one client. With the schedule "gradients" a round is a step, and a client's batch is in
        proportion to its sentences (FedNER, section 3.2).

        Args:
            config: The configuration.
            examples: Sentences in the piece.
            every: Sentences of all clients.

        Raises:
            InvalidConfig: If the batch does not fit the piece.
        """
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
        """Return the plan of the mechanism applied to whole clients.

        The server applies it in each round, or each participant applies it to its own message, ``visits`` times in
        total.
        """
        federation, privacy = config.federation, config.privacy
        messages = privacy.kind.client_side_noise
        return cls(
            examples=federation.clients,
            batch_size=federation.participants or federation.clients,
            steps=max(1, visits) if messages else federation.rounds,
            noise_multiplier=privacy.noise_multiplier,
            clip_norm=privacy.clip_norm,
            delta=privacy.delta,
            sampling="poisson" if privacy.kind.poisson_clients else "all",
            noise_source=privacy.noise_source,
        )

    @property
    def private(self) -> bool:
        """Whether noise is added."""
        return self.noise_multiplier > 0

    @property
    def sampling_probability(self) -> float:
        """q: the probability that a sentence joins a step."""
        return self.batch_size / self.examples

    @property
    def noise_std(self) -> float:
        """σ·C: the standard deviation of the noise on each coordinate of the clipped sum."""
        return self.noise_multiplier * self.clip_norm if self.private and self.clip_norm is not None else 0.0

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one permutation when shuffling; the last batch may be smaller."""
        return math.ceil(self.examples / self.batch_size)

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings for readers of this plan's ε, one sentence each."""
        warnings = []
        if self.private and self.delta >= 1 / self.examples:
            warnings.append(
                f"delta={self.delta:g} is not below 1/n = {1 / self.examples:.2g} for the {self.examples:,} training "
                "sentences. Such a δ allows a mechanism that publishes one whole sentence."
            )
        if self.private and self.sampling == "shuffle":
            warnings.append(SHUFFLED)
        return tuple(warnings)


def tier(epsilon: float) -> str:
    """Return the strength of an ε in the tiers of Ponomareva et al. 2023 ("How to DP-fy ML", section 5.2.1)."""
    if epsilon <= 1:
        return "strong"
    if epsilon <= 10:
        return "reasonable"
    return "none" if math.isinf(epsilon) else "weak"
