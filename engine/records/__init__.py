"""Records that runs report, as frozen values without prose: scores, rounds, runs, studies, audits."""

from engine.records.audits import (
    RATES,
    SHOWN,
    AttackCurve,
    Audit,
    CanaryAudit,
    MembershipAudit,
    ServerAudit,
    ServerReading,
)
from engine.records.confidence_intervals import Interval, SentenceSums
from engine.records.noise_check import LayerNoise, NoiseCheck
from engine.records.rounds import FederatedRound, PlatformRecord, PrivacySpent, RoundRecord
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
    "ServerAudit",
    "ServerReading",
    "SidedCounts",
    "Study",
    "Trial",
    "macro",
    "micro",
    "weighted",
]
