"""Sentences in word pieces, as encoders of language models read them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from engine.embeddings.custom_model import BORDERS, MOST_PIECES, OwnModel, lower_cased
from engine.embeddings.minilm import folder
from engine.errors import VectorsMissing


@dataclass(frozen=True)
class Pieces:
    """Part of a sentence in word pieces.

    Attributes:
        ids: Piece ids, between those of the beginning and the end (such as [CLS] and [SEP]), int32.
        words: Index of each piece's token among all tokens, int32; −1 for the beginning and the end.
    """

    ids: np.ndarray
    words: np.ndarray


def word_pieces(sentences: Sequence[Sequence[str]], own: OwnModel | None = None) -> list[Pieces]:
    """Split sentences into word pieces, in order; a sentence longer than the model's limit is split.

    Args:
        sentences: Words of each sentence.
        own: Custom model instead of MiniLM.

    Raises:
        VectorsMissing: If the tokenizer is not available.
    """
    most = own.places if own else MOST_PIECES
    tokenizer = _tokenizer(own)
    begin, end = _borders(tokenizer, own.shape.kind if own else "bert")
    found, first = [], 0
    for sentence, encoding in zip(
        sentences, tokenizer.encode_batch(list(sentences), is_pretokenized=True, add_special_tokens=False), strict=True
    ):
        ids = np.array(encoding.ids, np.int32)
        words = np.array(encoding.word_ids, np.int32) + first
        for start, stop in pairwise([*range(0, max(1, len(ids)), most), len(ids)]):
            found.append(
                Pieces(
                    np.concatenate([[begin], ids[start:stop], [end]]).astype(np.int32),
                    np.concatenate([[-1], words[start:stop], [-1]]).astype(np.int32),
                )
            )
        first += len(sentence)
    return found


def _borders(tokenizer: Any, kind: str) -> tuple[int, ...]:
    """Return the ids of the first pair of ``BORDERS`` that a tokenizer has; nothing without one."""
    for borders in BORDERS[kind]:
        begin, end = map(tokenizer.token_to_id, borders)
        if begin is not None and end is not None:
            return begin, end
    return ()


@lru_cache(maxsize=1)
def _tokenizer(own: OwnModel | None) -> Any:
    """Return the tokenizer of MiniLM or another model, with neither padding nor truncation.

    Raises:
        VectorsMissing: If it cannot be read or does not belong to the model.
    """
    if own is None:
        found = _in_folder(folder(), "bert")
    else:
        kind = own.shape.kind
        try:
            found = _in_folder(own.folder, kind)
        except Exception as error:  # the library does not document its exceptions
            raise VectorsMissing(f"The tokenizer of language_model={own.label!r} cannot be read: {error}") from error
        if found.get_vocab_size() > own.vocabulary or not _borders(found, kind):
            raise VectorsMissing(
                f"The tokenizer of language_model={own.label!r} has {found.get_vocab_size():,} pieces, expected at "
                f"most {own.vocabulary:,}, {' or '.join(map(' and '.join, BORDERS[kind]))} among them"
            )
    found.no_padding()
    found.no_truncation()
    return found


def _in_folder(place: Path, kind: str) -> Any:
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    if (place / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(place / "tokenizer.json"))
    begin, end = BORDERS[kind][0]
    lowercase = bool(lower_cased(place))
    return BertWordPieceTokenizer(str(place / "vocab.txt"), lowercase=lowercase, cls_token=begin, sep_token=end)


def batches(pieces: Sequence[Pieces], most: int) -> Iterator[list[Pieces]]:
    """Yield the sentences by length in batches of at most ``most`` pieces, or of one sentence."""
    batch: list[Pieces] = []
    held = 0
    for each in sorted(pieces, key=lambda each: len(each.ids)):
        if batch and held + len(each.ids) > most:
            yield batch
            batch, held = [], 0
        batch.append(each)
        held += len(each.ids)
    if batch:
        yield batch
