"""Texts → the entities that trained taggers find in them.

Features are those of training (:mod:`engine.embeddings`), and so is what computes scores; several taggers with the same
features share them. Tags are the likeliest well-formed ones, whether or not the run scored others.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.corpus.sentences import entities
from engine.embeddings import EncodedSplit, find, own_in_context
from engine.embeddings.char_ids import spelt
from engine.embeddings.encoding import tag_sequences, token_positions
from engine.embeddings.features import IN_CONTEXT, of_tokens, with_projection
from engine.embeddings.vectors import WordVectors
from engine.errors import StoreError
from engine.settings import Settings
from engine.simulation.setup import compile_parts, wait_for_parts
from engine.taggers.decoding import Decoder
from engine.tagging.crf_marginals import chain, confidences
from engine.tagging.entities import Entity, Tagged
from engine.tagging.tokenization import Tokens, split
from engine.training.backends import backend_of
from engine.training.batches import prediction_batches
from engine.training.model import Model

_TOGETHER = 30_000
"""Tokens whose features are in memory at a time: 60 MB."""


@dataclass(frozen=True)
class Scored:
    """Sentences as a tagger reads them. split: sentences; table: features, each token's row."""

    split: EncodedSplit
    table: np.ndarray


class TextTagger:
    """Tags texts, one call after another; what takes seconds to load stays in memory. tell: is told what is going on,
    in words."""

    def __init__(self, settings: Settings, tell: Callable[[str], None] = lambda stage: None) -> None:
        self.settings, self._tell = settings, tell
        self._vectors: dict[str, WordVectors] = {}

    def tag(self, texts: Sequence[str], models: Sequence[Model]) -> list[list[Tagged]]:
        """What each model (outer) says of each text (inner). Raises VectorsMissing if what its features need is not
        here, StoreError if they are not what it was trained with."""
        documents = [split(text) for text in texts]
        sentences = [sentence for document in documents for sentence in document.sentences]
        pieces: list[list[list[_Read]]] = []
        for some in _together(sentences):
            pieces.append(list(self._read(some, models)))
        read = [[each for piece in pieces for each in piece[number]] for number in range(len(models))]
        return [list(_by_document(documents, each)) for each in read]

    def _read(self, sentences: list[list[str]], models: Sequence[Model]) -> Iterator[list["_Read"]]:
        known: dict[tuple[str, ...], Scored] = {}
        for model in models:
            config = model.config
            key = (config.features, config.embeddings, config.language_model)
            if key not in known:
                known[key] = self.encode(sentences, model)
            yield read_off(model, known[key], self.settings.backend)

    def encode(self, sentences: Sequence[Sequence[str]], model: Model) -> Scored:
        """Sentences as a model reads them, and every other model with the same features. Raises VectorsMissing,
        StoreError."""
        config = model.config
        wait_for_parts(config, self.settings, self._tell)
        compile_parts(self.settings, self._tell)
        package = find(config.embeddings)
        if package.label not in self._vectors:
            self._vectors[package.label] = WordVectors(package)
        vectors = self._vectors[package.label]
        words = [word for sentence in sentences for word in sentence]
        row_of = vectors.rows(words)
        rows, table = np.array([row_of[word] for word in words], np.int32), vectors.table
        if config.features != "vectors":
            more = [self._in_context(sentences, model, package.folder)] if config.features in IN_CONTEXT else []
            rows, table = np.arange(len(words), dtype=np.int32), of_tokens(words, table[rows], *more)
        offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        tags = np.zeros(len(words), np.int16)
        distinct = {word: number for number, word in enumerate(dict.fromkeys(words))}
        forms = np.array([distinct[word] for word in words], np.int32)
        return Scored(EncodedSplit(rows, tags, offsets, forms, spelt(distinct)), table)

    def _in_context(self, sentences: Sequence[Sequence[str]], model: Model, package: Path) -> np.ndarray:
        def tell(share: float) -> None:
            self._tell(f"reading the text with the language model: {share:.0%}")

        own = own_in_context(model.config.language_model, self.settings)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        from engine.embeddings.contextual import features

        found = with_projection(own, tell)
        pair = (own.model, Path(found[-1])) if own else None
        return features(model.config.features, package, sentences, tell, pair)


@dataclass(frozen=True)
class _Read:
    """One sentence: BIO2 tags and their confidence, entities as (type, first token, token after), their scores."""

    tags: list[str]
    confidence: list[float]
    spans: list[tuple[str, int, int]]
    scores: list[float]


def read_off(model: Model, scored: Scored, backend: str) -> list[_Read]:
    """What a model says of sentences whose features are there. Raises StoreError if they are not those that it was
    trained with."""
    if scored.table.shape[1] != model.dimensions:
        raise StoreError(
            f"The tagger of run {model.run_id} reads {model.dimensions:,} features of a token; here are "
            f"{scored.table.shape[1]:,}."
        )
    computed = backend_of(model.tagger, model.config.training.loss, backend)
    scores = np.zeros((len(scored.split.rows), len(model.tags)), np.float32)
    for batch in prediction_batches(scored.split, scored.table):
        scores[token_positions(scored.split, batch.sentences)] = computed.scores(model.weights, batch)
    transitions = model.tagger.views(model.weights)[-1].get("transitions")
    lengths = scored.split.lengths
    best = Decoder(model.tags, well_formed=True).best(scores, lengths, transitions)
    tags = tag_sequences(scored.split, best, model.names)
    spans = [list(entities(each)) for each in tags]
    first = scored.split.offsets[:-1]
    every = np.array([(at + s, at + e - 1) for at, each in zip(first, spans, strict=True) for _, s, e in each])
    sure, probable = confidences(chain(model.tags, transitions), scores, lengths, best, every.reshape(-1, 2))
    by_token, by_name = iter(sure.tolist()), iter(probable.tolist())
    return [
        _Read(each, [next(by_token) for _ in each], names, [next(by_name) for _ in names])
        for each, names in zip(tags, spans, strict=True)
    ]


def _together(sentences: list[list[str]]) -> Iterator[list[list[str]]]:
    """The sentences in stretches of so many tokens."""
    piece: list[list[str]] = []
    size = 0
    for sentence in sentences:
        if piece and size + len(sentence) > _TOGETHER:
            yield piece
            piece, size = [], 0
        piece.append(sentence)
        size += len(sentence)
    if piece:
        yield piece


def _by_document(documents: Sequence[Tokens], read: Sequence[_Read]) -> Iterator[Tagged]:
    every = iter(read)
    for document in documents:
        own = [next(every) for _ in document.sentences]
        places = document.spans
        yield Tagged(
            spans=document.spans,
            tags=tuple(tag for each in own for tag in each.tags),
            confidence=tuple(share for each in own for share in each.confidence),
            entities=tuple(
                Entity(places[first + start][0], places[first + end - 1][1], kind, score)
                for first, each in zip(document.offsets, own, strict=False)
                for (kind, start, end), score in zip(each.spans, each.scores, strict=True)
            ),
        )
