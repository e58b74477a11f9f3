"""Time of the noise check, as a share of a run.

By parts: the check adds to a step the time of the checked update less that of the plain update inside it. Its median
is measured for three types of steps: those that check a range of the weights (as many in a row as are evaluated
together), those that check all weights, and those that recompute the sum. The medians, and that of an evaluation, are
multiplied by their number in a whole run, and divided by the time of training. One complete run shows the share of
training in its time, since a run also scores its tagger.

Alternatively, whole runs are timed in turns with the check and with a monitor that does nothing. On a busy machine
their difference is below the variation unless there are many turns.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.report import markdown
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig
from engine.corpus import resolve
from engine.errors import CorpusError
from engine.experiments.recommended_settings import with_minilm
from engine.federated import fedavg
from engine.privacy.noise_check.monitor import WAITING, NoiseMonitor
from engine.settings import Settings
from engine.simulation import recorder, setup
from engine.simulation import run as simulation
from engine.training import dpsgd
from engine.training.dpsgd import DPSGD

LARGE = 4_096
"""Largest batch size, in sentences."""
_RARE, _VERDICTS = 6, 15
"""Number of timed steps of each rare type (check of all weights, recomputed sum), and of timed evaluations."""
_EPSILON = 3.0


class Blind:
    """A monitor that does nothing; its truth value is False."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.state: dict[str, np.ndarray] = {}

    def __bool__(self) -> bool:
        return False

    def verdict(self) -> None:
        """Return None: nothing was checked."""


@contextmanager
def blind() -> Iterator[None]:
    """Disable the noise check for runs that start within the block; they take the same steps."""
    modules: list[Any] = [fedavg, dpsgd]
    try:
        for module in modules:
            module.NoiseMonitor = Blind
        yield
    finally:
        for module in modules:
            module.NoiseMonitor = NoiseMonitor


def cases(corpus: str, settings: Settings) -> dict[str, SimulationConfig]:
    """Return the trained configurations: the paper's with a CRF, and the recommended one with the largest batches."""
    sentences = resolve(corpus, settings).train_sentences
    batch = min(LARGE, sentences // 3)
    recommended = with_minilm(corpus, sentences, _EPSILON).flat() | {"batch_size": batch}
    paper = SimulationConfig(
        corpus=corpus, tagger=TaggerConfig(name="bilstm-crf"), privacy=PrivacyConfig(noise_multiplier=1.0)
    )
    return {"BiLSTM-CRF, batch 32": paper, f"linear CRF, batch {batch:,}": SimulationConfig.from_flat(recommended)}


def available_corpus(name: str, settings: Settings) -> str:
    """Return the requested corpus, or the embedded one where it is not installed."""
    try:
        _ = resolve(name, settings).checksum
    except CorpusError:
        return SimulationConfig().corpus
    return name


def _learner(config: SimulationConfig, settings: Settings) -> DPSGD:
    run = setup.prepare(config, settings).run
    return run.learner(run.plan.rounds[0][0])


def _timed(clock: Callable[[], float], call: Any, *arguments: Any) -> float:
    start = clock()
    call(*arguments)
    return 1000 * (clock() - start)


def _watch(learner: DPSGD, name: str, clock: Callable[[], float], took: dict[str, float]) -> None:
    """Replace a method by one that writes the milliseconds of its last call to ``took``."""
    original = getattr(learner, name)

    def timed(*arguments: Any) -> None:
        took[name] = _timed(clock, original, *arguments)

    setattr(learner, name, timed)


def _kind(monitor: NoiseMonitor, step: int) -> str:
    """Return the kind of check at a step."""
    if monitor.watch.looks_closely(step):
        return "look"
    return "whole" if monitor.watch.is_whole(step) else "stretch"


def _timed_steps(kinds: list[str], steps: int) -> list[int]:
    """Return the first ``steps`` steps, and at least ``_RARE`` steps of each type where a run has them."""
    timed = set(range(min(len(kinds), steps)))
    for kind in set(kinds):
        timed.update([step for step, other in enumerate(kinds) if other == kind][:_RARE])
    return sorted(timed)


def by_parts(config: SimulationConfig, settings: Settings, steps: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Return the time of the check by parts.

    Fields: the milliseconds of a step, of the check in each type of step and of an evaluation; their numbers in a whole
    run; and their share of the run's training.

    Args:
        config: The configuration.
        settings: Where corpora and vectors are.
        steps: Maximum number of timed steps, rare types excluded.
        clock: Returns seconds.
    """
    learner = _learner(config, settings)
    monitor = learner.monitor
    if monitor is None:
        raise SystemExit("The run is not private.")
    total = learner.plan.steps
    kinds = [_kind(monitor, step) for step in range(total)]
    plain: list[float] = []
    more: dict[str, list[float]] = {kind: [] for kind in ("stretch", "whole", "look")}
    inside: dict[str, float] = {}
    for name in ("_measured", "_update"):
        _watch(learner, name, clock, inside)
    gc.disable()
    row: list[float] = []  # of steps that wait to be evaluated together
    for step in _timed_steps(kinds, steps):
        kind = kinds[step]
        if step != monitor.steps_seen or kind != "stretch":
            monitor.state["steps"][0] = step  # as if no step had been left out
            row.clear()
        whole = _timed(clock, learner.step, step)
        row.append(inside.pop("_measured") - inside.pop("_update"))
        plain.append(whole - row[-1])
        if kind != "stretch" or len(row) == WAITING:
            more[kind].append(statistics.mean(row))
            row.clear()
            monitor.finalize()
    gc.enable()
    verdicts = [_timed(clock, monitor.verdict) for _ in range(_VERDICTS)]
    costs = {kind: statistics.median(values) if values else 0.0 for kind, values in more.items()}
    costs["verdict"] = statistics.median(verdicts)
    reports = len(set(recorder.report_steps(total)))
    numbers = {kind: kinds.count(kind) for kind in more} | {"verdict": reports}
    training = total * statistics.median(plain)
    shares = {kind: costs[kind] * numbers[kind] / training for kind in costs}
    return {
        "steps": total,
        "timed_steps": len(plain),
        "weights": learner.weights.size,
        "step_ms": round(statistics.median(plain), 3),
        "cost_ms": {kind: round(cost, 3) for kind, cost in costs.items()},
        "times": numbers,
        "shares": {kind: round(share, 5) for kind, share in shares.items()},
        "share": round(sum(shares.values()), 5),
    }


def training_share(config: SimulationConfig, settings: Settings, clock: Callable[[], float]) -> float:
    """Return the share of the steps in a run's time, without the check."""
    steps, plain = 0.0, DPSGD.step

    def timed(learner: DPSGD, step: int) -> dpsgd.StepStatistics:
        nonlocal steps
        start = clock()
        statistics = plain(learner, step)
        steps += clock() - start
        return statistics

    with blind(), patch.object(DPSGD, "step", timed):
        start = clock()
        list(simulation.simulate(config, settings))
        return steps / (clock() - start)


def whole_runs(config: SimulationConfig, settings: Settings, turns: int) -> dict[str, float]:
    """Return the median seconds of whole runs with and without the check, timed in turns, and their ratio."""
    seconds: dict[str, list[float]] = {"checked": [], "unchecked": []}
    for turn in range(turns):
        for name in sorted(seconds, reverse=bool(turn % 2)):
            start = time.perf_counter()
            if name == "checked":
                list(simulation.simulate(config, settings))
            else:
                with blind():
                    list(simulation.simulate(config, settings))
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = statistics.median(a / b for a, b in zip(seconds["checked"], seconds["unchecked"], strict=True))
    return {f"{name}_s": round(median, 2) for name, median in medians.items()} | {"ratio": round(ratio, 4)}


def measure(corpus: str, steps: int, turns: int, busy: bool, settings: Settings) -> tuple[dict[str, Any], str]:
    """Return the values to save, and the tables.

    Args:
        corpus: Name of the corpus.
        steps: Maximum number of timed steps.
        turns: Number of turns of whole runs; 0 leaves them out.
        busy: Whether to measure processor seconds of all cores instead of wall seconds.
        settings: Where corpora and vectors are.
    """
    clock = time.process_time if busy else time.perf_counter
    corpus = available_corpus(corpus, settings)
    rows, found = [], {}
    for title, config in cases(corpus, settings).items():
        parts = found[title] = by_parts(config, settings, steps, clock)
        parts["training_share"] = round(training_share(config, settings, clock), 4)
        parts["share_of_run"] = round(parts["share"] * parts["training_share"], 5)
        if turns:
            parts["whole_runs"] = whole_runs(config, settings, turns)
        for kind, cost in parts["cost_ms"].items():
            rows.append((title, kind, f"{cost:.2f}", parts["times"][kind], f"{parts['shares'][kind]:.2%}"))
        rows.append(
            (title, "**all**", f"a step is {parts['step_ms']:.2f}", parts["steps"], f"**{parts['share']:.2%}**")
        )
    text = markdown((f"training on {corpus}", "part of the check", "ms", "number in a run", "share of training"), rows)
    for title, parts in found.items():
        text += f"\n\n{title}: training is {parts['training_share']:.0%} of a run, so the check is "
        text += f"{parts['share_of_run']:.2%} of it."
        if turns:
            runs = parts["whole_runs"]
            text += f" Whole runs {runs['checked_s']} s with and {runs['unchecked_s']} s without the check; "
            text += f"median ratio of {turns} turns {runs['ratio']}."
    return {"corpus": corpus, "seconds": "processor" if busy else "wall", "cases": found}, text
