"""Compute the published taggers, ``cached_results/models/``: ``python -m benchmarks.published_taggers``.

Each published run with an available tagger (:mod:`engine.tagging.published_taggers`) is rerun with the same
configuration and seed. If its test scores differ from the published ones in any entity, nothing is written. Printed is
F1 on the test set of CoNLL-2003: as published, with the stored float16 weights, and with constrained decoding as in
:mod:`engine.tagging`; the recommended settings first with MPNet, then with MiniLM. CoNLL-2003 and both language models
must be installed. Takes a quarter of an hour.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from engine.config import SimulationConfig
from engine.errors import TrainingFailed
from engine.records import EntityScores, Run
from engine.service import Application
from engine.settings import Settings
from engine.simulation.run import simulate
from engine.simulation.setup import prepare
from engine.store import paths, published_models
from engine.tagging import published_taggers
from engine.training.model import Model


def main() -> int:
    """Compute, compare and write the taggers; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", action="append", choices=list(published_taggers.published()), help="default: all")
    chosen = parser.parse_args()
    settings, size = Settings.from_environment(), 0
    names = chosen.epsilon or published_taggers.published()
    for name, config in dict.fromkeys(
        (name, published_taggers.published(with_mpnet)[name]) for with_mpnet in (True, False) for name in names
    ):
        run = Application(settings).queries.find(config)
        if run is None or not run.published or run.outdated:
            raise TrainingFailed(f"No published run of the current engine has ε = {name}; run `make results`")
        path = settings.published / paths.model_name(run.run_id)
        published_models.write(rerun(run, settings), paths.model_name(run.run_id), settings.published)
        stored = published_models.read(paths.model_name(run.run_id), settings.published)
        _print_line(name, run, _scores(config, stored, settings), _scores(_well_formed(config), stored, settings), path)
        size += path.stat().st_size
    sys.stdout.write(f"{size:,} bytes in all\n")
    return 0


def rerun(run: Run, settings: Settings) -> Model:
    """Return the tagger of a published run. Raises TrainingFailed if the rerun has other scores."""
    models: list[Model] = []
    *_, last = simulate(run.config, settings, on_model=models.append)
    published = run.final.test if run.final else None
    if not (last.test and published) or (last.test.strict, last.test.token) != (published.strict, published.token):
        raise TrainingFailed(f"run {run.run_id} has other test scores than the published ones; nothing was written")
    return models[0]


def _scores(config: SimulationConfig, model: Model, settings: Settings) -> EntityScores:
    return prepare(config, settings).sides[0].scores("test", model.weights, lambda: None)


def _well_formed(config: SimulationConfig) -> SimulationConfig:
    return replace(config, tagger=replace(config.tagger, well_formed=True))


def _print_line(name: str, run: Run, float16: EntityScores, constrained: EntityScores, path: Path) -> None:
    published = run.final.test.f1 if run.final and run.final.test else 0.0
    sys.stdout.write(
        f"ε {name}: run {run.run_id}, test F1 {published:.4f} as published and in the rerun, {float16.f1:.4f} in "
        f"float16, {constrained.f1:.4f} with constrained decoding; {path.stat().st_size:,} bytes\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
