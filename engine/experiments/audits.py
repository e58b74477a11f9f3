"""All that is measured of one configuration's privacy: both kinds of canaries, membership inference, and what a server
reads in the messages of a federated run."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from engine import corpus as corpora
from engine.config import SimulationConfig, engine_version, run_id
from engine.errors import InvalidConfig
from engine.experiments import canaries, gradient_inversion, membership
from engine.hardware import machine_class
from engine.privacy.audit import applicability
from engine.records import Audit
from engine.settings import Settings
from engine.training.model import Model


def audit(
    config: SimulationConfig,
    settings: Settings,
    number: int = applicability.CANARIES,
    references: int = 0,
    *,
    command: str,
    model: Model | None = None,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> Audit:
    """Train with canaries of either kind, attack on membership, and read messages where a federated run has such.

    number: of canaries in each of two runs; 0 is none. references: models that membership inference compares with; 0
    leaves it out. command: that measures again. model: that is attacked, else each of ``references`` + 1 new ones.
    tell: what is going on, with the share of the whole that is done; it may raise to stop. Raises InvalidConfig,
    CorpusError, VectorsMissing, StoreError, TrainingFailed.
    """
    handle = corpora.of_run(config, settings)
    messages = _messages(config)
    parts = _parts(
        tell, [*([1.0, 1.0] if number else []), applicability.trainings(0, references), 1.0 if messages else 0.0]
    )
    white = canaries.measure(config, settings, number, kind="directions", tell=next(parts)) if number else None
    black = canaries.measure(config, settings, number, kind="sentences", tell=next(parts)) if number else None
    inferred, part = None, next(parts)
    if references:
        inferred = (
            membership.of_model(model, settings, references, tell=part)
            if model
            else membership.measure(config, settings, references, tell=part)
        )
    server = gradient_inversion.measure(config, settings, tell=next(parts)) if messages else None
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


def _parts(tell: Callable[[str, float], None], weights: list[float]) -> Iterator[Callable[[str, float], None]]:
    """What each part tells its own share to, so that ``tell`` hears of the whole. weights: how long each takes."""
    total, before = sum(weights) or 1.0, 0.0
    for weight in weights:
        yield lambda stage, share, start=before, long=weight: tell(stage, (start + long * share) / total)  # type: ignore[misc]
        before += weight


def _messages(config: SimulationConfig) -> bool:
    """Whether the attack on messages is for its messages."""
    with suppress(InvalidConfig):
        gradient_inversion.refuse(config)
        return True
    return False
