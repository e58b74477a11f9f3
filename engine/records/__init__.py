"""What runs report: frozen values, no prose. Scores, rounds, runs, studies, audits."""

from engine.records.audits import RATES, SHOWN, AttackCurve, Audit, CanaryAudit, MembershipAudit
from engine.records.intervals import Interval, SentenceSums
from engine.records.rounds import (
    FederatedRound,
    LayerNoise,
    NoiseCheck,
    PlatformRecord,
    PrivacySpent,
    RoundRecord,
)
from engine.records.runs import Measurement, Provenance, Run, RunKind, RunState, RunStatus
from engine.records.scores import (
    LEVELS,
    RELAXED,
    STRICT,
    TOKEN,
    Counts,
    EntityScores,
    PrecisionRecallF1,
    SidedCounts,
    macro,
    micro,
    weighted,
)
from engine.records.studies import GOOD_PRACTICE, Study, Trial

__all__ = [
    "GOOD_PRACTICE",
    "LEVELS",
    "RATES",
    "RELAXED",
    "SHOWN",
    "STRICT",
    "TOKEN",
    "AttackCurve",
    "Audit",
    "CanaryAudit",
    "Counts",
    "EntityScores",
    "FederatedRound",
    "Interval",
    "LayerNoise",
    "Measurement",
    "MembershipAudit",
    "NoiseCheck",
    "PlatformRecord",
    "PrecisionRecallF1",
    "PrivacySpent",
    "Provenance",
    "RoundRecord",
    "Run",
    "RunKind",
    "RunState",
    "RunStatus",
    "SentenceSums",
    "SidedCounts",
    "Study",
    "Trial",
    "macro",
    "micro",
    "weighted",
]
