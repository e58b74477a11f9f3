"""Attack on noise on the shared layers only: ``python -m benchmarks.partial_noise_attack [--trials N] [--json]
[--save]``.

See :mod:`engine.experiments.trap`. Takes a few seconds a trial.
"""

import argparse
import math

from benchmarks.report import finish, markdown
from engine.experiments import trap
from engine.settings import Settings


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--trials", type=int, default=40, help="trainings of each kind; every second one uses the sentence"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help="save the result for the page Replication: FedNER 2020")
    options = parser.parse_args()
    number, settings = options.trials, Settings.from_environment()
    rows, values = [], {"trials": number, "right_at_most": trap.most_right()}
    for name, title in (("honest", "noise on all layers"), ("trap", "noise on the shared layers only")):
        trials = list(trap.trials(settings, number, honest=name == "honest"))
        right = sum(trial.guessed == trial.there for trial in trials)
        lengths = [math.sqrt(sum(change**2 for change in trial.moved) / len(trial.moved)) for trial in trials]
        most = max(max(trial.moved) for trial in trials)
        values[name] = {"moved_most": most, "right": right}
        rows.append((title, f"{most:.1f}", f"{sum(lengths) / number:.1f}", f"{right} of {number}"))
    head = ("", "largest change of the sum, ÷ C", "root mean square", "correct guesses")
    text = f"{markdown(head, rows)}\n\nLargest success rate if each sum has sensitivity C: {trap.most_right():.0%}."
    finish("trap", values, text, as_json=options.json, save=options.save, module="partial_noise_attack")


if __name__ == "__main__":
    main()
