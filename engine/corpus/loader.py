"""The files of a corpus read as one Corpus with training, validation and test set."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from engine.corpus import brat, conll, rel
from engine.corpus.declared_types import LEFT_OUT, MAX_TYPES, mentions
from engine.corpus.files import COLUMNS, REL, Located, Source, checksum, content
from engine.corpus.sentences import Corpus, Sentence
from engine.errors import CorpusError
from engine.seeds import Seeds

SMALLEST = 10
"""Fewest sentences that can be split into three parts."""


def read(located: Located) -> Corpus:
    """Return the corpus with its three parts; the last two corpora are cached.

    Raises:
        CorpusError: If a file is malformed; names the file and the line.
    """
    return _read(located, checksum(located))


@lru_cache(maxsize=2)
def _read(located: Located, content_checksum: str) -> Corpus:
    parts: dict[str, list[Sentence]] = {"whole": [], "train": [], "validation": [], "test": []}
    sections: list[str] = []
    left_out: Counter[str] = Counter()
    for sources in _grouped(located.files):
        first = sources[0]
        sentences, without = _sentences(sources, by_line=located.declared is not None)
        left_out += without
        whole = first.part == "whole" and located.split is None
        split = split_in_three(sentences, first.title) if whole else {first.part: list(sentences)}
        for part, found in split.items():
            parts[part] += found
        sections += [first.section or ""] * len(split.get("train", ()))
    if located.split is not None:
        all_sentences, sections = [sentence for part in parts.values() for sentence in part], []
        parts = split_by_seed(all_sentences, located.split, located.name)
    elif not parts["validation"]:
        parts["train"], parts["validation"] = hold_out(parts["train"], located.files[0].title)
    entry, declared = located.entry, located.declared
    if declared:
        _, others = declared.restricted([sentence for part in parts.values() for sentence in part], located.name)
        if others:
            left_out[LEFT_OUT] += others
            parts = {part: declared.restricted(found, located.name)[0] for part, found in parts.items()}
    types = set().union(*map(mentions, parts.values()))
    if len(types) > MAX_TYPES:
        raise CorpusError(f"{located.name} has {len(types):,} entity types, expected at most {MAX_TYPES}")
    if not types:
        raise CorpusError(f"{located.name} has only the tag O, expected tagged entities")
    if entry or declared:
        types = set(entry.entity_types if entry else declared.types if declared else ())
    return Corpus(
        name=located.name,
        title=entry.title if entry else located.name,
        licence=entry.licence if entry else "your own",
        synthetic=False,
        train=tuple(parts["train"]),
        validation=tuple(parts["validation"]),
        test=tuple(parts["test"]),
        entity_types=tuple(sorted(types)),
        checksum=content_checksum,
        declared=located.types_are_declared,
        sections=tuple(sections) if any(sections) else None,
        left_out=dict(left_out),
    )


def _grouped(sources: Sequence[Source]) -> list[list[Source]]:
    """Group files that are read together: those of one part that are not column files."""
    groups: dict[tuple[str, str], list[Source]] = {}
    for source in sources:
        groups.setdefault((source.part, source.title if source.form == COLUMNS else ""), []).append(source)
    return list(groups.values())


def _sentences(sources: Sequence[Source], *, by_line: bool) -> tuple[Sequence[Sentence], Counter[str]]:
    first = sources[0]
    if first.form == COLUMNS:
        return conll.read(content(first.path), first.title, by_line=by_line), Counter()
    files = {source.title: content(source.path) for source in sources}
    return rel.read(files, by_line=by_line) if first.form == REL else brat.read(files)


def split_in_three(sentences: Sequence[Sentence], name: str) -> dict[str, list[Sentence]]:
    """Split sentences into 80 % training, 10 % validation and 10 % test set.

    The split is drawn with a fixed seed. Each part keeps the order of the file.

    Args:
        sentences: At least ``SMALLEST`` sentences.
        name: Name of the corpus in error messages.

    Raises:
        CorpusError: If there are too few sentences.
    """
    _require_enough(len(sentences), name)
    order = Seeds(0).stream("corpus split").permutation(len(sentences))
    tenth = max(1, round(0.1 * len(sentences)))
    cuts = {"test": order[:tenth], "validation": order[tenth : 2 * tenth], "train": order[2 * tenth :]}
    return {part: [sentences[i] for i in sorted(cuts[part])] for part in ("train", "validation", "test")}


def split_by_seed(sentences: Sequence[Sentence], number: int, name: str) -> dict[str, list[Sentence]]:
    """Split all sentences of a corpus as FedNER does (section 4.1), with a seed.

    80 % are for training, the rest is the test set, of which a quarter is for validation. Sentences with the same words
    go to the same part, so that no training sentence is tested. Each part keeps the order of the files.

    Args:
        sentences: At least ``SMALLEST`` sentences.
        number: Number of the split, used as the seed.
        name: Name of the corpus in error messages.

    Raises:
        CorpusError: If there are too few different sentences.
    """
    _require_enough(len(sentences), name)
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, sentence in enumerate(sentences):
        groups.setdefault(sentence.tokens, []).append(index)
    grouped_indices, total = list(groups.values()), len(sentences)
    sizes = {"test": max(1, round(0.15 * total)), "validation": max(1, round(0.05 * total))}
    parts: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for group in Seeds(number).stream("corpus split").permutation(len(grouped_indices)):
        part = next((part for part, size in sizes.items() if len(parts[part]) < size), "train")
        parts[part] += grouped_indices[group]
    if not parts["train"]:
        raise CorpusError(f"{name} has too few different sentences to split")
    return {part: [sentences[index] for index in sorted(indices)] for part, indices in parts.items()}


def hold_out(train: list[Sentence], name: str) -> tuple[list[Sentence], list[Sentence]]:
    """Return the training sentences without a tenth of them, and that tenth.

    The tenth is drawn with a fixed seed.

    Raises:
        CorpusError: If there are too few sentences.
    """
    _require_enough(len(train), name)
    held = set(Seeds(0).stream("corpus split").permutation(len(train))[: max(1, round(0.1 * len(train)))].tolist())
    return [s for i, s in enumerate(train) if i not in held], [s for i, s in enumerate(train) if i in held]


def _require_enough(sentences: int, name: str) -> None:
    if sentences < SMALLEST:
        raise CorpusError(f"{name} has {sentences} sentences, expected at least {SMALLEST} to split")
