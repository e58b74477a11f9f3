"""Time of a training step compared with other libraries: ``python -m benchmarks.step [--json] [--save]``.

Steps are interleaved. Compared are our step, private and not, with TDDL, with CRF and with the reference back end;
Keras's non-private step of the same tagger; and private steps of TensorFlow Privacy, and of Opacus if its environment
is installed. Sentences have CoNLL-like lengths and hardly repeat a word, which is harder for our step than news. The
others get sentences padded to the longest in the batch, as their users do, and Opacus also packed ones.
"""

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from benchmarks.report import finish, interleaved, step_table
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.embeddings import EncodedSplit
from engine.experiments import tf_privacy
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
"""Number of steps in a turn."""


def sentences(number: int = SENTENCES) -> tuple[EncodedSplit, np.ndarray]:
    """Return random words and tags in sentences with lengths distributed as in CoNLL-2003 (mean 14.5, maximum 113)."""
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
    """Return ``train_on_batch`` of the same tagger with Keras's layers, on batches of a permutation.

    Args:
        split: The sentences.
        table: Word vectors, [words, dimensions].
        private: Whether to use TensorFlow Privacy's optimiser with one sentence per microbatch, in the graph that Keras
            compiles.
    """
    layers = tf_privacy.keras.layers
    inputs = tf_privacy.keras.Input((None, DIMENSIONS))
    hidden = layers.Bidirectional(layers.LSTM(HIDDEN, return_sequences=True))(inputs)
    model = tf_privacy.keras.Model(inputs, layers.TimeDistributed(layers.Dense(TAGS, activation="softmax"))(hidden))
    losses = tf_privacy.keras.losses
    optimiser, loss = tf_privacy.keras.optimizers.SGD(0.15), losses.SparseCategoricalCrossentropy()
    if private:
        optimiser = tf_privacy.DPKerasSGDOptimizer(
            l2_norm_clip=1.5, noise_multiplier=1.0, num_microbatches=BATCH, learning_rate=0.15
        )
        loss = losses.SparseCategoricalCrossentropy(reduction=losses.Reduction.NONE)
    model.compile(optimiser, loss)
    order = np.random.default_rng(0).permutation(len(split))

    def step(number: int) -> None:
        chosen = np.take(order, np.arange(number * BATCH, (number + 1) * BATCH), mode="wrap")
        batch = batch_of(split, table, chosen)
        model.train_on_batch(batch.padded(batch.vectors), batch.padded(batch.tags))

    return step


@contextmanager
def opacus(split: EncodedSplit) -> Iterator[dict[str, Callable[[int], float]]]:
    """Yield steps of Opacus in its own environment, ``.venv-peers``; none if it is not installed.

    ``python3.11 -m venv .venv-peers && .venv-peers/bin/pip install torch==2.13.0 opacus==1.6.0``, with the CPU build of
    torch.
    """
    python = REPOSITORY / ".venv-peers" / "bin" / "python"
    if not python.exists():
        yield {}
        return
    command = [str(python), str(REPOSITORY / "benchmarks" / "opacus_step.py")]
    order = np.random.default_rng(0).permutation(len(split))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdin is None or process.stdout is None:
            raise SystemExit("The process of Opacus has no pipes.")
        requests, answers = process.stdin, process.stdout

        def step(name: str, number: int) -> float:
            chosen = np.take(order, np.arange(number * BATCH, (number + 1) * BATCH), mode="wrap")
            requests.write(json.dumps({"name": name, "lengths": split.lengths[chosen].tolist()}) + "\n")
            requests.flush()
            return float(answers.readline())

        yield {name: partial(step, name) for name in ("pytorch_ms", "opacus_ms", "opacus_padded_ms")}
        requests.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="timed turns of each, after a fifth more for warm-up")
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
