"""The result of a run's noise check: its measurements, and the differences from the plan."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

_NUMBER = re.compile(r"[+−-]?\d[\d,.]*(?:e[+-]?\d+)?(?: %)?(?<![.,])")
"""A number in the text of a fault: a step, a sentence, a norm, or a share of the noise."""


@dataclass(frozen=True)
class LayerNoise:
    """The noise on one layer's weights.

    Attributes:
        title: Name of the layer.
        ratio: Its standard deviation ÷ the planned one.
        tolerance: Largest deviation of the ratio from 1 by chance.
    """

    title: str
    ratio: float
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class NoiseCheck:
    """Measurements on the applied updates compared with the plan, since the start of the run.

    Records of engine version 5 have no fields from ``layers`` on. Withheld values are None or 0.

    Attributes:
        steps: Number of measured steps.
        noise_std: Standard deviation of the noise on each coordinate of the clipped sum, or None where the weights'
            rounding hides it.
        noise_planned: σ·C.
        noise_tolerance: Largest difference of the two by chance.
        clipped_norm_max: Largest L2 norm of a sentence's contribution among ``sentences_measured``.
        clip_norm: C.
        sentences_measured: Number of measured contributions.
        batch_mean: Mean number of sentences sampled in a step.
        batch_planned: n·q.
        batch_std: Standard deviation of the number of sentences sampled in a step.
        batch_std_planned: √(n·q·(1−q)), or None where sampling is not Poisson.
        faults: Differences from the plan, one sentence each.
        unit: The unit that is clipped and sampled, "sentence" or "client". With clients, all fields on sentences refer
            to clients, and steps are rounds.
        layers: The noise by layer.
        least_visits: Smallest number of measurements of a weight.
        shape_distance: Largest distance of the noise's distribution from the normal one (Kolmogorov and Smirnov).
        along: Sum of the noise's components along the clipped sums, in standard deviations.
        along_spread: Spread of these components ÷ the planned one.
        looks: Steps whose sum was recomputed.
        looks_counted: Those where rounding does not decide the result.
        largest_gap: Largest distance between the applied and the recomputed sum, in clip norms.
        draws_compared: Draws of noise that were compared with their key; 0 in records before engine version 6 compared
            them, 1 if withheld.
        sampling_compared: Sentences whose sampling at a step was compared with the step's key; 1 if withheld.
        noise_withheld: Whether ``noise_std`` was measured and is withheld.
    """

    steps: int
    noise_std: float | None
    noise_planned: float
    noise_tolerance: float
    clipped_norm_max: float | None
    clip_norm: float
    sentences_measured: int
    batch_mean: float | None
    batch_planned: float
    batch_std: float | None
    batch_std_planned: float | None
    faults: tuple[str, ...] = ()
    unit: str = "sentence"
    layers: tuple[LayerNoise, ...] = ()
    least_visits: int = 0
    shape_distance: float = 0.0
    along: float = 0.0
    along_spread: float = 0.0
    looks: int = 0
    looks_counted: int = 0
    largest_gap: float = 0.0
    draws_compared: int = 0
    sampling_compared: int = 0
    noise_withheld: bool = False

    @property
    def withheld(self) -> bool:
        """Whether the measured values are withheld; the results of the tests are not."""
        return self.batch_mean is None

    @property
    def measurable(self) -> bool:
        """Whether the rounding of the weights leaves the noise measurable."""
        return self.noise_std is not None or self.noise_withheld

    @property
    def failed(self) -> bool:
        """Whether the run deviated from its plan, so that its ε does not hold."""
        return bool(self.faults)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; :meth:`from_dict` is the inverse."""
        values = asdict(self) | {"faults": list(self.faults), "layers": [asdict(layer) for layer in self.layers]}
        if not self.withheld:
            del values["noise_withheld"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "NoiseCheck":
        """Read the values of :meth:`to_dict`."""
        # The first records of engine version 6 have one more field, which is always 0.
        names = ("title", "ratio", "tolerance")
        layers = tuple(LayerNoise(**{name: layer[name] for name in names}) for layer in values.get("layers", ()))
        return cls(**{**values, "faults": tuple(values["faults"]), "layers": layers})

    @property
    def passed(self) -> bool:
        """Whether the run demonstrably followed its plan; False where rounding hides the noise."""
        return not self.failed and self.measurable

    def without_private_values(self) -> "NoiseCheck":
        """Return the check without values that are computed from samples and noise, also in the texts of faults."""
        return replace(
            self,
            faults=tuple(_NUMBER.sub("…", fault) for fault in self.faults),
            noise_std=None,
            clipped_norm_max=None,
            sentences_measured=0,
            batch_mean=None,
            batch_std=None,
            layers=(),
            shape_distance=0.0,
            along=0.0,
            along_spread=0.0,
            looks_counted=0,
            largest_gap=0.0,
            draws_compared=min(1, self.draws_compared),
            sampling_compared=min(1, self.sampling_compared),
            noise_withheld=self.measurable,
        )
