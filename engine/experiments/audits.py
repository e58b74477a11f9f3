"""The privacy audit of a configuration: white-box and black-box canaries, membership inference, gradient inversion."""

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
    number: int | None = None,
    references: int = 0,
    *,
    command: str,
    model: Model | None = None,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> Audit:
    """Train with both types of canaries, infer membership, and invert the messages of a federated run.

    Args:
        config: the configuration to audit.
        settings: where corpora, vectors and results are.
        number: canaries in each of two runs; 0 for no canaries, None for the default numbers.
        references: shadow models for membership inference; 0 skips it.
        command: the command that repeats the audit.
        model: the attacked model; None attacks each of ``references`` + 1 new ones.
        tell: receives the stage and the share of the audit that is done; it may raise to stop.

    Raises:
        InvalidConfig: for a configuration that the attacks do not support.
        CorpusError: if a corpus is missing or invalid.
        VectorsMissing: if word vectors are not installed.
        StoreError: if stored data cannot be read or written.
        TrainingFailed: if a training diverges.
    """
    handle = corpora.of_run(config, settings)
    messages = _messages(config)
    parts = _parts(
        tell, [*([] if number == 0 else [1.0, 1.0]), applicability.trainings(0, references), 1.0 if messages else 0.0]
    )
    white = canaries.measure(config, settings, number, kind="directions", tell=next(parts)) if number != 0 else None
    black = canaries.measure(config, settings, number, kind="sentences", tell=next(parts)) if number != 0 else None
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
    """Yield a callback for each part of the audit, which passes the share of the whole to ``tell``.

    Args:
        tell: receives the stage and the share of the audit that is done.
        weights: relative duration of each part.
    """
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
