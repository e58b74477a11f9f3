"""The privacy mechanism of a run."""

from dataclasses import dataclass, field
from typing import Any

from engine.config.mechanism_registry import MECHANISMS, MechanismKind
from engine.config.parameters import Parameter, check_fields, parameters_of
from engine.config.value_types import Choice, Number
from engine.errors import InvalidConfig

_SAMPLINGS = {"poisson": "Poisson sampling", "shuffle": "shuffled batches"}
_CLIPPINGS = {"joint": "joint clipping", "per-layer": "per-layer clipping"}
_NOISE_SOURCES = {"seeded": "seeded noise", "system": "system noise"}
NOISE_SOURCES = tuple(_NOISE_SOURCES)
NOISE = (0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Noise multipliers offered in trade-off curves, from none to too much."""
AUTOMATIC: Any = object()
"""Placeholder for an omitted clip norm; it never remains in a configuration."""
DEFAULT_CLIP_NORM = 1.5
"""The paper's clip norm (dp-fl-ner, footnote 4)."""


@dataclass(frozen=True, kw_only=True)
class PrivacyConfig:
    """The processing of each sentence's gradient before it changes the weights.

    Attributes:
        noise_multiplier: σ, standard deviation of the noise divided by clip_norm, dimensionless; 0 is no privacy.
        clip_norm: C, largest L2 norm of one sentence's gradient, in units of the gradient. None means no clipping,
            allowed only without noise. If omitted, it is 1.5 with noise and None without.
        delta: δ of (ε, δ)-differential privacy, a probability.
        sampling: "poisson" (each sentence joins each step independently) or "shuffle" (shuffled batches of a
            permutation). The latter only serves to reproduce papers: its reported ε assumes Poisson sampling, which
            does not hold.
        mechanism: Where the noise is added, which determines the protected unit and the trusted parties. "dp-sgd": each
            client adds it to each step of its own training; protects a sentence, from the server too. "dp-fedavg": the
            server adds it to the sum of the clients' clipped updates; protects a client from all but the server
            (McMahan et al. 2018). "local": each client adds it to its clipped update; protects a client from all
            others. "secure-sum": all clients of a round add it together, and the server sees only the sum of their
            clipped updates; protects a client, from the server too. In the last three, clip_norm bounds the L2 norm of
            a client's update of all weights.
        clipping: "joint" (a sentence's gradient is scaled as a whole) or "per-layer". The latter clips each layer
            separately to C ÷ √(number of layers with weights): the norm is at most C, and the noise is the same.
        noise_source: Source of the keys of noise and samples. "seeded": derived from the seed and the configuration, so
            that the run is reproducible. This is a simulation: anyone who knows the seed can subtract the noise.
            "system": from the operating system, destroyed when the run ends; for taggers to be released. Without
            noise it is always "seeded".
    """

    noise_multiplier: float = field(
        default=1.0,
        metadata=Parameter(
            values=Number(low=0, high=10_000, step=0.1),
            label="Noise multiplier σ",
            option_help="σ: noise standard deviation ÷ clip norm. 0: no privacy.",
            widget_help="Standard deviation of the noise on each step's gradient, divided by the clip norm. The clip "
            "norm is the most that one sentence can change the gradient.",
            heading="σ",
        ).metadata,
    )
    clip_norm: float | None = field(
        default=AUTOMATIC,
        metadata=Parameter(
            values=Number(low=0, high=1e6, low_open=True, least=1e-6, optional=True),
            label="Clip norm C",
            option_help="C: maximum L2 norm of one sentence's gradient.  [default: 1.5; none if σ is 0]",
            widget_help="Largest L2 norm of one sentence's gradient. Larger gradients are scaled down to it. "
            "Automatic: 1.5 with noise, no clipping without.",
            titles={None: "not clipped"},
            labels={None: "automatic"},
        ).metadata,
    )
    delta: float = field(
        default=1e-5,
        metadata=Parameter(
            values=Number(low=0, high=1, low_open=True, high_open=True, least=1e-12, most=0.999, format="%.0e"),
            label="δ",
            option_help="δ of (ε, δ)-differential privacy, a probability.",
            widget_help="A probability may exceed the limit of ε by at most δ. Choose δ far below 1/n for n "
            "training sentences.",
            heading="δ",
        ).metadata,
    )
    sampling: str = field(
        default="poisson",
        metadata=Parameter(
            values=Choice(names=tuple(_SAMPLINGS)),
            label="Sampling",
            option_help="Batch sampling: poisson, or shuffle (as in papers; its ε is far larger).",
            widget_help="Poisson: each sentence is drawn independently at each step, as the accounting assumes. "
            "Shuffled: shuffled batches as in most papers, with no amplification by subsampling.",
            titles=_SAMPLINGS,
            self_explanatory=True,
        ).metadata,
    )
    mechanism: str = field(
        default="dp-sgd",
        metadata=Parameter(
            values=Choice(names=tuple(MECHANISMS)),
            label="Noise mechanism",
            option_help="Privacy mechanism: "
            + ", ".join(f"{name} ({kind.option_help})" for name, kind in MECHANISMS.items())
            + ".",
            titles={name: kind.short for name, kind in MECHANISMS.items()},
            labels={name: kind.title for name, kind in MECHANISMS.items()},
            self_explanatory=True,
        ).metadata,
    )
    clipping: str = field(
        default="joint",
        metadata=Parameter(
            values=Choice(names=tuple(_CLIPPINGS)),
            label="Clipping",
            option_help="joint (a sentence's whole gradient) or per-layer (each layer to its share of C).",
            widget_help="Joint: the gradient over all weights is clipped to C. Per layer: each layer is clipped "
            "separately, and all layers together have norm C at most.",
            titles=_CLIPPINGS,
            self_explanatory=True,
        ).metadata,
    )
    noise_source: str = field(
        default="seeded",
        metadata=Parameter(
            values=Choice(names=NOISE_SOURCES),
            label="Noise source",
            option_help="Source of the keys for noise and samples: seeded (reproducible; simulation only, since the "
            "seed is public) or system (keys of the operating system, destroyed at the end; for a tagger to release).",
            widget_help="Seed: the run is reproducible, but anyone who knows the seed can subtract the noise. Use it "
            "for simulation only. System: the operating system's random numbers, for a model that you release. Their "
            "keys are destroyed when the run ends, so it cannot be rerun.",
            heading="noise source",
            titles=_NOISE_SOURCES,
            labels={"seeded": "Seed: simulation only", "system": "System: for release"},
            self_explanatory=True,
        ).metadata,
    )

    def __post_init__(self) -> None:
        noise_multiplier = parameters_of(PrivacyConfig)["noise_multiplier"]
        noise_multiplier.values.check("noise_multiplier", self.noise_multiplier)
        if self.clip_norm is AUTOMATIC:
            object.__setattr__(self, "clip_norm", DEFAULT_CLIP_NORM if self.private else None)
        if self.clip_norm is None and self.private:
            raise InvalidConfig(
                f"clip_norm=None, expected a positive number, since noise_multiplier={self.noise_multiplier:g}"
            )
        check_fields(self)
        if not self.private:
            object.__setattr__(self, "noise_source", "seeded")

    @property
    def private(self) -> bool:
        """Whether noise is added."""
        return self.noise_multiplier > 0

    @property
    def protects_clients(self) -> bool:
        """Whether noise protects whole clients."""
        return self.private and self.kind.client_level

    @property
    def kind(self) -> MechanismKind:
        """Properties of the mechanism."""
        return MECHANISMS[self.mechanism]
