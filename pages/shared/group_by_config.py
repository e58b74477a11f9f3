"""Finished runs grouped by configuration: runs that differ only in their seed form a group. Does not use Streamlit."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from engine.config import SimulationConfig
from engine.service import Overview


def configurations(found: Sequence[Overview]) -> dict[SimulationConfig, dict[int, str]]:
    """Return the seedless configurations of finished runs, with the run identities of each by seed.

    If runs differ only in the corpus's content or the engine, the newest one counts. Runs whose noise check failed are
    excluded.
    """
    groups: dict[SimulationConfig, dict[int, str]] = {}
    for overview in found:
        last, config = overview.last_record, overview.run.config
        failed = last is not None and last.noise_check is not None and last.noise_check.failed
        if last is not None and last.final and not failed:
            groups.setdefault(seedless(config), {}).setdefault(config.seed, overview.run.run_id)
    return {config: dict(sorted(runs.items())) for config, runs in groups.items()}


@lru_cache(maxsize=8192)
def seedless(config: SimulationConfig) -> SimulationConfig:
    """Return the configuration with seed 0, which runs that differ only in their seed share."""
    return replace(config, seed=0)
