"""One training step against its peers, interleaved in one run: ``python -m benchmarks.step [--json] [--save]``.

Ours, private and not, with TDDL and CRF and with the reference back end; Keras's ordinary step of the same tagger;
private steps of TensorFlow Privacy, and of Opacus where its environment is there. Sentences have CoNLL-like lengths and
hardly a word twice, which is harder for ours than news is; the others get them padded to the batch's longest, as their
users do, and Opacus packed too.
"""

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import tensorflow as tf

from benchmarks.report import finish, interleaved, step_table
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.embeddings import EncodedSplit
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets
from engine.settings import REPOSITORY
from engine.taggers import Tagger, build
from engine.training.batches import batch_of
from engine.training.compiled.backend import CompiledBackend
from engine.training.dpsgd import DPSGD, Backend
from engine.training.optimisers import Optimiser
from engine.training.tensorflow_backend import TensorFlowBackend

BATCH, DIMENSIONS, HIDDEN, TAGS, SENTENCES, WORDS = 32, 300, 100, 9, 4000, 20_000
IN_A_ROW = 10
"""Steps that each takes before the next has its turn."""


def sentences(number: int = SENTENCES) -> tuple[EncodedSplit, np.ndarray]:
    """Random words and tags in sentences whose lengths are spread like CoNLL-2003's (mean 14.5, longest 113)."""
    random = np.random.default_rng(0)
    lengths = np.clip(np.rint(random.gamma(1.5, 9.7, number)), 1, 113).astype(np.int64)
    rows = random.integers(0, WORDS, lengths.sum()).astype(np.int32)
    tags = random.integers(0, TAGS, lengths.sum()).astype(np.int16)
    table = random.standard_normal((WORDS, DIMENSIONS)).astype(np.float32)
    return EncodedSplit(rows, tags, np.concatenate([[0], np.cumsum(lengths)])), table


def ours(
    split: EncodedSplit,
    table: np.ndarray,
    *,
    private: bool,
    tagger: str = "bilstm-tddl",
    kind: Callable[[Tagger], Backend] = CompiledBackend,
) -> Callable[[int], None]:
    """Return a step of the engine: sampling, gradients, clipping, noise, update, noise check."""
    privacy = PrivacyConfig(noise_multiplier=1.0 if private else 0.0, sampling="shuffle")
    plan = PrivacyPlan.from_config(
        SimulationConfig(privacy=privacy, training=TrainingConfig(batch_size=BATCH)), len(split)
    )
    built = build(TaggerConfig(name=tagger, hidden_size=HIDDEN), DIMENSIONS, TAGS)
    weights = built.initial_weights(np.random.default_rng(0))
    learner = DPSGD(
        kind(built), plan, Optimiser(TrainingConfig(), built.size), Secrets.seeded(0, "step"), split, table, weights
    )

    def step(number: int) -> None:
        learner.step(number)

    return step


def keras(split: EncodedSplit, table: np.ndarray, *, private: bool) -> Callable[[int], None]:
    """``train_on_batch`` of the same tagger in Keras's own layers, batches of a permutation.

    private: with TensorFlow Privacy's optimiser, each sentence a microbatch, in the graph that Keras compiles.
    """
    layers = tf.keras.layers
    inputs = tf.keras.Input((None, DIMENSIONS))
    hidden = layers.Bidirectional(layers.LSTM(HIDDEN, return_sequences=True))(inputs)
    model = tf.keras.Model(inputs, layers.TimeDistributed(layers.Dense(TAGS, activation="softmax"))(hidden))
    optimiser, loss = tf.keras.optimizers.SGD(0.15), tf.keras.losses.SparseCategoricalCrossentropy()
    if private:
        from tensorflow_privacy import DPKerasSGDOptimizer

        optimiser = DPKerasSGDOptimizer(
            l2_norm_clip=1.5, noise_multiplier=1.0, num_microbatches=BATCH, learning_rate=0.15
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(reduction=tf.keras.losses.Reduction.NONE)
    model.compile(optimiser, loss)
    order = np.random.default_rng(0).permutation(len(split))

    def step(number: int) -> None:
        chosen = np.take(order, np.arange(number * BATCH, (number + 1) * BATCH), mode="wrap")
        batch = batch_of(split, table, chosen)
        model.train_on_batch(batch.padded(batch.vectors), batch.padded(batch.tags))

    return step


@contextmanager
def opacus(split: EncodedSplit) -> Iterator[dict[str, Callable[[int], float]]]:
    """Yield steps of Opacus in its own environment, ``.venv-peers``; none if that is not there.

    ``python3.11 -m venv .venv-peers && .venv-peers/bin/pip install torch==2.13.0 opacus==1.6.0``, torch's CPU build.
    """
    python = REPOSITORY / ".venv-peers" / "bin" / "python"
    if not python.exists():
        yield {}
        return
    command = [str(python), str(REPOSITORY / "benchmarks" / "opacus_step.py")]
    order = np.random.default_rng(0).permutation(len(split))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdin is None or process.stdout is None:
            raise SystemExit("Opacus cannot be talked to.")
        ask, answer = process.stdin, process.stdout

        def step(name: str, number: int) -> float:
            chosen = np.take(order, np.arange(number * BATCH, (number + 1) * BATCH), mode="wrap")
            ask.write(json.dumps({"name": name, "lengths": split.lengths[chosen].tolist()}) + "\n")
            ask.flush()
            return float(answer.readline())

        yield {name: partial(step, name) for name in ("pytorch_ms", "opacus_ms", "opacus_padded_ms")}
        ask.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="turns of each, after a fifth more to warm up")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result for the page Performance")
    options = parser.parse_args()
    split, table = sentences()
    with opacus(split) as peers:
        steps: dict[str, Callable[[int], float | None]] = {
            "keras_ms": keras(split, table, private=False),
            "ours_ordinary_ms": ours(split, table, private=False),
            "ours_private_ms": ours(split, table, private=True),
            "crf_ordinary_ms": ours(split, table, private=False, tagger="bilstm-crf"),
            "crf_private_ms": ours(split, table, private=True, tagger="bilstm-crf"),
            "reference_private_ms": ours(split, table, private=True, kind=TensorFlowBackend),
            "tensorflow_privacy_ms": keras(split, table, private=True),
            **peers,
        }
        medians = interleaved(steps, options.rounds, {"tensorflow_privacy_ms": 10}, IN_A_ROW)
    text = f"Batch {BATCH}, medians of {options.rounds} interleaved turns of {IN_A_ROW} steps"
    text += ", one turn of TensorFlow Privacy in ten\n\n"
    text += step_table(medians)
    finish("step", medians, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
