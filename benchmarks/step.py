"""One training step: ours, private and not, with both back ends, against Keras's ordinary one, interleaved in one run.

``python -m benchmarks.step [--rounds N] [--json]``. Sentences have CoNLL-like lengths; Keras gets them padded to the
batch's longest, as its users do, and no clipping or noise.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.embeddings import EncodedSplit
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Seeds
from engine.taggers import Tagger, build
from engine.training.batches import batch_of
from engine.training.compiled.backend import CompiledBackend
from engine.training.dpsgd import DPSGD, Backend
from engine.training.optimisers import Optimiser
from engine.training.tensorflow_backend import TensorFlowBackend

BATCH, DIMENSIONS, HIDDEN, TAGS, SENTENCES, WORDS = 32, 300, 100, 9, 4000, 20_000


def sentences() -> tuple[EncodedSplit, np.ndarray]:
    """Random words and tags in sentences whose lengths are spread like CoNLL-2003's (mean 14.5, longest 113)."""
    random = np.random.default_rng(0)
    lengths = np.clip(np.rint(random.gamma(1.5, 9.7, SENTENCES)), 1, 113).astype(np.int64)
    rows = random.integers(0, WORDS, lengths.sum()).astype(np.int32)
    tags = random.integers(0, TAGS, lengths.sum()).astype(np.int16)
    table = random.standard_normal((WORDS, DIMENSIONS)).astype(np.float32)
    return EncodedSplit(rows, tags, np.concatenate([[0], np.cumsum(lengths)])), table


def ours(
    split: EncodedSplit, table: np.ndarray, kind: Callable[[Tagger], Backend], *, private: bool
) -> Callable[[int], None]:
    """A whole step of the engine: sampling, gradients, clipping, noise, update."""
    privacy = PrivacyConfig(noise_multiplier=1.0 if private else 0.0, sampling="shuffle")
    plan = PrivacyPlan.from_config(
        SimulationConfig(privacy=privacy, training=TrainingConfig(batch_size=BATCH)), len(split)
    )
    tagger = build(TaggerConfig(hidden_size=HIDDEN), DIMENSIONS, TAGS)
    optimiser = Optimiser(TrainingConfig(), tagger.size)
    weights = tagger.initial_weights(np.random.default_rng(0))
    learner = DPSGD(kind(tagger), plan, optimiser, Seeds(0), split, table, weights)

    def step(number: int) -> None:
        learner.step(number)

    return step


def keras(split: EncodedSplit, table: np.ndarray) -> Callable[[int], None]:
    """``train_on_batch`` of the same tagger in Keras's own layers, batches of a permutation."""
    layers = tf.keras.layers
    inputs = tf.keras.Input((None, DIMENSIONS))
    hidden = layers.Bidirectional(layers.LSTM(HIDDEN, return_sequences=True))(inputs)
    model = tf.keras.Model(inputs, layers.TimeDistributed(layers.Dense(TAGS, activation="softmax"))(hidden))
    model.compile(tf.keras.optimizers.SGD(0.15), "sparse_categorical_crossentropy")
    order = np.random.default_rng(0).permutation(len(split))

    def step(number: int) -> None:
        chosen = np.take(order, np.arange(number * BATCH, (number + 1) * BATCH), mode="wrap")
        batch = batch_of(split, table, chosen)
        model.train_on_batch(batch.padded(batch.vectors), batch.padded(batch.tags))

    return step


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="steps of each, after 20 to warm up")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    split, table = sentences()
    steps = {
        "keras_ms": keras(split, table),
        "reference_ordinary_ms": ours(split, table, TensorFlowBackend, private=False),
        "reference_private_ms": ours(split, table, TensorFlowBackend, private=True),
        "ours_ordinary_ms": ours(split, table, CompiledBackend, private=False),
        "ours_private_ms": ours(split, table, CompiledBackend, private=True),
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(options.rounds + 20):
        for name, step in steps.items():
            start = time.perf_counter()
            step(number)
            times[name].append(1000 * (time.perf_counter() - start))
    medians = {name: round(statistics.median(each[20:]), 2) for name, each in times.items()}
    if options.json:
        sys.stdout.write(json.dumps(medians) + "\n")
        return
    sys.stdout.write(f"{platform.machine()}, batch {BATCH}, medians of {options.rounds} interleaved steps\n\n")
    sys.stdout.write("| step | ms | to Keras |\n|---|---|---|\n")
    for name, value in medians.items():
        sys.stdout.write(f"| {name.removesuffix('_ms')} | {value} | {value / medians['keras_ms']:.2f} |\n")


if __name__ == "__main__":
    main()
