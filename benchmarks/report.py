"""What the speed benchmarks have in common: the machine, interleaved timing, where results are kept."""

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
"""Kept results; the page *Speed* shows them."""
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
"""Names of the step benchmark → what they are."""


def interleaved(
    steps: Mapping[str, Callable[[int], Any]], rounds: int, rare: Mapping[str, int], in_a_row: int = 1
) -> dict[str, float]:
    """Medians in milliseconds of ``rounds`` turns of each, one after another in every round, after a fifth more to warm
    up. rare: how many rounds apart a slow one has its turn. in_a_row: calls in a turn, numbered on; training takes one
    step after another too, with its own things in the caches. A step that returns a number has timed itself, in ms."""
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


def finish(name: str, values: dict[str, Any], text: str, *, as_json: bool, save: bool) -> None:
    """Print one JSON object or the text, with the machine, and keep the object where the dashboard finds it."""
    here = {"machine": machine_class(), "threads": numba.get_num_threads(), "caches": processor().caches_text}
    values = values | here
    text += f"\n\nOn {here['machine']}; {here['caches']}; threads used: {here['threads']}."
    if save:
        FOLDER.mkdir(parents=True, exist_ok=True)
        kept = values | {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "engine_version": PRIVATE_VERSION,
            "command": f"python -m benchmarks.{name} --save",
        }
        Path(FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write((json.dumps(values) if as_json else text) + "\n")
    sys.stdout.flush()


def markdown(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Return a table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def lessons_table(values: Mapping[str, Any]) -> str:
    """How long each lesson takes to answer; below it the live run."""
    rows = [
        (each["lesson"], each["moved"], f"{each['first']:.2f}", f"{each['again']:.2f}") for each in values["lessons"]
    ]
    text = markdown(("lesson", "what is moved", "first look, s", "seen before, s"), rows)
    return f"{text}\n\nLesson 5's live run: first point {values['first_point']:.1f} s after the page was opened."


def tagging_table(values: Mapping[str, Any]) -> str:
    """How fast texts are tagged."""
    rows: list[tuple[Any, ...]] = [
        ("first text of a fresh process", f"{values['start_seconds']:.1f} s"),
        ("500 words, five taggers, warm", f"{values['seconds_500_words']:.2f} s"),
        ("one linear tagger, features there", f"{values['sentences_a_second']:,} sentences a second"),
        ("the same, features computed", f"{values['sentences_a_second_with_features']:,} sentences a second"),
    ]
    return markdown(("texts", "measured"), rows)


def step_table(medians: Mapping[str, float]) -> str:
    """Milliseconds and ratios."""
    bases = ((1, 1), (medians["keras_ms"], 2), (medians["ours_private_ms"], 1))
    rows = [
        (title, *(f"{medians[name] / base:.{digits}f}" for base, digits in bases))
        for name, title in TITLES.items()
        if name in medians
    ]
    return markdown(("a step", "ms", "÷ Keras", "÷ ours, private"), rows)
