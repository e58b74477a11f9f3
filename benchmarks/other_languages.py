"""The recommended settings on corpora that are not in English: ``python -m benchmarks.other_languages CORPUS …``.

The corpora are your own, by the names that ``python -m engine upload`` prints. The features are spelling and one layer
of each installed language model, without pretrained weights and without the tags of the English NER tagger. Printed is
the mean entity-level F1 on the test set ± standard deviation over the seeds. Runs are computed in parallel, one per
core, and stored in EPSILON_HOME; those that are stored already are not computed again.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Sequence

from benchmarks.report import markdown
from engine.config import ENCODERS, SimulationConfig
from engine.experiments.recommended_settings import EPSILONS, for_other_languages
from engine.experiments.seed_aggregates import over_seeds, with_seeds
from engine.service import Application

COLUMNS = (*EPSILONS, None)
"""Values of ε; None for no noise."""
SEEDS = 3


def rows_of(
    corpora: Sequence[str], models: Sequence[str], app: Application
) -> dict[tuple[str, str], list[SimulationConfig]]:
    """Return the configurations at each ε by corpus and language model."""
    return {
        (corpus, model): [
            for_other_languages(corpus, app.corpora.train_sentences(corpus), epsilon, model) for epsilon in COLUMNS
        ]
        for corpus, model in itertools.product(corpora, models)
    }


def compute(configs: Sequence[SimulationConfig], app: Application) -> bool:
    """Compute the runs that are not stored; return whether all succeeded."""
    asked = {status.run_id for status in app.runs.submit_all(configs, owner_pid=os.getpid(), batch=True)}
    while waiting := [run for run in map(app.queries.get, asked) if not run.status.state.final]:
        sys.stderr.write(f"{len(waiting):,} of {len(configs):,} runs left\n")
        time.sleep(15)
    failed = [run for run in map(app.queries.get, asked) if not run.final]
    for run in failed:
        sys.stderr.write(f"{run.run_id}: {run.status.state}: {run.status.error}\n")
    return not failed


def table(rows: dict[tuple[str, str], list[SimulationConfig]], app: Application, seeds: int) -> str:
    """Return the table of F1 over this number of seeds."""
    lines = []
    for (corpus, model), configs in rows.items():
        results = [over_seeds(config, app.queries.find, seeds=seeds) for config in configs]
        f1 = [result.entity.f1.text if result.entity else "" for result in results]
        lines.append((corpus, f"{model}, layer {ENCODERS[model].layer}", *f1, results[0].seeds_text))
    names = ["not private" if epsilon is None else f"ε = {epsilon:g}" for epsilon in COLUMNS]
    return markdown(("corpus", "language model", *names, "seeds"), lines)


def main() -> int:
    """Compute the runs and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", metavar="CORPUS")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"number of seeds of each cell; default: {SEEDS}")
    chosen, app = parser.parse_args(), Application.from_environment()
    models = [name for name in app.corpora.language_models() if name in ENCODERS]
    rows = rows_of(chosen.corpora, models, app)
    every = [with_seeds(config, chosen.seeds) for configs in rows.values() for config in configs]
    succeeded = compute([of_seed for column in zip(*every, strict=True) for of_seed in column], app)
    sys.stdout.write(table(rows, app, chosen.seeds) + "\n")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
