"""A mistake that looks like privacy: only what a platform sends is clipped and noised, what it keeps learns freely.

FedNER's platforms send the gradient of the shared parts alone (section 3.2), so it seems enough to clip each sentence's
share of *that* to C and to add noise to it. But the kept parts learn from the same sentences without noise, and all
other sentences' gradients go through them: one sentence moves the sum by more than C, as far as the kept parts have
moved. No ε follows from such noise. Here the one sentence is really left out, and an attacker who knows all but whether
it was there has to tell. Nothing else in the engine trains like this, and no number of it is shown as an ε.

*Honest* is what the engine does: noise on the gradient of all weights, of which the kept part is learned from too.
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
    """One training that was watched. moved: how far the sentence moved what was sent, ÷ C, [steps]. there: whether it
    was among the sentences; guessed: what the attacker said."""

    moved: tuple[float, ...]
    there: bool
    guessed: bool


def noise_multiplier() -> float:
    """The σ at which ``STEPS`` releases of a sum that one sentence moves by C at most have ε = 1: all sentences are in
    each batch."""
    low, high = 0.1, 1000.0
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        enough = gaussian_epsilon(math.sqrt(STEPS) / middle, DELTA) <= EPSILON
        low, high = (low, middle) if enough else (middle, high)
    return high


def most_right() -> float:
    """How often an attacker is right at most where one sentence moves each sum by C at most: Φ(μ/2), μ = √steps ÷ σ
    (Dong, Roth and Su 2022)."""
    return 0.5 * (1 + math.erf(math.sqrt(STEPS) / noise_multiplier() / 2 / math.sqrt(2)))


def trials(settings: Settings, number: int, *, honest: bool, first: int = 0) -> Iterator[Trial]:
    """So many trainings on sentences of the embedded corpus, the sentence there in every second. Raises
    VectorsMissing, StoreError."""
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
    # What the kept parts are if the sentence (the last) is there, and if it is not: the attacker works out both.
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
        # Log likelihood ratio of the two cases, given all that was released before.
        evidence += float((released - (sums[True] + sums[False]) / 2) @ apart)
        common = common - SHARED_RATE * released[:shared] / SENTENCES
        if honest:
            own = kept[True] - OWN_RATE * released[shared:] / SENTENCES
            kept = {True: own, False: own}
    return Trial(moved=tuple(moved), there=there, guessed=evidence > 0)


def _gradients(
    backend: CompiledBackend, weights: np.ndarray, split: EncodedSplit, table: np.ndarray, sentences: np.ndarray
) -> np.ndarray:
    """Of each sentence, [sentences, weights]."""
    single = weights.astype(np.float32)
    each = (batch_of(split, table, sentences[n : n + 1]) for n in range(len(sentences)))
    return np.array([backend.clipped_gradient(single, batch, None).total for batch in each], dtype=np.float64)


def _clipped(gradients: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    found: np.ndarray = gradients * np.minimum(1, CLIP_NORM / np.maximum(norms, 1e-300))
    return found
