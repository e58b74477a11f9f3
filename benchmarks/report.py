"""Shared code of the speed benchmarks: the machine, interleaved timing, and saved results."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numba

from engine import PRIVATE_VERSION
from engine.hardware import machine_class, processor
from engine.settings import REPOSITORY

FOLDER = REPOSITORY / "cached_results" / "speed"
"""Saved results; the page *Performance* shows them."""
RENAMED = {
    "2. The promise": "2. The privacy guarantee",
    "3. Noise that fits": "3. Noise and sensitivity",
    "4. Whom do you trust?": "4. Trust models",
    "5. The data stays, the model travels": "5. Federated learning and gradient leakage",
    "6. DP-SGD, one step at a time": "6. DP-SGD step by step",
    "7. What does ε = 1 buy?": "7. Utility at ε = 1",
    "Ratings that an outsider knows": "Known ratings",
    "Sure before, %": "Prior belief, %",
    "Letters of a family that count": "Letters counted per family",
    "People asked": "Respondents",
    "I would sign for ε up to": "Largest acceptable ε",
}
"""Present labels of lessons and controls, by the labels in saved results of version 0.7.0 or older."""
TITLES = {
    "keras_ms": "Keras, not private",
    "ours_ordinary_ms": "ours, not private",
    "ours_private_ms": "**ours, private**",
    "crf_ordinary_ms": "ours, CRF, not private",
    "crf_private_ms": "ours, CRF, private",
    "reference_private_ms": "our TensorFlow reference, private",
    "tensorflow_privacy_ms": "TensorFlow Privacy, private",
    "pytorch_ms": "PyTorch, packed, not private",
    "opacus_ms": "Opacus, private, packed",
    "opacus_padded_ms": "Opacus, private, padded",
}
"""Titles of the rows of the step benchmark."""


def interleaved(
    steps: Mapping[str, Callable[[int], Any]], rounds: int, rare: Mapping[str, int], in_a_row: int = 1
) -> dict[str, float]:
    """Return the median milliseconds of each step, timed in turns after ``rounds`` ÷ 5 rounds of warm-up.

    Args:
        steps: Functions of a running number, by name. One that returns a number has timed itself, in ms.
        rounds: Number of timed rounds.
        rare: For a slow step, the number of rounds between its turns.
        in_a_row: Calls in a turn; training also takes one step after another, with its own data in the caches.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    warm = rounds // 5
    for turn in range(rounds + warm):
        for name, step in steps.items():
            if turn % rare.get(name, 1) == 0:
                for number in range(turn * in_a_row, (turn + 1) * in_a_row):
                    start = time.perf_counter()
                    own = step(number)
                    took = 1000 * (time.perf_counter() - start) if own is None else own
                    if turn >= min(warm, rare.get(name, 1)):
                        times[name].append(took)
    return {name: round(statistics.median(each), 2) for name, each in times.items()}


def finish(
    name: str, values: dict[str, Any], text: str, *, as_json: bool, save: bool, module: str | None = None
) -> None:
    """Print one JSON object or the text, with the machine, and save the object for the dashboard.

    Args:
        name: Name of the saved file.
        values: Fields of the object.
        text: The text.
        as_json: Whether to print the object.
        save: Whether to save the object.
        module: Name of the benchmark's module with its options, where it differs from ``name``.
    """
    machine = {"machine": machine_class(), "threads": numba.get_num_threads(), "caches": processor().caches_text}
    values = values | machine
    text += f"\n\nOn {machine['machine']}; {machine['caches']}; threads used: {machine['threads']}."
    if save:
        FOLDER.mkdir(parents=True, exist_ok=True)
        kept = values | {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "engine_version": PRIVATE_VERSION,
            "command": f"python -m benchmarks.{module or name} --save",
        }
        Path(FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write((json.dumps(values) if as_json else text) + "\n")
    sys.stdout.flush()


def markdown(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def lessons_table(values: Mapping[str, Any]) -> str:
    """Return the response time of each lesson, and below the table that of the live run."""
    rows = [
        (
            *(RENAMED.get(label, label) for label in (lesson["lesson"], lesson["moved"])),
            f"{lesson['first']:.2f}",
            f"{lesson['again']:.2f}",
        )
        for lesson in values["lessons"]
    ]
    text = markdown(("lesson", "control", "first visit, s", "later visits, s"), rows)
    return f"{text}\n\nLive run of lesson 5: first point {values['first_point']:.1f} s after the page is opened."


def tagging_table(values: Mapping[str, Any]) -> str:
    """Return how fast texts are tagged."""
    rows: list[tuple[Any, ...]] = [
        ("first text of a fresh process", f"{values['start_seconds']:.1f} s"),
        ("500 words, five taggers, warm", f"{values['seconds_500_words']:.2f} s"),
        *([("memory of that process", f"{values['megabytes']} MB")] if "megabytes" in values else []),
        *([("with MiniLM's taggers too", f"{values['megabytes_both']} MB")] if "megabytes_both" in values else []),
        ("one linear tagger, features cached", f"{values['sentences_a_second']:,} sentences/s"),
        ("the same, features computed", f"{values['sentences_a_second_with_features']:,} sentences/s"),
    ]
    return markdown(("texts", "measured"), rows)


def step_table(medians: Mapping[str, float]) -> str:
    """Return milliseconds and ratios of the step benchmark."""
    bases = ((1, 1), (medians["keras_ms"], 2), (medians["ours_private_ms"], 1))
    rows = [
        (title, *(f"{medians[name] / base:.{digits}f}" for base, digits in bases))
        for name, title in TITLES.items()
        if name in medians
    ]
    return markdown(("step", "ms", "÷ Keras", "÷ ours, private"), rows)
