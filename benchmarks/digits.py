"""Compare published runs with this version of the program, digit by digit: ``python -m benchmarks.digits``.

Computes one published run again for each kind of computation: tagger, features, training loss, optimiser, sampling,
schedule, mechanism, dropout and averaging. Of each kind it chooses the run that took the least time. Corpora must be
installed. Runs of an older engine version are left out: their digits differ by definition. It writes nothing.
"""

import argparse
import sys
import time
from collections.abc import Iterable

from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.records import Run
from engine.service import Application
from engine.service.reproducibility import compare
from engine.simulation.run import simulate


def kind(config: SimulationConfig) -> tuple[object, ...]:
    """Return the fields that select the code of a run."""
    training, privacy, federation = config.training, config.privacy, config.federation
    return (
        config.tagger.name,
        config.tagger.dropout > 0,
        config.features,
        training.loss,
        training.optimiser,
        training.averaging > 0,
        privacy.noise_multiplier > 0,
        privacy.sampling,
        privacy.mechanism,
        federation.schedule,
        federation.clients > 1,
        bool(config.platforms),
    )


def chosen(runs: Iterable[Run]) -> list[Run]:
    """Return the fastest run of each kind that the current engine version computed, the fastest first."""
    fastest: dict[tuple[object, ...], Run] = {}
    timed = [(run.final.seconds, run) for run in runs if run.final and not run.outdated]
    for _, run in sorted(timed, key=lambda pair: pair[0]):
        fastest.setdefault(kind(run.config), run)
    return list(fastest.values())


def main() -> int:
    """Print a line for each run, then the number of equal runs; return 1 if a run could not be computed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="start no run after this time, default 30")
    options = parser.parse_args()
    app = Application.from_environment()
    runs, begun = chosen(app.queries.published()), time.monotonic()
    equal = computed = failed = 0
    for number, run in enumerate(runs, start=1):
        if time.monotonic() - begun > 60 * options.minutes:
            break
        name = f"{number:3d} of {len(runs)}  {run.run_id}  {run.config.tagger.name}, {run.config.features}"
        try:
            *_, last = simulate(run.config, app.settings)
        except EpsilonError as error:
            failed += 1
            sys.stdout.write(f"{name}: not computed: {error}\n")
            continue
        found = compare(run.final, last)
        computed += 1
        equal += bool(found and found.identical)
        sys.stdout.write(f"{name}: {found.text if found else 'no final record'}\n")
        sys.stdout.flush()
    app.close()
    left = len(runs) - computed - failed
    sys.stdout.write(f"{equal} of {computed} runs are equal to the last digit; {left} were not started.\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
