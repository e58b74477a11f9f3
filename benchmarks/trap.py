"""What an attacker learns where only what is sent is clipped and noised: ``python -m benchmarks.trap [--trials N]``.

See :mod:`engine.experiments.trap`; some seconds a trial.
"""

import argparse
import math
import sys

from benchmarks.report import markdown
from engine.experiments import trap
from engine.settings import Settings


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20, help="of each, the sentence there in every second")
    number, settings = parser.parse_args().trials, Settings.from_environment()
    rows = []
    for honest, title in ((True, "noise on all that is learned from"), (False, "noise on what is sent alone")):
        found = list(trap.trials(settings, number, honest=honest))
        right = sum(trial.guessed == trial.there for trial in found)
        lengths = [math.sqrt(sum(each**2 for each in trial.moved) / len(trial.moved)) for trial in found]
        most = max(max(trial.moved) for trial in found)
        rows.append((title, f"{most:.1f}", f"{sum(lengths) / number:.1f}", f"{right} of {number}"))
    head = ("", "moved by at most, ÷ C", "root mean square", "attacker right")
    sys.stdout.write(markdown(head, rows) + f"\n\nRight at most, if it moved by C: {trap.most_right():.0%}.\n")


if __name__ == "__main__":
    main()
