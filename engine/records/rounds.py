"""What a run reports on its way: frozen values that survive a trip through JSON unchanged.

ε = ∞ (no privacy) is ``math.inf`` in Python and ``null`` in JSON, which has no infinity.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from engine.records.scores import EntityScores


@dataclass(frozen=True, kw_only=True)
class PrivacySpent:
    """What the training sentences have lost so far, computed from the plan and the steps taken.

    epsilon, delta: the pair of (ε, δ)-differential privacy; ε is ∞ without noise. unit: what is protected.
    neighbouring: the relation between two neighbouring corpora. accountant: how ε was computed. assumptions: what
    must hold for ε to mean what it says, one sentence each. rdp_epsilon: the same by Rényi accounting, never smaller
    in theory. poisson_epsilon: where batches are fixed, what papers print: ε as if each sentence had been drawn by
    itself, which does not hold; else None.
    """

    epsilon: float
    delta: float
    unit: str = "one labelled sentence"
    neighbouring: str = "add or remove one"
    accountant: str = "pld"
    assumptions: tuple[str, ...] = ()
    rdp_epsilon: float = math.inf
    poisson_epsilon: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ε = ∞ as None; :meth:`from_dict` is the inverse."""
        values = asdict(self)
        values["assumptions"] = list(self.assumptions)
        for name in ("epsilon", "rdp_epsilon"):
            values[name] = None if math.isinf(values[name]) else values[name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PrivacySpent":
        """Read what :meth:`to_dict` wrote."""
        known = dict(values)
        # Until engine version 5 the headline of fixed batches was the figure with amplification.
        unamplified = known.pop("unamplified_epsilon", None)
        if unamplified is not None:
            known |= {"poisson_epsilon": known["epsilon"], "epsilon": unamplified, "rdp_epsilon": unamplified}
        for name in ("epsilon", "rdp_epsilon"):
            known[name] = math.inf if known[name] is None else float(known[name])
        known["assumptions"] = tuple(known["assumptions"])
        return cls(**known)


@dataclass(frozen=True)
class LayerNoise:
    """The noise on one layer's weights. ratio: its standard deviation ÷ the planned one; tolerance: how far chance may
    move that from 1."""

    title: str
    ratio: float
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class NoiseCheck:
    """What was measured on the updates that were really applied, against the plan, from the start of the run.

    steps: how many were measured. noise_std: standard deviation of the noise on each coordinate of the clipped sum, or
    None where the weights' rounding hides it; noise_planned: σ·C; noise_tolerance: how far chance may move the first
    from the second. clipped_norm_max: longest contribution of a single sentence (L2) among sentences_measured;
    clip_norm: C. batch_mean, batch_std: of the number of sentences sampled a step; batch_planned: n·q;
    batch_std_planned: √(n·q·(1−q)), None where sampling is not Poisson. faults: what does not fit the plan, one
    sentence each. unit: what is clipped and sampled, "sentence" or "client"; all that is said here of sentences then
    holds of clients, and rounds stand for steps.

    layers: the noise by layer. least_visits: how often each weight was measured, at least. shape_distance: largest
    distance of the noise's distribution from the normal one (Kolmogorov and Smirnov). along: the noise's
    components along the clipped sums, added up, in standard deviations; along_spread: their own spread ÷ the planned
    one. looks: steps whose sum was made anew; looks_counted: those where rounding does not decide what comes out;
    largest_gap: between the sum that was used and that one, in clip norms. Records of engine version 5 have none of
    these.
    """

    steps: int
    noise_std: float | None
    noise_planned: float
    noise_tolerance: float
    clipped_norm_max: float
    clip_norm: float
    sentences_measured: int
    batch_mean: float
    batch_planned: float
    batch_std: float
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

    @property
    def failed(self) -> bool:
        """Whether the run did something else than its plan says: its ε is then worth nothing."""
        return bool(self.faults)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` is the inverse."""
        return asdict(self) | {"faults": list(self.faults), "layers": [asdict(layer) for layer in self.layers]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "NoiseCheck":
        """Read what :meth:`to_dict` wrote."""
        # The first records of engine version 6 had a number beside these that was always 0.
        known = ("title", "ratio", "tolerance")
        layers = tuple(LayerNoise(**{name: layer[name] for name in known}) for layer in values.get("layers", ()))
        return cls(**{**values, "faults": tuple(values["faults"]), "layers": layers})

    @property
    def passed(self) -> bool:
        """Whether the run was shown to do what its plan says: not where rounding hides its noise."""
        return not self.failed and self.noise_std is not None


@dataclass(frozen=True, kw_only=True)
class FederatedRound:
    """The last communication round before a record.

    round: how many are done, of rounds. clients: whose updates were joined; failed: whose training failed and who were
    left out. drift: root mean square over the clients of the L2 distance between their weights and the plain mean of
    them. update_norms: L2 norm of each client's update, before any clipping. bytes_down, bytes_up: weights sent to
    clients and received from them since the start of the run.
    """

    round: int
    rounds: int
    clients: tuple[int, ...]
    failed: tuple[int, ...]
    drift: float
    update_norms: tuple[float, ...]
    bytes_down: int
    bytes_up: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` is the inverse."""
        return asdict(self) | {name: list(getattr(self, name)) for name in ("clients", "failed", "update_norms")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "FederatedRound":
        """Read what :meth:`to_dict` wrote."""
        return cls(**{**values, **{name: tuple(values[name]) for name in ("clients", "failed", "update_norms")}})


@dataclass(frozen=True, kw_only=True)
class PlatformRecord:
    """One platform of a federation at the moment of a record. name: of its corpus. privacy: what its costliest sentence
    has lost, or, where whole clients are protected, what it has. scores, test, noise_check: as in the record."""

    name: str
    privacy: PrivacySpent
    scores: EntityScores
    test: EntityScores | None = None
    noise_check: NoiseCheck | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` is the inverse."""
        return {
            "name": self.name,
            "privacy": self.privacy.to_dict(),
            "scores": self.scores.to_dict(),
            "test": self.test.to_dict() if self.test else None,
            "noise_check": self.noise_check.to_dict() if self.noise_check else None,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PlatformRecord":
        """Read what :meth:`to_dict` wrote."""
        return cls(**(dict(values) | _nested(values)))


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """What records of runs and of platforms hold alike."""
    test, check = values.get("test"), values.get("noise_check")
    return {
        "privacy": PrivacySpent.from_dict(values["privacy"]),
        "scores": EntityScores.from_dict(values["scores"]),
        "test": EntityScores.from_dict(test) if test else None,
        "noise_check": NoiseCheck.from_dict(check) if check else None,
    }


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """The state of a run at one moment.

    round: 0, 1, 2 … in the order of reporting. step: optimiser steps taken by all clients together, of steps_total.
    examples_seen: sentences
    sampled so far, with repeats. scores: on the validation part. test: on the test part, in the last
    record, and after each phase of an incremental run.
    loss: mean training loss per sentence since the last record. clipped_fraction: share of sampled sentences whose
    gradient was scaled down since the last record, in joint clipping. layer_norms: median L2 norm before clipping
    within each layer, by its name, since the last record. noise_to_signal: L2 norm of the noise that is expected on
    the clipped sum (or on the sum of the clients' updates) ÷ root mean square of the L2 norms of those sums since the
    last record; None without noise. gradient_norm_median, gradient_norm_max: L2 norms before clipping, since the last
    record. nonfinite: sentences whose gradient was not finite and contributed zero, so far.
    seconds: wall time since the start, pauses between a crash and a resume left out. noise_check: what was measured of
    the mechanism so far, None in a run that adds no noise. federation: the last communication round, None in central
    training. platforms: each of them by itself, where clients have corpora of their own; scores are then those of all
    together, with types called by their platform, privacy that of the one whom it costs most, and noise_check one that
    did not pass, if there is any.
    """

    round: int
    step: int
    steps_total: int
    examples_seen: int
    privacy: PrivacySpent
    scores: EntityScores
    loss: float
    clipped_fraction: float
    gradient_norm_median: float
    gradient_norm_max: float
    nonfinite: int
    seconds: float
    test: EntityScores | None = None
    noise_check: NoiseCheck | None = None
    federation: FederatedRound | None = None
    layer_norms: Mapping[str, float] = field(default_factory=dict)
    noise_to_signal: float | None = None
    platforms: tuple[PlatformRecord, ...] = ()

    @property
    def progress(self) -> float:
        """Share of the steps done, from 0 to 1."""
        return self.step / self.steps_total

    @property
    def final(self) -> bool:
        """Whether the run ended with this record."""
        last = self.federation is None or self.federation.round == self.federation.rounds
        return self.test is not None and self.step == self.steps_total and last

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` is the inverse."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "platforms"}
        own = {"platforms": [platform.to_dict() for platform in self.platforms]} if self.platforms else {}
        return (
            values
            | own
            | {
                "layer_norms": dict(self.layer_norms),
                "privacy": self.privacy.to_dict(),
                "scores": self.scores.to_dict(),
                "test": self.test.to_dict() if self.test else None,
                "noise_check": self.noise_check.to_dict() if self.noise_check else None,
                "federation": self.federation.to_dict() if self.federation else None,
            }
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RoundRecord":
        """Read what :meth:`to_dict` wrote."""
        known = dict(values) | _nested(values)
        known["platforms"] = tuple(map(PlatformRecord.from_dict, known.get("platforms", ())))
        known["federation"] = FederatedRound.from_dict(known["federation"]) if known.get("federation") else None
        return cls(**known)
