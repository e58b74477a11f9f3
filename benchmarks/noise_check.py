"""The noise check itself, measured: ``python -m benchmarks.noise_check [--only PART] [--json] [--save]``.

*cost*: the share of a run's time that it takes, at batch 32 and 4,096 (:mod:`benchmarks.noise_cost`). *alarms*: how
many honest runs it accuses, of 100,000 and more (:mod:`benchmarks.noise_alarms`). *power*: which faults it finds at
which step (:mod:`benchmarks.noise_power`). What is kept of parts that are not measured again stays as it was.
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
    parser.add_argument("--corpus", default="conll2003", help="of the cost; default: conll2003, or the embedded one")
    parser.add_argument("--steps", type=int, default=300, help="that are timed, at most; default: 300")
    parser.add_argument("--turns", type=int, default=0, help="of whole runs with and without the check; default: none")
    parser.add_argument("--busy", action="store_true", help="cost in processor seconds: others use the machine too")
    parser.add_argument("--runs", type=int, default=100_000, help="honest toy runs; default: 100,000")
    parser.add_argument("--repeats", type=int, default=5, help="broken runs of each kind; default: 5")
    parser.add_argument("--quick", action="store_true", help="no broken runs of the largest size")
    parser.add_argument("--processes", type=int, default=2, help="for alarms and power; default: 2")
    parser.add_argument("--progress", type=Path, help="where counted alarms are kept, so that a run can be resumed")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    settings = Settings.from_environment()
    wanted = (options.only,) if options.only else PARTS
    values, texts = _kept(), []
    if "cost" in wanted:
        setup.warm_up(settings)
        values["cost"], text = noise_cost.measure(options.corpus, options.steps, options.turns, options.busy, settings)
        texts.append(text)
    if "alarms" in wanted:
        progress = options.progress or settings.home / "benchmarks" / "noise_alarms.jsonl"
        values["alarms"], text = noise_alarms.measure(options.runs, options.processes, progress)
        texts.append(text)
    if "power" in wanted:
        values["power"], text = noise_power.measure(options.repeats, options.processes, options.quick)
        texts.append(text)
    finish("noise_check", values, "\n\n".join(texts), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
