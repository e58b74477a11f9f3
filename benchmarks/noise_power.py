"""Power of the noise check: faults found in simulated runs of realistic sizes, and the step at which they are found.

Like a real run, a simulated one is evaluated when its records are due. The reported step is that of the first record
that fails.
"""

import math
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.noise_simulation import Toy
from benchmarks.report import markdown
from engine.privacy.mechanisms import add_gaussian_noise
from engine.privacy.noise_check.schedule import Watch
from engine.seeds import Secrets
from engine.simulation.recorder import report_steps

SIZES = (
    Toy(303_000, 14_041, 32, 4_388, sampled=False),
    Toy(20_439, 14_041, 1_024, 137, sampled=False),
    Toy(20_439, 14_041, 4_096, 34, sampled=False),
)
"""A BiLSTM-CRF at the paper settings; a linear CRF at the recommended settings with MiniLM, and with larger batches."""
MISSING = (1.0, 0.5, 0.1, 0.02, 0.01)
"""Shares of missing noise."""
EXTENTS = {
    "all weights": None,
    "2,007 weights in a row": 2007,
    "256 weights in a row": 256,
    "the last layer, 81 weights": 81,
    "100 weights here and there": -100,
    "1 weight": 1,
}
"""Number of weights without noise: adjacent ones from a random index (81: the last layer); negative: at random."""
BESIDE, FIXED, REPEATED = (0.1, 1.0, 10.0), (0.003, 0.01, 0.03, 0.1, 0.3), (0.02, 0.05, 0.1, 0.3, 1.0)
"""Sizes of the other faults, see :class:`Fault`."""
WRONG = (1.0, 0.5, 0.2, 0.1, 0.05, 0.01)
"""Shares of steps with wrong clipping."""
_LOOK_RUNS = 2000
"""Number of runs behind each share of :func:`looked_at`."""


@dataclass(frozen=True)
class Fault:
    """A fault of the noise, in units of its planned standard deviation.

    Attributes:
        missing: Share of the noise that is left out, on the weights of ``extent``.
        extent: Key of :data:`EXTENTS`.
        beside: L2 norm of a noise-free copy of the sum that is added too.
        once: Whether the copy is added at one random step instead of each step.
        fixed: Root mean square of a vector that is added at all steps.
        repeated: Correlation of the noise of each step with that of the step before.
    """

    missing: float = 0.0
    extent: str = "all weights"
    beside: float = 0.0
    once: bool = False
    fixed: float = 0.0
    repeated: float = 0.0


def _weights_without(toy: Toy, fault: Fault, random: np.random.Generator) -> np.ndarray:
    """Return the indices of the weights without noise."""
    number = EXTENTS[fault.extent]
    if number is None:
        return np.arange(toy.weights)
    if number < 0:
        return random.choice(toy.weights, -number, replace=False)
    first = toy.weights - number if number == 81 else int(random.integers(toy.weights - number + 1))
    return np.arange(first, first + number)


def found_at(toy: Toy, fault: Fault, seed: int) -> int | None:
    """Return the number of steps after which the check first fails; None if it never does.

    Only the inputs of the monitor are drawn: the noise of each step's key, and a sum in a random direction. The sum is
    the same at all steps where the noise does not depend on it.
    """
    random, monitor, due = np.random.default_rng(seed), toy.monitor(seed), set(report_steps(toy.steps))
    watch, kept, keys = monitor.watch, np.ones(toy.weights), Secrets.seeded(seed, "power")
    kept[_weights_without(toy, fault, random)] -= fault.missing
    always = fault.fixed * random.standard_normal(toy.weights)
    only = int(random.integers(toy.steps)) if fault.once else None
    no_sample, error, before = np.zeros(0, dtype=np.int64), np.zeros(toy.weights + len(watch.fixed)), None
    direction = random.standard_normal(toy.weights + len(watch.fixed))
    for step in range(toy.steps):
        where, fixed, key = watch.stretch(step), watch.fixed, keys.stream("noise", step=step)
        drawn = np.zeros(toy.weights, dtype=np.float32)
        add_gaussian_noise(drawn, key, 1.0)
        if before is not None and fault.repeated:
            drawn = fault.repeated * before + math.sqrt(1 - fault.repeated**2) * drawn
        before = drawn
        changed = drawn * kept + always
        noise = np.concatenate((changed[where], changed[fixed]))
        sums = random.standard_normal(len(noise)) if fault.beside else direction[: len(noise)]
        if fault.beside and only in (None, step):
            noise += fault.beside / math.sqrt(toy.weights) * sums
        monitor.saw_noise(step, noise, error[: len(noise)], [sums], key.key)
        monitor.saw_sample(no_sample)
        if step + 1 in due and monitor.verdict().failed:
            return step + 1
    return None


def looks(toy: Toy) -> int:
    """Return the number of steps of a run whose sum is recomputed."""
    watch = Watch([toy.plan()], toy.weights)
    return sum(watch.looks_closely(step) for step in range(toy.steps))


def looked_at(toy: Toy, share: float) -> float:
    """Return the share of runs in which a recomputed step is a faulty one, if this share of random steps is faulty."""
    random, found = np.random.default_rng(0), 0
    for seed in range(_LOOK_RUNS):
        watch = Watch([toy.plan()], toy.weights, secrets=Secrets.seeded(seed, "toy"))
        wrong = random.random(toy.steps) < share
        found += any(watch.looks_closely(int(step)) for step in np.flatnonzero(wrong))
    return found / _LOOK_RUNS


def _median(steps: list[int | None]) -> str:
    """Return the median step as text; a run whose fault is never found counts as later than all others."""
    hits = sum(step is not None for step in steps)
    middle = statistics.median_high([math.inf if step is None else step for step in steps])
    if not hits:
        return "not found"
    return f"{middle:,.0f}" if hits == len(steps) else f"in {hits} of {len(steps)}"


def faults() -> dict[str, dict[str, Fault]]:
    """Return the faults by type and size."""
    tables = {
        f"noise missing on {extent}": {f"{100 * share:g} %": Fault(missing=share, extent=extent) for share in MISSING}
        for extent in EXTENTS
    }
    tables["the plain gradient once more at each step, ‖S‖ ÷ σC"] = {f"{v:g}": Fault(beside=v) for v in BESIDE}
    tables["the same at one step"] = {f"{v:g}": Fault(beside=v, once=True) for v in BESIDE}
    tables["the same vector at each step, its RMS ÷ σC"] = {f"{v:g}": Fault(fixed=v) for v in FIXED}
    tables["correlation with the step before"] = {f"{v:g}": Fault(repeated=v) for v in REPEATED}
    return tables


def measure(runs: int, processes: int, quick: bool = False) -> tuple[dict[str, Any], str]:
    """Return the values to save, and the tables.

    Args:
        runs: Number of runs of each fault.
        processes: Number of processes.
        quick: Whether to leave out the largest size.
    """
    sizes = SIZES[1:] if quick else SIZES
    tables = [(what, much, fault) for what, table in faults().items() for much, fault in table.items()]
    jobs = [(toy, fault, seed) for _, _, fault in tables for toy in sizes for seed in range(runs)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        steps = iter(list(pool.map(_found_at, jobs, chunksize=1)))
    rows = [(what, much, *(_median([next(steps) for _ in range(runs)]) for _ in sizes)) for what, much, _ in tables]
    heads = [f"{toy.weights:,} weights, {toy.steps:,} steps" for toy in sizes]
    clipping = [(f"{100 * share:g} %", *(f"{looked_at(toy, share):.1%}" for toy in sizes)) for share in WRONG]
    text = f"Step of the first record that fails, median of {runs} runs; or the number of runs that fail.\n\n"
    text += markdown(("fault", "size", *heads), rows) + "\n\n"
    counts = ", ".join(str(looks(toy)) for toy in sizes)
    text += f"Wrong clipping at a share of the steps: runs in which a recomputed step ({counts} per run) is one.\n\n"
    text += markdown(("steps", *heads), clipping)
    values = {
        "runs": runs,
        "sizes": [{"weights": toy.weights, "steps": toy.steps, "looks": looks(toy)} for toy in sizes],
        "found": [{"what": what, "much": much, "steps": list(cells)} for what, much, *cells in rows],
        "looked_at": [{"share": share, "runs": list(cells)} for share, *cells in clipping],
    }
    return values, text


def _found_at(job: tuple[Toy, Fault, int]) -> int | None:
    return found_at(*job)
