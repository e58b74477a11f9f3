"""Compute the picture of page Home, ``pages/home/picture.json``: ``python -m benchmarks.home_picture``.

F1 at each ε is the mean of the published runs on CoNLL-2003: with the first paper's settings, and with the recommended
ones. The first run of each configuration is repeated, and its tagger tags a letter. If its test scores differ from the
published ones, nothing is written. CoNLL-2003 and MPNet must be installed. Takes half an hour.
"""

import argparse
import json
import math
import sys
from typing import Any

from benchmarks.published_taggers import rerun
from benchmarks.recommended import on_home
from engine.config import SimulationConfig
from engine.errors import TrainingFailed
from engine.experiments.papers import jana_biemann_2021
from engine.experiments.seed_aggregates import over_seeds
from engine.service import Application
from engine.settings import Settings
from engine.tagging.examples import Example, examples
from engine.tagging.pipeline import TextTagger
from engine.training.model import Model
from pages.home import picture

LETTER = "Medical: A discharge note"
NOISE_MULTIPLIERS = (5.0, 1.0, 0.5, 0.0)
"""Those with which the paper's settings have published runs with five seeds."""


def configurations(app: Application) -> dict[str, list[SimulationConfig]]:
    """Return the configurations of each series, by ascending ε."""
    paper = [
        SimulationConfig.from_flat({"corpus": jana_biemann_2021.CORPUS, "noise_multiplier": sigma})
        for sigma in NOISE_MULTIPLIERS
    ]
    return {"paper": paper, "recommended": on_home(app.settings)}


def marked(letter: Example, model: Model, settings: Settings) -> list[int]:
    """Return for each name of the letter 1 if a tagger finds it, else 0."""
    ((tagged,),) = TextTagger(settings).tag([letter.text], [model])
    found = {(entity.start, entity.end, entity.type) for entity in tagged.entities}
    return [int((name.start, name.end, name.type) in found) for name in letter.names]


def point(config: SimulationConfig, app: Application) -> dict[str, Any]:
    """Return ε and F1 of a configuration as :func:`pages.home.picture.values` describes it; ``found`` is missing."""
    results = over_seeds(config, app.queries.find)
    if results.entity is None or results.epsilon is None:
        raise TrainingFailed(f"No published run has σ = {config.privacy.noise_multiplier}; run `make results`")
    epsilon = round(results.epsilon, 4) if math.isfinite(results.epsilon) else None
    return {"epsilon": epsilon, "f1": round(results.entity.f1.mean, 4)}


def main() -> int:
    """Compute and write the picture; return the exit code."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    app = Application.from_environment()
    series: dict[str, list[dict[str, Any]]] = {}
    for name, configs in configurations(app).items():
        series[name] = []
        for config in configs:
            measured, run = point(config, app), app.queries.find(config)
            found = marked(examples()[LETTER], rerun(run, app.settings), app.settings) if run else []
            series[name].append(measured | {"found": found})
            sys.stdout.write(f"{name}: {series[name][-1]}\n")
            sys.stdout.flush()
    picture.VALUES.write_text(json.dumps({"letter": LETTER, "series": series}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
