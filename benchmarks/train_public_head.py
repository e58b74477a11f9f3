"""Train the public heads on Wikigold, and score them on CoNLL-2003: ``python -m benchmarks.train_public_head``.

A head is a linear CRF, from which the private training of a tagger can start (``--pretrained``). It is trained without
noise on all sentences of Wikigold by the engine's own steps, with the weights of Adam's last steps averaged. No other
sentence is read before the scores: a head costs no privacy of a corpus that does not overlap with Wikigold. The scores
on CoNLL-2003 are those of a tagger without private training. ``--scores`` computes them alone, for the stored heads.
Where a checksum differs from the one in ``engine/config/head_registry.py``, copy the printed one there. Features take
minutes on first use, training takes seconds.
"""

import argparse
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine import embeddings
from engine.config import SimulationConfig
from engine.config.head_registry import HEADS, PublicHead
from engine.corpus import CorpusHandle
from engine.embeddings import EncodedCorpus, EncodedSplit
from engine.embeddings.encoding import tag_sequences
from engine.embeddings.features import PUBLIC
from engine.privacy.plan import PrivacyPlan
from engine.records import EntityScores
from engine.scoring import score
from engine.seeds import Seeds
from engine.settings import Settings
from engine.simulation import pretrained_head
from engine.taggers import build
from engine.taggers.decoding import Decoder
from engine.training.averaging import Average
from engine.training.backends import backend_of
from engine.training.dpsgd import DPSGD, predict
from engine.training.optimisers import Optimiser

WEIGHT_DECAY = 1e-4
"""Share of a weight that a step subtracts from it, times the learning rate (Loshchilov and Hutter 2019)."""


def settings_of(head: PublicHead) -> SimulationConfig:
    """Return the settings of the training of a head."""
    return SimulationConfig.from_flat(
        {
            "corpus": "wikigold",
            "tagger": "linear-crf",
            "features": head.features,
            "language_model": head.language_model,
            "window": head.window,
            "well_formed": True,
            "optimiser": "adam",
            "learning_rate": 0.03,
            "batch_size": 64,
            "epochs": 12.0,
            "averaging": 0.9,
            "loss": "sum",
            "sampling": "shuffle",
            "noise_multiplier": 0.0,
        }
    )


def encode(name: str, head: PublicHead, settings: Settings) -> EncodedCorpus:
    """Return a corpus with the features of a head."""
    config = settings_of(head)
    own = embeddings.own_in_context(head.language_model, settings)
    return embeddings.encode(CorpusHandle(name, settings), config.embeddings, head.features, own=own)


def whole(encoded: EncodedCorpus) -> EncodedSplit:
    """Return all sentences of a corpus as one part."""
    parts = (encoded.train, encoded.validation, encoded.test)
    return EncodedSplit(
        rows=np.concatenate([part.rows for part in parts]),
        tags=np.concatenate([part.tags for part in parts]),
        offsets=np.concatenate([[0], np.cumsum(np.concatenate([part.lengths for part in parts]))]),
    )


def train(config: SimulationConfig, encoded: EncodedCorpus) -> dict[str, np.ndarray]:
    """Return the arrays of a head that is trained on all sentences of a corpus.

    The learning rate falls linearly to 0.

    Args:
        config: The settings of the training.
        encoded: The corpus.
    """
    split = whole(encoded)
    tagger = build(config.tagger, encoded.vectors.shape[1], len(encoded.tags), encoded.copied)
    backend, plan = backend_of(tagger, config.training.loss, "compiled"), PrivacyPlan.from_config(config, len(split))
    weights, optimiser = np.zeros(tagger.size, dtype=np.float32), Optimiser(config.training, tagger.size)
    average = Average(config.training.averaging, weights)
    sgd = DPSGD(backend, plan, optimiser, Seeds(config.seed), split, encoded.vectors, weights)
    for step in range(plan.steps):
        rate = config.training.learning_rate * (1 - step / plan.steps)
        optimiser.config = replace(config.training, learning_rate=rate)
        weights *= np.float32(1 - rate * WEIGHT_DECAY)
        sgd.step(step)
        average.follow()
    scores, chain = tagger.views(average.weights)[-2:]
    return {**scores, **chain, "tags": np.array(encoded.tags)}


def scores_of(head: PublicHead, encoded: EncodedCorpus, part: str) -> EntityScores:
    """Return the scores of a stored head on a part of a corpus, without any training."""
    config, split = settings_of(head), getattr(encoded, part)
    tagger = build(config.tagger, encoded.vectors.shape[1], len(encoded.tags), encoded.copied)
    weights = pretrained_head.initial_weights(tagger, encoded.tags, head)
    backend, decoder = backend_of(tagger, config.training.loss, "compiled"), Decoder(encoded.tags, well_formed=True)
    transitions = tagger.views(weights)[-1]["transitions"]
    predicted = predict(backend, decoder, weights, transitions, split, encoded.vectors, lambda: None)
    return score(*(tag_sequences(split, tags, encoded.tags) for tags in (split.tags, predicted)))


def write(head: PublicHead, settings: Settings, folder: Path = PUBLIC) -> PublicHead:
    """Train a head, write its file, and return it with the checksum of the file."""
    path = folder / head.file
    np.savez_compressed(path, allow_pickle=False, **train(settings_of(head), encode("wikigold", head, settings)))
    return replace(head, checksum=hashlib.sha256(path.read_bytes()).hexdigest())


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and score all heads, or score the stored ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scores", action="store_true", help="score the stored heads; train nothing")
    options, settings = parser.parse_args(arguments), Settings.from_environment()
    for registered in HEADS:
        head = registered if options.scores else write(registered, settings)
        size = (PUBLIC / head.file).stat().st_size
        sys.stdout.write(f"{head.file}: {size:,} bytes, SHA-256 {head.checksum}\n")
        conll = encode("conll2003", head, settings)
        for part in ("validation", "test"):
            sys.stdout.write(f"  CoNLL-2003, {part}: F1 {scores_of(head, conll, part).f1:.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
