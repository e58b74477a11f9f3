"""All that is measured of one configuration's privacy: both kinds of canaries, membership inference, and what a server
reads in the messages of a federated run."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from engine import corpus as corpora
from engine.config import SimulationConfig, engine_version, run_id
from engine.errors import InvalidConfig
from engine.experiments import canaries, curious, membership
from engine.machine import machine_class
from engine.records import Audit
from engine.settings import Settings
from engine.training.model import Model


def audit(
    config: SimulationConfig,
    settings: Settings,
    number: int = 1000,
    references: int = 0,
    *,
    command: str,
    model: Model | None = None,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> Audit:
    """Train with canaries of either kind, attack on membership, and read messages where a federated run has such.

    number: of canaries in each of two runs; 0 is none. references: models that membership inference compares with; 0
    leaves it out. command: that measures again. model: that is attacked, else each of ``references`` + 1 new ones.
    tell: what is going on, with the share of one part's steps done; it may raise to stop. Raises InvalidConfig,
    CorpusError, VectorsMissing, StoreError, TrainingFailed.
    """
    handle = corpora.of_run(config, settings)
    white = canaries.measure(config, settings, number, kind="directions", tell=tell) if number else None
    black = canaries.measure(config, settings, number, kind="sentences", tell=tell) if number else None
    inferred = None
    if references:
        inferred = (
            membership.of_model(model, settings, references, tell=tell)
            if model
            else membership.measure(config, settings, references, tell=tell)
        )
    server = curious.measure(config, settings, tell=tell) if _messages(config) else None
    return Audit(
        run_id=run_id(config, handle.checksum),
        config=config,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine_class(),
        command=command,
        engine_version=engine_version(config),
        white=white,
        black=black,
        membership=inferred,
        server=server,
    )


def _messages(config: SimulationConfig) -> bool:
    """Whether the attack on messages is for its messages."""
    with suppress(InvalidConfig):
        curious.refuse(config)
        return True
    return False
