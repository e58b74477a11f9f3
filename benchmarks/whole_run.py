"""Time of a whole run in a worker, scoring included: ``python -m benchmarks.whole_run [--json] [--save]``.

Ten epochs at the paper settings, with σ = 1 and without privacy, with TDDL and CRF, one after another in one warm
process, like a worker's. Also the time of the first run by part, and the time to score the test set once.
"""

import argparse
import resource
import time
from typing import Any

import numpy as np

from benchmarks.report import finish, markdown
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig
from engine.embeddings.encoding import tag_sequences
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
                    ("accounting", recorder, "spent"),
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
    values = {
        "corpus": options.corpus,
        "runs": runs,
        "parts_s": parts,
        "scoring_s": round(once, 2),
        "scored_sentences": sentences,
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
    }
    text = "\n\n".join(
        [
            markdown(("tagger", "σ", "seconds", "steps", "test F1"), [tuple(run.values()) for run in runs]),
            markdown(("part of the first run", "seconds"), list(parts.items())),
            f"One scoring of {sentences:,} test sentences: {once:.2f} s. Peak memory: {values['memory_mb']} MB.",
        ]
    )
    finish("whole_run", values, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
