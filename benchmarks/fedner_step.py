"""One training step of FedNER's tagger against Keras, interleaved in one run: ``python -m benchmarks.fedner_step``.

64 sentences of the ADE corpus with real lengths and spellings. Words, contextual vectors, tags and weights are random,
which does not change the time of a step. Compared are our step of LM-NER at the paper's sizes, private and not, and
Keras's layers with the same CRF in one graph, which also gets each distinct spelling once. Both use Adam. TensorFlow
Privacy's Adam with one sentence per microbatch runs out of memory on this graph (24 GB). Opacus is left out: it has
per-sentence gradients of the layers that it supports, but not of a CRF.
"""

import argparse
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras

from benchmarks.report import finish, interleaved, markdown
from engine import corpus, embeddings
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.embeddings import EncodedSplit
from engine.embeddings.char_ids import with_characters
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets
from engine.settings import Settings
from engine.taggers import build
from engine.taggers.char_vocab import NUMBER
from engine.training.batches import Batch, batch_of
from engine.training.compiled.backend import CompiledBackend
from engine.training.dpsgd import DPSGD
from engine.training.optimisers import Optimiser
from engine.training.tensorflow_backend import chain_losses

BATCH, HIDDEN, WORDS, CONTEXT, DROPOUT = 64, 200, 300, 384, 0.2
TRAINING = TrainingConfig(batch_size=BATCH, optimiser="adam", learning_rate=0.001, loss="sum")
IN_A_ROW = 5


def sentences() -> tuple[EncodedSplit, np.ndarray, int]:
    """Return ADE's training set, a row of features for each token, [tokens, 684], and the number of tags.

    Raises CorpusError if the corpus is not installed.
    """
    part = corpus.resolve("ade", Settings.from_environment()).parts[0]
    encoded = with_characters(embeddings.encode(part, "en_core_web_md", "vectors"), part)
    random, split = np.random.default_rng(0), encoded.train
    rows = np.arange(len(split.rows), dtype=np.int32)
    table = random.standard_normal((len(rows), WORDS + CONTEXT)).astype(np.float32)
    return EncodedSplit(rows, split.tags, split.offsets, split.forms, split.spelling), table, len(encoded.tags)


def ours(split: EncodedSplit, table: np.ndarray, tags: int, *, private: bool) -> Callable[[int], None]:
    """Return a complete step of the engine: sampling, gradients, clipping, noise, update, noise check."""
    privacy = PrivacyConfig(noise_multiplier=1.0 if private else 0.0, sampling="shuffle")
    tagger = build(TaggerConfig(name="lm-ner", hidden_size=HIDDEN, dropout=DROPOUT), WORDS + CONTEXT, tags, WORDS)
    plan = PrivacyPlan.from_config(SimulationConfig(privacy=privacy, training=TRAINING), len(split))
    learner = DPSGD(
        CompiledBackend(tagger, mean=False),
        plan,
        Optimiser(TRAINING, tagger.size),
        Secrets.seeded(0, "step"),
        split,
        table,
        tagger.initial_weights(np.random.default_rng(0)),
    )

    def step(number: int) -> None:
        learner.step(number % plan.steps)

    return step


def keras(split: EncodedSplit, table: np.ndarray, tags: int) -> Callable[[int], None]:
    """Return the same step with Keras's layers in one graph, on padded batches of a permutation."""
    model, transitions = _model(tags), tf.Variable(tf.zeros((tags, tags)))
    variables = [*model.trainable_variables, transitions]
    optimiser = tf_keras.optimizers.Adam(0.001)

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def learn(vectors: tf.Tensor, letters: tf.Tensor, spelt: tf.Tensor, gold: tf.Tensor, lengths: tf.Tensor) -> None:
        real = tf.sequence_mask(lengths, tf.shape(gold)[1])
        with tf.GradientTape() as tape:
            scores = model([vectors, letters, spelt, real], training=True)
            losses = chain_losses(scores, tf.repeat(transitions[None], tf.shape(gold)[0], 0), gold, lengths)
            loss = tf.reduce_mean(losses)
        optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    order = np.random.default_rng(0).permutation(len(split))

    def step(number: int) -> None:
        batch = batch_of(split, table, np.take(order, np.arange(number * BATCH, (number + 1) * BATCH), mode="wrap"))
        learn(*_padded(batch))

    return step


def _model(tags: int) -> tf_keras.Model:
    layers = tf_keras.layers
    vectors, spelt = tf_keras.Input((None, WORDS + CONTEXT)), tf_keras.Input((None,), dtype=tf.int32)
    letters, real = tf_keras.Input((None,), dtype=tf.int32), tf_keras.Input((None,), dtype=tf.bool)
    convolution = layers.Conv1D(HIDDEN, 3, padding="same", activation="tanh")
    words = layers.GlobalMaxPooling1D()(convolution(layers.Embedding(NUMBER, HIDDEN // 2)(letters)))
    characters = layers.Lambda(lambda both: tf.gather(*both))([words, spelt])
    hidden = layers.Dropout(DROPOUT)(layers.Concatenate()([vectors, characters]))
    hidden = layers.Conv1D(HIDDEN, 3, padding="same", activation="tanh")(hidden)
    hidden = layers.Bidirectional(layers.LSTM(HIDDEN, return_sequences=True))(hidden, mask=real)
    return tf_keras.Model([vectors, letters, spelt, real], layers.Dense(tags)(layers.Dropout(DROPOUT)(hidden)))


def _padded(batch: Batch) -> tuple[np.ndarray, ...]:
    vectors, spelt, tags = (batch.padded(one) for one in (batch.vectors, batch.spellings.astype(np.int32), batch.tags))
    letters = batch.characters[:, : (batch.characters > 0).sum(1).max()]
    return vectors, letters, spelt, tags, batch.lengths.astype(np.int32)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="timed turns of each, after a fifth more for warm-up")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result for the page Performance")
    options = parser.parse_args()
    data = sentences()
    steps: dict[str, Callable[[int], float | None]] = {
        "keras_ms": keras(*data),
        "ours_ordinary_ms": ours(*data, private=False),
        "ours_private_ms": ours(*data, private=True),
    }
    medians = interleaved(steps, options.rounds, {}, IN_A_ROW)
    titles = {
        "keras_ms": "Keras, not private",
        "ours_ordinary_ms": "ours, not private",
        "ours_private_ms": "ours, private",
    }
    rows = [
        (title, f"{medians[name]:.1f}", f"{medians[name] / medians['keras_ms']:.2f}") for name, title in titles.items()
    ]
    text = f"{BATCH} sentences of ADE, medians of {options.rounds} interleaved turns of {IN_A_ROW} steps\n\n"
    text += markdown(("step of LM-NER", "ms", "÷ Keras"), rows)
    text += f"\nOurs, private ÷ not private: {medians['ours_private_ms'] / medians['ours_ordinary_ms']:.2f}\n"
    finish("fedner_step", medians, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
