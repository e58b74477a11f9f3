"""Time of a whole run in a worker, scoring included: ``python -m benchmarks.whole_run [--json] [--save]``.

Ten epochs at the paper settings, with σ = 1 and without privacy, with TDDL and CRF, one after another in one warm
process, like a worker's. Also the time of the first run by part, and the time to score the test set once. Then two
runs with each of the best settings at ε = 1, in a new home: the first one computes the features of the corpus.
"""

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import finish, markdown
from engine import corpus
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig
from engine.embeddings.encoding import tag_sequences
from engine.experiments import recommended_settings
from engine.experiments.papers.jana_biemann_2021 import TAGGERS
from engine.records import RoundRecord
from engine.scoring import score
from engine.settings import Settings
from engine.simulation import recorder, setup
from engine.simulation import run as simulation
from engine.taggers.decoding import Decoder
from engine.training.dpsgd import DPSGD, predict


class Stopwatch:
    """Sum of the seconds in functions, which it replaces by timed ones."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._undo: list[tuple[Any, str, Any]] = []

    def watch(self, name: str, owner: Any, function: str) -> None:
        """Time ``owner.function`` as ``name`` until :meth:`stop`."""
        original = getattr(owner, function)
        self.seconds[name] = 0.0

        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return original(*arguments, **named)
            finally:
                self.seconds[name] += time.perf_counter() - start

        self._undo.append((owner, function, original))
        setattr(owner, function, timed)

    def stop(self) -> None:
        """Restore the original functions."""
        for owner, function, original in self._undo:
            setattr(owner, function, original)


def train(config: SimulationConfig, settings: Settings) -> tuple[RoundRecord, float]:
    """Return the last record and the wall seconds."""
    start = time.perf_counter()
    *_, record = simulation.simulate(config, settings)
    return record, time.perf_counter() - start


def scoring_seconds(config: SimulationConfig, settings: Settings) -> tuple[int, float]:
    """Return the number of test sentences, and the seconds of the fastest of five scorings."""
    prepared = setup.prepare(config, settings)
    run, (side,) = prepared.run, prepared.sides
    encoded, tagger, backend = side.encoded, side.tagger, side.holding.backend
    decoder, split, best = Decoder(encoded.tags, well_formed=False), encoded.test, np.inf
    transitions = tagger.views(run.weights)[-1].get("transitions")
    for _ in range(5):
        start = time.perf_counter()
        predicted = predict(backend, decoder, run.weights, transitions, split, encoded.vectors, lambda: None)
        score(*(tag_sequences(split, tags, encoded.tags) for tags in (split.tags, predicted)))
        best = min(best, time.perf_counter() - start)
    return len(split), best


def runs_in_a_new_home(name: str, settings: Settings) -> list[dict[str, Any]]:
    """Return the seconds and F1 of two runs by step of the ablation, each step with a home without any feature."""
    found = []
    for number in (recommended_settings.WITH_MINILM, len(recommended_settings.STEPS) - 1):
        config = recommended_settings.recipe_step(number, name, corpus.resolve(name, settings).train_sentences, 1.0)
        with tempfile.TemporaryDirectory() as folder:
            home = replace(settings, home=Path(folder), store_url=f"sqlite:///{folder}/runs.sqlite", shared=None)
            (first, seconds), (_, again) = (train(replace(config, seed=seed), home) for seed in (0, 1))
        found.append(
            {
                "settings": recommended_settings.STEPS[number].name,
                "first_s": round(seconds),
                "second_s": round(again),
                "test_f1": round(first.test.f1, 4) if first.test else None,
            }
        )
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="conll2003", help="default: conll2003")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result for the page Performance")
    options = parser.parse_args()
    settings = Settings.from_environment()
    setup.warm_up(settings)
    setup.prepare(SimulationConfig(corpus=options.corpus), settings)
    runs: list[dict[str, Any]] = []
    parts: dict[str, float] = {}
    for tagger in TAGGERS:
        for sigma in (1.0, 0.0):
            config = SimulationConfig(
                corpus=options.corpus, tagger=TaggerConfig(name=tagger), privacy=PrivacyConfig(noise_multiplier=sigma)
            )
            watch = Stopwatch()
            if not parts:
                watched: list[tuple[str, Any, str]] = [
                    ("training steps", DPSGD, "step"),
                    ("tagging", setup, "predict"),
                    ("scoring", setup, "score"),
                    ("accounting", recorder, "privacy_spent"),
                ]
                for name, owner, function in watched:
                    watch.watch(name, owner, function)
            record, seconds = train(config, settings)
            watch.stop()
            parts = parts or {name: round(took, 1) for name, took in watch.seconds.items()}
            runs.append(
                {
                    "tagger": tagger,
                    "noise_multiplier": sigma,
                    "seconds": round(seconds, 1),
                    "steps": record.steps_total,
                    "test_f1": round(record.test.f1, 4) if record.test else None,
                }
            )
    sentences, once = scoring_seconds(SimulationConfig(corpus=options.corpus), settings)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    new_home = runs_in_a_new_home(options.corpus, settings)
    values = {
        "corpus": options.corpus,
        "runs": runs,
        "new_home": new_home,
        "parts_s": parts,
        "scoring_s": round(once, 2),
        "scored_sentences": sentences,
        "memory_mb": round(memory),
    }
    text = "\n\n".join(
        [
            markdown(("tagger", "σ", "seconds", "steps", "test F1"), [tuple(run.values()) for run in runs]),
            markdown(("part of the first run", "seconds"), list(parts.items())),
            markdown(
                ("settings at ε = 1, in a new home", "first run, s", "second run, s", "test F1"),
                [tuple(run.values()) for run in new_home],
            ),
            f"One scoring of {sentences:,} test sentences: {once:.2f} s. Peak memory: {values['memory_mb']} MB.",
        ]
    )
    finish("whole_run", values, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
