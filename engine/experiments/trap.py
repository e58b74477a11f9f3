"""An attack on partial noise: only the shared layers are clipped and noised, the private head is trained without noise.

FedNER's clients send the gradient of the shared layers only (section 3.2). It seems sufficient to clip each sentence's
part of *that* gradient to C and to add noise to it. But the private head is trained on the same sentences without
noise, and the gradients of all other sentences depend on it. One sentence therefore changes the sum by more than C,
and this noise gives no ε. Here one sentence is removed, and an attacker who knows everything else guesses whether it
was used. No other part of the engine trains in this way, and none of these numbers is shown as an ε.

*Honest* training is that of the engine: noise on the gradient of all weights, including the private head.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine import corpus, embeddings
from engine.config import SYNTHETIC, TaggerConfig
from engine.embeddings import EncodedSplit
from engine.privacy.accounting import gaussian_epsilon
from engine.settings import Settings
from engine.taggers import Tagger, build
from engine.training.batches import batch_of
from engine.training.compiled.backend import CompiledBackend

SENTENCES, STEPS, HIDDEN, CLIP_NORM = 40, 30, 16, 1.0
OWN_RATE, SHARED_RATE = 1.0, 0.05
EPSILON, DELTA = 1.0, 1e-5


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One attacked training.

    Attributes:
        moved: change of each released sum by the sentence, ÷ C, [steps].
        there: whether the sentence was in the training data.
        guessed: the attacker's guess.
    """

    moved: tuple[float, ...]
    there: bool
    guessed: bool


def noise_multiplier() -> float:
    """Return the σ at which ``STEPS`` releases of a sum with sensitivity C have ε = 1; each batch has all sentences."""
    low, high = 0.1, 1000.0
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        enough = gaussian_epsilon(math.sqrt(STEPS) / middle, DELTA) <= EPSILON
        low, high = (low, middle) if enough else (middle, high)
    return high


def most_right() -> float:
    """Return the largest success rate of an attacker if each sum has sensitivity C.

    The rate is Φ(μ/2) with μ = √steps ÷ σ (Dong, Roth and Su 2022).
    """
    return 0.5 * (1 + math.erf(math.sqrt(STEPS) / noise_multiplier() / 2 / math.sqrt(2)))


def trials(settings: Settings, number: int, *, honest: bool, first: int = 0) -> Iterator[Trial]:
    """Yield attacked trainings on sentences of the built-in corpus; every second training uses the sentence.

    Args:
        settings: where corpora and vectors are.
        number: number of trainings.
        honest: whether the noise covers all weights.
        first: seed of the first training.

    Raises:
        VectorsMissing: if word vectors are not installed.
        StoreError: if stored data cannot be read.
    """
    encoded = embeddings.encode(corpus.resolve(SYNTHETIC, settings).parts[0], "en_core_web_md", "vectors")
    dimensions, tags = encoded.vectors.shape[1], len(encoded.tags)
    tagger = build(TaggerConfig(name="mlp-crf", hidden_size=HIDDEN), dimensions, tags, dimensions).sharing()
    for seed in range(first, first + number):
        yield _trial(tagger, encoded.train, encoded.vectors, np.random.default_rng(seed), seed % 2 == 0, honest)


def _trial(
    tagger: Tagger, split: EncodedSplit, table: np.ndarray, random: np.random.Generator, there: bool, honest: bool
) -> Trial:
    backend, shared, sigma = CompiledBackend(tagger, mean=False), tagger.shared.stop, noise_multiplier()
    every = random.choice(len(split), SENTENCES, replace=False)
    weights = tagger.initial_weights(random).astype(np.float64)
    # The private head with and without the sentence (the last one): the attacker computes both.
    common, kept = weights[:shared], {True: weights[shared:], False: weights[shared:]}
    moved, evidence = [], 0.0
    for _ in range(STEPS):
        sums = {}
        for case in (True, False):
            alone = _gradients(
                backend, np.concatenate([common, kept[case]]), split, table, every[: None if case else -1]
            )
            clipped = _clipped(alone if honest else alone[:, :shared])
            sums[case] = clipped.sum(0)
            if not honest:
                kept[case] = kept[case] - OWN_RATE * alone[:, shared:].mean(0)
        released = sums[there] + sigma * CLIP_NORM * random.standard_normal(sums[there].size)
        apart = sums[True] - sums[False]
        moved.append(float(np.linalg.norm(apart)) / CLIP_NORM)
        # Log likelihood ratio of the two cases, given all earlier releases.
        evidence += float((released - (sums[True] + sums[False]) / 2) @ apart)
        common = common - SHARED_RATE * released[:shared] / SENTENCES
        if honest:
            own = kept[True] - OWN_RATE * released[shared:] / SENTENCES
            kept = {True: own, False: own}
    return Trial(moved=tuple(moved), there=there, guessed=evidence > 0)


def _gradients(
    backend: CompiledBackend, weights: np.ndarray, split: EncodedSplit, table: np.ndarray, sentences: np.ndarray
) -> np.ndarray:
    """Return the gradient of each sentence, [sentences, weights]."""
    single = weights.astype(np.float32)
    each = (batch_of(split, table, sentences[n : n + 1]) for n in range(len(sentences)))
    return np.array([backend.clipped_gradient(single, batch, None).total for batch in each], dtype=np.float64)


def _clipped(gradients: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    found: np.ndarray = gradients * np.minimum(1, CLIP_NORM / np.maximum(norms, 1e-300))
    return found
