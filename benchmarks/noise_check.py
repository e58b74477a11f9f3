"""Cost, false alarms and power of the noise check:
``python -m benchmarks.noise_check [--only PART] [--json] [--save]``.

*cost*: its share of a run's time, at batch 32 and 4,096 (:mod:`benchmarks.noise_cost`). *alarms*: how many of 100,000
and more honest runs fail it (:mod:`benchmarks.noise_alarms`). *power*: the faults that it finds, and the step at which
it finds them (:mod:`benchmarks.noise_power`). Saved results of parts that are not measured stay unchanged.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks import noise_alarms, noise_cost, noise_power
from benchmarks.report import FOLDER, finish
from engine.settings import Settings
from engine.simulation import setup

PARTS = ("cost", "alarms", "power")


def _kept() -> dict[str, Any]:
    """Return the parts that were saved before."""
    file = FOLDER / "noise_check.json"
    values = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {part: values[part] for part in PARTS if part in values}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="one part; default: all three")
    parser.add_argument(
        "--corpus", default="conll2003", help="corpus of the cost; default: conll2003, or the built-in one"
    )
    parser.add_argument("--steps", type=int, default=300, help="maximum number of timed steps; default: 300")
    parser.add_argument(
        "--turns", type=int, default=0, help="turns of whole runs with and without the check; default: none"
    )
    parser.add_argument("--busy", action="store_true", help="measure processor seconds, for a machine with other work")
    parser.add_argument("--runs", type=int, default=100_000, help="honest simulated runs; default: 100,000")
    parser.add_argument("--repeats", type=int, default=5, help="faulty runs of each type; default: 5")
    parser.add_argument("--quick", action="store_true", help="leave out faulty runs of the largest size")
    parser.add_argument("--processes", type=int, default=2, help="for alarms and power; default: 2")
    parser.add_argument("--progress", type=Path, help="file of counted alarms, to resume a run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    settings = Settings.from_environment()
    parts = (options.only,) if options.only else PARTS
    values, texts = _kept(), []
    if "cost" in parts:
        setup.warm_up(settings)
        values["cost"], text = noise_cost.measure(options.corpus, options.steps, options.turns, options.busy, settings)
        texts.append(text)
    if "alarms" in parts:
        progress = options.progress or settings.home / "benchmarks" / "noise_alarms.jsonl"
        values["alarms"], text = noise_alarms.measure(options.runs, options.processes, progress)
        texts.append(text)
    if "power" in parts:
        values["power"], text = noise_power.measure(options.repeats, options.processes, options.quick)
        texts.append(text)
    finish("noise_check", values, "\n\n".join(texts), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
