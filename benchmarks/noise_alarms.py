"""False-alarm rate of the noise check, counted over simulated runs.

The real budget is one false alarm in a million, so 100,000 runs without an alarm show little. The runs are therefore
repeated with a budget of 20 %: if each bound holds, the share of alarms stays below it. They are also repeated with
these 20 % for each test alone.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from scipy.stats import beta

from benchmarks.noise_simulation import Toy, budget, honest_faults
from benchmarks.report import markdown
from engine.privacy.noise_check import critical_values
from engine.settings import REPOSITORY

LOOSE = 0.2
"""The raised budget: share of honest runs with a false alarm."""
CERTAINTY = 0.999
"""Confidence of the upper bounds on shares (Clopper and Pearson 1934)."""
_CHUNK = 200
"""Number of runs in one job."""
QUESTIONS = {
    "spread of a step": "the noise on the weights had",
    "along at a step": "the noise lies",
    "spreads of the steps": "From step to step",
    "spread over all": "on the weights has",
    "spread of a layer": "on the weights of “.*” has",
    "spread of 256 weights": r"on the weights [\d,]+ to [\d,]+ has",
    "spread of a weight": "on the weight [^s]",
    "distribution": "not normally distributed",
    "draws far out": "lie beyond",
    "along, sum": "The noise points",
    "along, spread": "Along the clipped sum",
    "sample sizes, mean": "Samples hold",
    "sample sizes, spread": "Sample sizes spread",
    "times drawn, spread": "comes back too",
    "times drawn, largest": "comes more often",
}
"""Tests of the check, with a regular expression for their messages.

The check reports at most one fault of the standard deviations, and one of the components along sums.
"""


@dataclass(frozen=True)
class Trial:
    """Many runs of one type.

    Attributes:
        title: Label in the table.
        toys: Simulated runs, taken in turn.
        runs: Number of runs.
        alarm: Budget of false alarms; None is the real one.
        families: Number of test families that share the budget.
    """

    title: str
    toys: tuple[Toy, ...]
    runs: int
    alarm: float | None = None
    families: int = critical_values.FAMILIES


_TOYS = (Toy(64, 60, 6, 20), Toy(96, 200, 50, 30), Toy(128, 40, 30, 40), Toy(100, 500, 5, 24))
_STRETCHED = (Toy(4_500, 100, 20, 40, verdicts=5),)
_REAL = (Toy(20_439, 14_041, 1_024, 137, verdicts=20),)


def trials(runs: int) -> list[Trial]:
    """Return the trials; the first has ``runs`` runs, the others a share of them."""
    return [
        Trial("64 to 128 weights, the real budget", _TOYS, runs),
        Trial("the same, loose", _TOYS, runs // 8, LOOSE),
        Trial("the same, loose for each question alone", _TOYS, runs // 8, LOOSE, 1),
        Trial("4,500 weights in stretches, loose", _STRETCHED, runs // 40, LOOSE),
        Trial("20,439 weights, 137 steps, the real budget", _REAL, runs // 300),
        Trial("the same, loose", _REAL, runs // 300, LOOSE),
    ]


def question(fault: str) -> str:
    """Return the test that reports this fault."""
    return next(name for name, words in QUESTIONS.items() if re.search(words, fault))


def count(trial: Trial, first: int, last: int) -> dict[str, Any]:
    """Return the alarms of the runs with these numbers, and the tests that raised them."""
    alarms, questions = 0, Counter[str]()
    for number in range(first, last):
        toy = trial.toys[number % len(trial.toys)]
        strict = trial.alarm is None
        verdicts = critical_values.VERDICTS if strict else len(toy.moments())
        with budget(trial.alarm or critical_values.FALSE_ALARM, trial.families, verdicts):
            faults = honest_faults(toy, number)
        alarms += bool(faults)
        questions.update({question(fault) for fault in faults})
    return {"runs": last - first, "alarms": alarms, "questions": dict(questions)}


def _version() -> str:
    """Return a checksum of the code whose alarms are counted."""
    checks = ("critical_values", "kernels", "replay", "monitor", "hypothesis_tests", "schedule")
    files = [REPOSITORY / "engine" / "privacy" / "noise_check" / f"{name}.py" for name in checks]
    files += [REPOSITORY / "benchmarks" / f"{name}.py" for name in ("noise_simulation", "noise_alarms")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def counted(runs: int, processes: int, kept: Path) -> list[tuple[Trial, dict[str, Any]]]:
    """Return the counts of each trial; finished jobs are saved in the file ``kept`` and not repeated."""
    version, done = _version(), dict(_done(kept))
    jobs = [(trial, first) for trial in reversed(trials(runs)) for first in range(0, trial.runs, _CHUNK)]
    keys = {(trial, first): f"{version} {trial}, {first}" for trial, first in jobs}
    kept.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool, kept.open("a") as file:
        futures = {
            pool.submit(count, trial, first, min(trial.runs, first + _CHUNK)): (trial, first)
            for trial, first in jobs
            if keys[trial, first] not in done
        }
        for future in as_completed(futures):
            key = keys[futures[future]]
            done[key] = future.result()
            file.write(json.dumps([key, done[key]]) + "\n")
            file.flush()
    results = []
    for trial in trials(runs):
        chunks = [done[keys[job]] for job in jobs if job[0] == trial]
        total: Counter[str] = Counter()
        for chunk in chunks:
            total.update(chunk["questions"])
        results.append(
            (trial, {name: sum(chunk[name] for chunk in chunks) for name in ("runs", "alarms")} | {"questions": total})
        )
    return results


def _done(kept: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in kept.read_text().splitlines() if kept.exists() else ():
        key, value = json.loads(line)
        yield key, value


def at_most(alarms: int, runs: int) -> float:
    """Return the upper confidence bound on the share of alarms, at ``CERTAINTY``."""
    return float(beta.ppf(CERTAINTY, alarms + 1, runs - alarms)) if alarms < runs else 1.0


def measure(runs: int, processes: int, kept: Path) -> tuple[dict[str, Any], str]:
    """Return the values to save, and the tables.

    Args:
        runs: Number of runs of the first trial.
        processes: Number of processes.
        kept: File of finished jobs.
    """
    rows, alone = [], []
    for trial, counts in counted(runs, processes, kept):
        limit, bound = trial.alarm or critical_values.FALSE_ALARM, at_most(counts["alarms"], counts["runs"])
        shared = trial.families > 1
        rows.append(
            {
                "runs_of": trial.title,
                "runs": counts["runs"],
                "alarms": counts["alarms"],
                "at_most": round(bound, 5),
                "budget": limit if shared else None,
            }
        )
        if not shared:
            alone = [
                {"question": name, "alarms": counts["questions"].get(name, 0), "runs": counts["runs"]}
                | {"at_most": round(at_most(counts["questions"].get(name, 0), counts["runs"]), 4), "budget": limit}
                for name in QUESTIONS
            ]
    head = ("honest runs", "runs", "alarms", f"upper bound ({CERTAINTY:.1%} confidence)", "budget")
    text = markdown(head, [tuple("each test" if cell is None else cell for cell in row.values()) for row in rows])
    text += "\n\n" + markdown(
        ("test, alone with the budget", "alarms", "runs", "upper bound", "budget"),
        [tuple(row.values()) for row in alone],
    )
    return {"trials": rows, "questions": alone}, text
