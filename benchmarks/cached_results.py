"""Compute ``cached_results/``: ``make results``, or ``python -m benchmarks.cached_results`` with options for a part.

The runs of Explore's slider at the first paper's settings, all cells of its tables, the counterfactuals and fixes of
Training diagnostics, the steps to the recommended settings, and these in federated training: on CoNLL-2003
with five seeds, on the embedded corpus with one. Then the recommended settings on eight corpora and on parts of one,
and FedNER's table and figures on three medical corpora. Runs are computed in parallel, one per core. Published runs are
skipped, so you can interrupt and restart it.
"""

import argparse
import itertools
import os
import sys
import time

from benchmarks import recommended
from engine import corpus as corpora
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig
from engine.experiments import diagnosis, recommended_settings, seed_aggregates
from engine.experiments.papers import fedner_2020, jana_biemann_2021
from engine.records import RunState
from engine.service import Application
from engine.settings import Settings

SEEDS = {"synthetic": 1, "conll2003": seed_aggregates.SEEDS}
"""Number of seeds of each cell by corpus."""
NOISE_MULTIPLIERS = (0.0, 0.5, 1.0, 2.0, 5.0)


def wanted(names: list[str], seeds: int | None) -> list[SimulationConfig]:
    """Return all configurations, those with the first seed first."""
    settings = Settings.from_environment()
    found: list[tuple[int, SimulationConfig]] = []
    for corpus in names:
        for tagger, sigma in itertools.product(jana_biemann_2021.TAGGERS, NOISE_MULTIPLIERS):
            privacy = PrivacyConfig(noise_multiplier=sigma)
            found.append((0, SimulationConfig(corpus=corpus, tagger=TaggerConfig(name=tagger), privacy=privacy)))
        for cell in jana_biemann_2021.cells(corpus=corpus):
            found += enumerate(cell.seeds(seeds or SEEDS.get(corpus, 1)))
        explained = [variant.config for variant in (*diagnosis.crf(corpus), *diagnosis.phases(corpus))]
        sentences = corpora.resolve(corpus, settings).train_sentences
        steps = [
            recommended_settings.recipe_step(number, corpus, sentences, epsilon)
            for number in range(len(recommended_settings.STEPS))
            for epsilon in (*recommended_settings.EPSILONS, None)
        ]
        federated = [
            recommended_settings.federated(corpus, sentences, clients, rounds, epsilon)
            for clients, rounds, epsilon in itertools.product(
                recommended_settings.CLIENTS, recommended_settings.ROUNDS, recommended_settings.EPSILONS
            )
        ]
        for config in (*jana_biemann_2021.counterfactuals(corpus).values(), *explained, *steps, *federated):
            found += enumerate(seed_aggregates.with_seeds(config, seeds or SEEDS.get(corpus, 1)))
    return list(dict.fromkeys(config for _, config in sorted(found, key=lambda pair: pair[0])))


def main() -> int:
    """Compute and publish the runs; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", action="append", choices=list(SEEDS), help="corpus of the first paper; default: both"
    )
    parser.add_argument(
        "--fedner",
        action="append",
        choices=list(fedner_2020.TABLES),
        help="one table or figure of FedNER; default: all",
    )
    parser.add_argument(
        "--recommended", action="store_true", help="the recommended settings on eight corpora and on parts of one"
    )
    parser.add_argument("--seeds", type=int, help="number of seeds of each cell; default: that of the published means")
    chosen = parser.parse_args()
    app, begun = Application.from_environment(), time.monotonic()
    everything = not (chosen.corpus or chosen.fedner or chosen.recommended)
    configs = wanted(list(SEEDS) if everything else chosen.corpus or [], chosen.seeds)
    if everything or chosen.recommended:
        configs += _recommended(app.settings, chosen.seeds or seed_aggregates.SEEDS)
    configs = list(dict.fromkeys(configs))
    configs += fedner_2020.wanted(chosen.seeds, list(fedner_2020.TABLES) if everything else chosen.fedner or [])
    published = {run.run_id for run in app.queries.published()}
    asked = app.runs.submit_all(configs, owner_pid=os.getpid(), batch=True)
    left = {status.run_id for status in asked} - published
    sys.stdout.write(f"{len(configs):,} runs, of which {len(configs) - len(left):,} are already published\n")
    computed, failed = len(left), 0
    while left:
        time.sleep(15)
        for run in app.queries.recent(len(configs) + len(published)):
            if run.run_id in left and run.status.state.final:
                left.remove(run.run_id)
                failed += run.status.state != RunState.DONE
                sys.stdout.write(f"{_publish(app, run.run_id)}, {len(left):,} left\n")
                sys.stdout.flush()
    minutes = (time.monotonic() - begun) / 60
    sys.stdout.write(f"{computed - failed:,} runs computed in {minutes:.0f} min, {failed} failed\n")
    return 1 if failed else 0


def _recommended(settings: Settings, seeds: int) -> list[SimulationConfig]:
    """Return the recommended settings on eight corpora and on parts of one, those with the first seed first."""
    rows = [*recommended.on_corpora(settings).values(), *recommended.on_parts(settings).values()]
    rows.append(recommended.on_home(settings))
    every = [seed_aggregates.with_seeds(config, seeds) for configs in rows for config in configs]
    return [of_seed for column in zip(*every, strict=True) for of_seed in column]


def _publish(app: Application, run_id: str) -> str:
    """Publish a finished run and return a line on its result."""
    run = app.queries.get(run_id)
    if not run.final or not run.final.test:
        return f"{run_id}: {run.status.state}: {run.status.error}"
    app.runs.publish(run_id)
    app.models.delete([run_id])  # hundreds of models would fill half a gigabyte of the home
    seconds = run.provenance.wall_seconds if run.provenance else 0
    config = run.config
    return (
        f"{run_id} {config.corpus} {config.tagger.name} σ {config.privacy.noise_multiplier:g} "
        f"n {config.federation.clients} seed {config.seed}: ε {run.final.privacy.epsilon:.4g}, "
        f"test F1 {run.final.test.f1:.4f}, {seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
