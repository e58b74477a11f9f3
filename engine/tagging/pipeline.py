"""Pipeline from texts to the entities that trained taggers find.

Features and back end are those of training (:mod:`engine.embeddings`); taggers with the same features share them. Tags
are the most likely well-formed ones, even if the run was scored without this constraint.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.corpus.sentences import entities
from engine.embeddings import EncodedSplit, find, own_in_context
from engine.embeddings.char_ids import spelt
from engine.embeddings.encoding import tag_sequences, token_positions
from engine.embeddings.features import of_tokens, with_projection
from engine.embeddings.vectors import word_vectors
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

_CHUNK_TOKENS = 10_000
"""Tokens whose features are in memory at a time: 20 MB, and 50 MB for their computation."""


@dataclass(frozen=True)
class Scored:
    """Sentences with their features.

    Attributes:
        split: The sentences.
        table: Features, one row for each token.
    """

    split: EncodedSplit
    table: np.ndarray


class TextTagger:
    """A tagger of texts that keeps slowly loaded parts in memory between calls.

    Args:
        settings: Folders of this machine.
        on_progress: Called with the current activity, in words.
    """

    def __init__(self, settings: Settings, on_progress: Callable[[str], None] = lambda stage: None) -> None:
        self.settings, self._on_progress = settings, on_progress

    def tag(self, texts: Sequence[str], models: Sequence[Model]) -> list[list[Tagged]]:
        """Tag texts with several models.

        Args:
            texts: The texts.
            models: The taggers.

        Returns:
            The output of each model (outer) for each text (inner).

        Raises:
            VectorsMissing: If the features of a model are not installed.
            StoreError: If they differ from those of its training.
        """
        documents = [split(text) for text in texts]
        sentences = [sentence for document in documents for sentence in document.sentences]
        pieces: list[list[list[_Read]]] = []
        for chunk in _chunks(sentences):
            pieces.append(list(self._read(chunk, models)))
        read = [[sentence for piece in pieces for sentence in piece[number]] for number in range(len(models))]
        return [list(_by_document(documents, of_model)) for of_model in read]

    def _read(self, sentences: list[list[str]], models: Sequence[Model]) -> Iterator[list["_Read"]]:
        encoded: dict[tuple[str, ...], Scored] = {}
        for model in models:
            config = model.config
            key = (config.features, config.embeddings, config.language_model)
            if key not in encoded:
                encoded[key] = self.encode(sentences, model)
            yield read_off(model, encoded[key], self.settings.backend)

    def encode(self, sentences: Sequence[Sequence[str]], model: Model) -> Scored:
        """Return sentences with the features of a model, and of every other model with the same ones.

        Raises:
            VectorsMissing: If they are not installed.
            StoreError: If they cannot be read.
        """
        config, features = model.config, model.config.feature_set
        wait_for_parts(config, self.settings, self._on_progress)
        compile_parts(self.settings, self._on_progress)
        package = find(config.embeddings)
        vectors = word_vectors(package.folder)
        words = [word for sentence in sentences for word in sentence]
        row_of = vectors.rows(words)
        rows, table = np.array([row_of[word] for word in words], np.int32), vectors.table
        if not features.word_vectors_only:
            more = [self._in_context(sentences, model, package.folder)] if features.in_context else []
            rows, table = (
                np.arange(len(words), dtype=np.int32),
                of_tokens(features, words, table[rows], *more, language_model=config.language_model),
            )
        offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        tags = np.zeros(len(words), np.int16)
        distinct = {word: number for number, word in enumerate(dict.fromkeys(words))}
        forms = np.array([distinct[word] for word in words], np.int32)
        return Scored(EncodedSplit(rows, tags, offsets, forms, spelt(distinct)), table)

    def _in_context(self, sentences: Sequence[Sequence[str]], model: Model, package: Path) -> np.ndarray:
        def report(share: float) -> None:
            self._on_progress(f"reading the text with the language model: {share:.0%}")

        own = own_in_context(model.config.language_model, self.settings)
        from engine.embeddings.contextual import features

        arguments = with_projection(own, model.config.feature_set, report)
        pair = (own.model, Path(arguments[-1])) if own else None
        return features(model.config.features, package, sentences, report, pair)


@dataclass(frozen=True)
class _Read:
    """Output for one sentence.

    Attributes:
        tags: BIO2 tags.
        confidence: Probability of each tag.
        spans: Entities as (type, first token, token after the last).
        scores: Probability of each entity.
    """

    tags: list[str]
    confidence: list[float]
    spans: list[tuple[str, int, int]]
    scores: list[float]


def read_off(model: Model, scored: Scored, backend: str) -> list[_Read]:
    """Decode sentences whose features are computed.

    Args:
        model: The tagger.
        scored: The sentences.
        backend: As in :class:`engine.settings.Settings`.

    Raises:
        StoreError: If the features differ from those of the training.
    """
    if scored.table.shape[1] != model.dimensions:
        raise StoreError(
            f"The tagger of run {model.run_id} reads {model.dimensions:,} features of a token, but the installed "
            f"ones have {scored.table.shape[1]:,}."
        )
    computed = backend_of(model.tagger, model.config.training.loss, backend)
    scores = np.zeros((len(scored.split.rows), len(model.tags)), np.float32)
    for batch in prediction_batches(scored.split, scored.table):
        scores[token_positions(scored.split, batch.sentences)] = computed.scores(model.weights, batch)
    transitions = model.tagger.views(model.weights)[-1].get("transitions")
    lengths = scored.split.lengths
    best = Decoder(model.tags, well_formed=True).best(scores, lengths, transitions)
    tags = tag_sequences(scored.split, best, model.names)
    spans = [list(entities(sequence)) for sequence in tags]
    first = scored.split.offsets[:-1]
    all_spans = np.array([(at + s, at + e - 1) for at, found in zip(first, spans, strict=True) for _, s, e in found])
    token_scores, entity_scores = confidences(
        chain(model.tags, transitions), scores, lengths, best, all_spans.reshape(-1, 2)
    )
    by_token, by_name = iter(token_scores.tolist()), iter(entity_scores.tolist())
    return [
        _Read(sequence, [next(by_token) for _ in sequence], names, [next(by_name) for _ in names])
        for sequence, names in zip(tags, spans, strict=True)
    ]


def _chunks(sentences: list[list[str]]) -> Iterator[list[list[str]]]:
    """Yield the sentences in chunks of at most ``_CHUNK_TOKENS`` tokens."""
    piece: list[list[str]] = []
    size = 0
    for sentence in sentences:
        if piece and size + len(sentence) > _CHUNK_TOKENS:
            yield piece
            piece, size = [], 0
        piece.append(sentence)
        size += len(sentence)
    if piece:
        yield piece


def _by_document(documents: Sequence[Tokens], read: Sequence[_Read]) -> Iterator[Tagged]:
    remaining = iter(read)
    for document in documents:
        sentences = [next(remaining) for _ in document.sentences]
        token_spans = document.spans
        yield Tagged(
            spans=document.spans,
            tags=tuple(tag for sentence in sentences for tag in sentence.tags),
            confidence=tuple(share for sentence in sentences for share in sentence.confidence),
            entities=tuple(
                Entity(token_spans[first + start][0], token_spans[first + end - 1][1], kind, score)
                for first, sentence in zip(document.offsets, sentences, strict=False)
                for (kind, start, end), score in zip(sentence.spans, sentence.scores, strict=True)
            ),
        )
