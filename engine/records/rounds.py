"""Records that a run reports during training, as frozen values that JSON preserves exactly.

ε = ∞ (no privacy) is ``math.inf`` in Python and ``null`` in JSON, which has no infinity.

Losses, gradient norms, sample sizes and the values of the noise check are computed from private samples and noise
without any noise of their own, so ε does not cover them. Records of runs with system noise, which protect real
sentences, do not hold them (:meth:`RoundRecord.without_private_values`). In a simulation anyone who knows the seed can
compute them.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from engine.config.mechanism_registry import DP_SGD, ZERO_OUT
from engine.records.assumption_texts import (
    BY_TAGS,
    DISJOINT,
    UNDECLARED_TYPES,
    current,
    of_moved_sentences,
    with_own_types,
)
from engine.records.noise_check import NoiseCheck
from engine.records.scores import EntityScores

SMALLEST_DELTA = 1e-9
"""Smallest δ at which rounding does not decide the ε of privacy loss distributions; after more than 100,000 steps it is
larger (:func:`engine.privacy.accounting.smallest_delta`)."""


@dataclass(frozen=True, kw_only=True)
class PrivacySpent:
    """Privacy loss of the training sentences so far, computed from the plan and the steps taken.

    Attributes:
        epsilon: ε of (ε, δ)-differential privacy, ∞ without noise.
        delta: δ, a probability.
        unit: The protected unit.
        neighbouring: The adjacency relation between corpora.
        accountant: Accountant that computed ε.
        assumptions: Conditions for ε to hold, one sentence each.
        rdp_epsilon: ε by Rényi accounting, in theory never smaller than ``epsilon``.
        poisson_epsilon: For shuffled batches, the reported ε of papers: ε as if batches were Poisson samples, which
            does not hold. Else None.
    """

    epsilon: float
    delta: float
    unit: str = "one labelled sentence"
    neighbouring: str = DP_SGD.neighbours
    accountant: str = "pld"
    assumptions: tuple[str, ...] = ()
    rdp_epsilon: float = math.inf
    poisson_epsilon: float | None = None

    def with_own_types(self, *, declared: bool) -> "PrivacySpent":
        """Return the privacy loss on a user's own corpus; see :func:`assumption_texts.with_own_types`."""
        return replace(self, assumptions=with_own_types(self.assumptions, declared=declared))

    def with_moved_sentences(self) -> "PrivacySpent":
        """Return the privacy loss where one more sentence may move others, so that only zero-out adjacency holds."""
        return replace(self, neighbouring=ZERO_OUT) if self.unit == PrivacySpent.unit else self

    def with_label_skew(self) -> "PrivacySpent":
        """Return the privacy loss of a run of version 0.7.0 or earlier that assigned sentences by all tags."""
        return replace(self, assumptions=tuple(BY_TAGS if each == DISJOINT else each for each in self.assumptions))

    @property
    def types_are_public(self) -> bool:
        """Whether the entity types are declared or those of a published corpus, so that a model may show them."""
        return UNDECLARED_TYPES not in self.assumptions

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with ε = ∞ as None; :meth:`from_dict` is the inverse."""
        values = asdict(self)
        values["assumptions"] = list(self.assumptions)
        for name in ("epsilon", "rdp_epsilon"):
            values[name] = None if math.isinf(values[name]) else values[name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PrivacySpent":
        """Read the values of :meth:`to_dict`."""
        fields = dict(values)
        # Until engine version 5 ``epsilon`` of shuffled batches was the value with amplification.
        unamplified = fields.pop("unamplified_epsilon", None)
        if unamplified is not None:
            fields |= {"poisson_epsilon": fields["epsilon"], "epsilon": unamplified, "rdp_epsilon": unamplified}
        for name in ("epsilon", "rdp_epsilon"):
            fields[name] = math.inf if fields[name] is None else float(fields[name])
        if fields.get("unit", cls.unit) == cls.unit and of_moved_sentences(fields["assumptions"]):
            fields["neighbouring"] = ZERO_OUT
        fields["assumptions"] = tuple(map(current, fields["assumptions"]))
        # Up to version 0.6.0 rounding decided ε at such a δ; the Rényi ε beside it is valid.
        rounded = fields.get("accountant", "pld") == "pld" and fields["delta"] < SMALLEST_DELTA
        if rounded and fields["epsilon"] > 0 and math.isfinite(fields.get("rdp_epsilon", math.inf)):
            fields |= {"epsilon": fields["rdp_epsilon"], "accountant": "rdp"}
        return cls(**fields)


@dataclass(frozen=True, kw_only=True)
class FederatedRound:
    """The last communication round before a record.

    Attributes:
        round: Number of finished rounds.
        rounds: Number of all rounds.
        clients: Clients whose updates were averaged; None if withheld, as all fields below.
        failed: Clients whose training failed, which were left out; empty if withheld.
        drift: Root mean square over the clients of the L2 distance between their weights and the unweighted mean.
        update_norms: L2 norm of each client's update before clipping; empty if withheld.
        bytes_down: Bytes of weights sent to clients since the start of the run.
        bytes_up: Bytes of weights received from clients since the start of the run.
    """

    round: int
    rounds: int
    clients: tuple[int, ...] | None
    failed: tuple[int, ...]
    drift: float | None
    update_norms: tuple[float, ...]
    bytes_down: int | None
    bytes_up: int | None

    @property
    def sent(self) -> int | None:
        """Bytes of weights sent in both directions since the start of the run; None if withheld."""
        return None if self.bytes_down is None or self.bytes_up is None else self.bytes_down + self.bytes_up

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; :meth:`from_dict` is the inverse."""
        clients = None if self.clients is None else list(self.clients)
        return asdict(self) | {
            "clients": clients,
            "failed": list(self.failed),
            "update_norms": list(self.update_norms),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "FederatedRound":
        """Read the values of :meth:`to_dict`."""
        clients = None if values["clients"] is None else tuple(values["clients"])
        lists = {name: tuple(values[name]) for name in ("failed", "update_norms")}
        return cls(**{**values, **lists, "clients": clients})

    def without_private_values(self) -> "FederatedRound":
        """Return the round without who took part, and without the updates' sizes."""
        private = {"clients": None, "failed": (), "drift": None, "update_norms": (), "bytes_down": None}
        return replace(self, **private, bytes_up=None)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class PlatformRecord:
    """One client with a corpus of its own at the time of a record.

    Attributes:
        name: Name of its corpus.
        privacy: Privacy loss of its worst-case sentence, or of the client where whole clients are protected.
        scores: As in :class:`RoundRecord`.
        test: As in :class:`RoundRecord`.
        noise_check: As in :class:`RoundRecord`.
    """

    name: str
    privacy: PrivacySpent
    scores: EntityScores
    test: EntityScores | None = None
    noise_check: NoiseCheck | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; :meth:`from_dict` is the inverse."""
        return {
            "name": self.name,
            "privacy": self.privacy.to_dict(),
            "scores": self.scores.to_dict(),
            "test": self.test.to_dict() if self.test else None,
            "noise_check": self.noise_check.to_dict() if self.noise_check else None,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PlatformRecord":
        """Read the values of :meth:`to_dict`."""
        return cls(**(dict(values) | _nested(values)))


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nested values that records of runs and of clients have in common."""
    test, check = values.get("test"), values.get("noise_check")
    return {
        "privacy": PrivacySpent.from_dict(values["privacy"]),
        "scores": EntityScores.from_dict(values["scores"]),
        "test": EntityScores.from_dict(test) if test else None,
        "noise_check": NoiseCheck.from_dict(check) if check else None,
    }


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """The state of a run at one time.

    "Since" below means since the last record. Values that are None are withheld.

    Attributes:
        round: 0, 1, 2 … in the order of reporting.
        step: Optimiser steps of all clients together.
        steps_total: Planned number of these steps.
        examples_seen: Sentences sampled so far, with repetitions.
        privacy: Privacy loss; of the worst-case client where clients have corpora of their own.
        scores: Scores on the validation set. Where clients have corpora of their own, of all together, with types
            prefixed by their client.
        loss: Mean training loss per sentence, since.
        clipped_fraction: Share of sampled sentences whose gradient was scaled down by joint clipping, since.
        gradient_norm_median: Median L2 norm before clipping, since.
        gradient_norm_max: Largest L2 norm before clipping, since.
        nonfinite: Sentences so far whose gradient was not finite, which contributed zero.
        seconds: Wall time since the start, without pauses between a crash and a resume.
        test: Scores on the test set, in the last record and after each phase of an incremental run.
        noise_check: Measurements of the mechanism so far, or None without noise. Where clients have corpora of their
            own, a check that did not pass, if any.
        federation: The last communication round, or None in central training.
        layer_norms: Median L2 norm before clipping of each layer, by name, since.
        noise_to_signal: Expected L2 norm of the noise on the clipped sum, or on the sum of the clients' updates, ÷ root
            mean square of the L2 norms of those sums, since. None without noise.
        platforms: Records of the clients that have corpora of their own.
    """

    round: int
    step: int
    steps_total: int
    examples_seen: int | None
    privacy: PrivacySpent
    scores: EntityScores
    loss: float | None
    clipped_fraction: float | None
    gradient_norm_median: float | None
    gradient_norm_max: float | None
    nonfinite: int | None
    seconds: float
    test: EntityScores | None = None
    noise_check: NoiseCheck | None = None
    federation: FederatedRound | None = None
    layer_norms: Mapping[str, float] = field(default_factory=dict)
    noise_to_signal: float | None = None
    platforms: tuple[PlatformRecord, ...] = ()

    def with_own_types(self, *, declared: bool) -> "RoundRecord":
        """Return the record of a run on a user's own corpus; see :meth:`PrivacySpent.with_own_types`."""
        platforms = (
            replace(platform, privacy=platform.privacy.with_own_types(declared=declared)) for platform in self.platforms
        )
        privacy = self.privacy.with_own_types(declared=declared)
        return replace(self, privacy=privacy, platforms=tuple(platforms))

    def with_moved_sentences(self) -> "RoundRecord":
        """Return the record of a run in which one more sentence may move others."""
        platforms = (replace(each, privacy=each.privacy.with_moved_sentences()) for each in self.platforms)
        return replace(self, privacy=self.privacy.with_moved_sentences(), platforms=tuple(platforms))

    def with_label_skew(self) -> "RoundRecord":
        """Return the record of a run with label skew; see :meth:`PrivacySpent.with_label_skew`."""
        return replace(self, privacy=self.privacy.with_label_skew())

    @property
    def progress(self) -> float:
        """Share of the steps done, from 0 to 1."""
        return self.step / self.steps_total

    @property
    def final(self) -> bool:
        """Whether the run ended with this record."""
        last = self.federation is None or self.federation.round == self.federation.rounds
        return self.test is not None and self.step == self.steps_total and last

    def without_private_values(self, *, clients: bool) -> "RoundRecord":
        """Return the record without values that are computed from samples and noise.

        Args:
            clients: Whether the protected unit is a client. Otherwise what clients send is private already.
        """
        checked = self.noise_check and self.noise_check.without_private_values()
        federation = self.federation.without_private_values() if self.federation and clients else self.federation
        platforms = (
            replace(each, noise_check=each.noise_check and each.noise_check.without_private_values())
            for each in self.platforms
        )
        return replace(
            self,
            examples_seen=None,
            loss=None,
            clipped_fraction=None,
            gradient_norm_median=None,
            gradient_norm_max=None,
            nonfinite=None,
            noise_check=checked,
            federation=federation,
            layer_norms={},
            noise_to_signal=None,
            platforms=tuple(platforms),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; :meth:`from_dict` is the inverse."""
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
        """Read the values of :meth:`to_dict`."""
        fields = dict(values) | _nested(values)
        fields["platforms"] = tuple(map(PlatformRecord.from_dict, fields.get("platforms", ())))
        fields["federation"] = FederatedRound.from_dict(fields["federation"]) if fields.get("federation") else None
        return cls(**fields)
