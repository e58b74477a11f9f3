"""Attack on noise on the shared layers only: ``python -m benchmarks.trap [--trials N] [--json] [--save]``.

See :mod:`engine.experiments.trap`; some seconds a trial.
"""

import argparse
import math

from benchmarks.report import finish, markdown
from engine.experiments import trap
from engine.settings import Settings


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=40, help="of each, the sentence there in every second")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help="keep the result for the page Medical")
    options = parser.parse_args()
    number, settings = options.trials, Settings.from_environment()
    rows, values = [], {"trials": number, "right_at_most": trap.most_right()}
    for name, title in (("honest", "noise on all that is learned from"), ("trap", "noise on what is sent alone")):
        found = list(trap.trials(settings, number, honest=name == "honest"))
        right = sum(trial.guessed == trial.there for trial in found)
        lengths = [math.sqrt(sum(each**2 for each in trial.moved) / len(trial.moved)) for trial in found]
        most = max(max(trial.moved) for trial in found)
        values[name] = {"moved_most": most, "right": right}
        rows.append((title, f"{most:.1f}", f"{sum(lengths) / number:.1f}", f"{right} of {number}"))
    head = ("", "moved by at most, ÷ C", "root mean square", "attacker right")
    text = f"{markdown(head, rows)}\n\nRight at most, if it moved by C: {trap.most_right():.0%}."
    finish("trap", values, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
