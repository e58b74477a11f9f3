"""Finished runs by their settings: runs that differ in their seed alone belong together. No streamlit."""

from collections.abc import Sequence
from dataclasses import replace

from engine.config import SimulationConfig
from engine.service import Overview


def configurations(found: Sequence[Overview]) -> dict[SimulationConfig, dict[int, str]]:
    """The configurations of finished runs without their seeds, and of each the runs by seed, the newest where several
    are alike but for the corpus's content or the engine; failed checks are left out."""
    kinds: dict[SimulationConfig, dict[int, str]] = {}
    for each in found:
        bad = each.last_record is None or (
            each.last_record.noise_check is not None and each.last_record.noise_check.failed
        )
        if each.last_record is not None and each.last_record.final and not bad:
            kinds.setdefault(seedless(each.run.config), {}).setdefault(each.run.config.seed, each.run.run_id)
    return {config: dict(sorted(runs.items())) for config, runs in kinds.items()}


def seedless(config: SimulationConfig) -> SimulationConfig:
    """What runs that differ in their seed alone have in common."""
    return replace(config, seed=0)
