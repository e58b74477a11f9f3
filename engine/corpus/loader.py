"""The files of a corpus → one Corpus in three parts."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from engine.corpus import brat, conll, rel
from engine.corpus.files import COLUMNS, REL, Located, Source, checksum, content
from engine.corpus.sentences import Corpus, Sentence
from engine.errors import CorpusError
from engine.seeds import Seeds

SMALLEST = 10
"""Fewest sentences that can be split in three."""


def read(located: Located) -> Corpus:
    """The corpus with its three parts; the last ones read are kept. Raises CorpusError with the file and the line."""
    return _read(located, checksum(located))


@lru_cache(maxsize=2)
def _read(located: Located, content_checksum: str) -> Corpus:
    parts: dict[str, list[Sentence]] = {"whole": [], "train": [], "validation": [], "test": []}
    sections: list[str] = []
    left_out: Counter[str] = Counter()
    for some in _together(located.files):
        first = some[0]
        sentences, without = _sentences(some)
        left_out += without
        whole = first.part == "whole" and located.split is None
        split = split_in_three(sentences, first.title) if whole else {first.part: list(sentences)}
        for part, found in split.items():
            parts[part] += found
        sections += [first.section or ""] * len(split.get("train", ()))
    if located.split is not None:
        every, sections = [sentence for part in parts.values() for sentence in part], []
        parts = split_anew(every, located.split, located.name)
    elif not parts["validation"]:
        parts["train"], parts["validation"] = hold_out(parts["train"], located.files[0].title)
    entry = located.entry
    types = {tag[2:] for some in parts.values() for sentence in some for tag in sentence.tags if tag != "O"}
    if len(types) > conll.MAX_TYPES:
        raise CorpusError(f"{located.name} has {len(types):,} entity types, expected at most {conll.MAX_TYPES}")
    if not types:
        raise CorpusError(f"{located.name} has only the tag O, expected tagged entities")
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
        sections=tuple(sections) if any(sections) else None,
        left_out=dict(left_out),
    )


def _together(sources: Sequence[Source]) -> list[list[Source]]:
    """Files that are read by each other's side: those of one part that are no column files."""
    groups: dict[tuple[str, str], list[Source]] = {}
    for source in sources:
        groups.setdefault((source.part, source.title if source.form == COLUMNS else ""), []).append(source)
    return list(groups.values())


def _sentences(sources: Sequence[Source]) -> tuple[Sequence[Sentence], Counter[str]]:
    first = sources[0]
    if first.form == COLUMNS:
        return conll.read(content(first.path), first.title), Counter()
    files = {source.title: content(source.path) for source in sources}
    return rel.read(files) if first.form == REL else brat.read(files)


def split_in_three(sentences: Sequence[Sentence], name: str) -> dict[str, list[Sentence]]:
    """80 % train, 10 % validation, 10 % test, drawn with a fixed seed; each part keeps the order of the file."""
    _enough(len(sentences), name)
    order = Seeds(0).stream("corpus split").permutation(len(sentences))
    tenth = max(1, round(0.1 * len(sentences)))
    cuts = {"test": order[:tenth], "validation": order[tenth : 2 * tenth], "train": order[2 * tenth :]}
    return {part: [sentences[i] for i in sorted(cuts[part])] for part in ("train", "validation", "test")}


def split_anew(sentences: Sequence[Sentence], number: int, name: str) -> dict[str, list[Sentence]]:
    """80 % train and the rest to test, as in FedNER (section 4.1), of which a quarter is for validation; drawn with the
    split's number as seed. Sentences with the same words come to the same part, so that none is tested that was trained
    on. Each part keeps the order of the files."""
    _enough(len(sentences), name)
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, sentence in enumerate(sentences):
        groups.setdefault(sentence.tokens, []).append(place)
    every, most = list(groups.values()), len(sentences)
    wanted = {"test": max(1, round(0.15 * most)), "validation": max(1, round(0.05 * most))}
    parts: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for group in Seeds(number).stream("corpus split").permutation(len(every)):
        part = next((part for part, least in wanted.items() if len(parts[part]) < least), "train")
        parts[part] += every[group]
    if not parts["train"]:
        raise CorpusError(f"{name} has too few different sentences to split")
    return {part: [sentences[place] for place in sorted(places)] for part, places in parts.items()}


def hold_out(train: list[Sentence], name: str) -> tuple[list[Sentence], list[Sentence]]:
    """Training sentences without a tenth of them, and that tenth, drawn with a fixed seed."""
    _enough(len(train), name)
    held = set(Seeds(0).stream("corpus split").permutation(len(train))[: max(1, round(0.1 * len(train)))].tolist())
    return [s for i, s in enumerate(train) if i not in held], [s for i, s in enumerate(train) if i in held]


def _enough(sentences: int, name: str) -> None:
    if sentences < SMALLEST:
        raise CorpusError(f"{name} has {sentences} sentences, expected at least {SMALLEST} to split")
