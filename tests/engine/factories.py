"""Small made-up or computed runs for tests."""

from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.config.mechanism_registry import ZERO_OUT
from engine.records import Counts, EntityScores, NoiseCheck, PrivacySpent, Provenance, RoundRecord

SMALL = SimulationConfig(
    data_fraction=0.05,
    tagger=TaggerConfig(hidden_size=8),
    training=TrainingConfig(batch_size=8, epochs=2.0),
    privacy=PrivacyConfig(noise_multiplier=1.0),
)
"""220 sentences of the embedded corpus, 55 steps: seconds on any machine."""


def scores(correct: int = 3) -> EntityScores:
    counts = {"PER": Counts(correct, 5, 6)}
    return EntityScores(strict=counts, relaxed=counts, token={"B-PER": Counts(correct, 5, 6), "O": Counts(9, 9, 9)})


def check(*faults: str, noise_std: float | None = 1.4998) -> NoiseCheck:
    """Return a possible result of a noise check."""
    return NoiseCheck(
        steps=55,
        noise_std=noise_std,
        noise_planned=1.5,
        noise_tolerance=0.005,
        clipped_norm_max=1.49999,
        clip_norm=1.5,
        sentences_measured=80,
        batch_mean=7.9,
        batch_planned=8.0,
        batch_std=2.7,
        batch_std_planned=2.77,
        faults=faults,
    )


def record(number: int, of: int = 3, *, epsilon: float = 0.5, faults: tuple[str, ...] = ()) -> RoundRecord:
    """Return a record with made-up scores; the last one of its run has test scores."""
    return RoundRecord(
        round=number,
        step=number + 1,
        steps_total=of,
        examples_seen=8 * (number + 1),
        privacy=PrivacySpent(
            epsilon=epsilon * (number + 1),
            delta=1e-5,
            neighbouring=ZERO_OUT,  # as of SMALL, a share of fixed size
            rdp_epsilon=1.0,
            assumptions=("a", "b"),
        ),
        scores=scores(),
        loss=1.5,
        clipped_fraction=0.25,
        gradient_norm_median=0.5,
        gradient_norm_max=2.0,
        nonfinite=0,
        seconds=1.25 * (number + 1),
        test=scores(4) if number == of - 1 else None,
        noise_check=check(*faults),
    )


def provenance(checksum: str = "0" * 64, engine_version: str = "1") -> Provenance:
    return Provenance(
        created="2026-11-21T10:00:00+00:00",
        engine_version=engine_version,
        corpus_checksum=checksum,
        vectors="en_core_web_md-3.8.0",
        machine="a processor, 2 cores, 24 GB, Linux",
        commit="unknown",
        command="python -m engine train --corpus synthetic --partition random",
        wall_seconds=3.75,
        train_sentences=100,
        synthetic=True,
    )
