"""Gold and predicted tags → counts at three levels: strict entities, relaxed entities (by two rules), tokens.

*Strict* is seqeval's ``mode="strict", scheme=IOB2``: an entity is a ``B-X`` with the ``I-X`` that follow it at once,
and an ``I-X`` that follows no ``B-X`` or ``I-X`` belongs to no entity. (seqeval's default mode repairs such tags
and counts them as right.) Entities are found by a loop of our own, since a run is scored twenty times and more:
the 3,453 sentences of CoNLL-2003's test part take 0.03 s at all three levels, seqeval's strict report alone 0.2 to
0.3 s after 2 s of imports. That both find the same entities and give the same averages is tested with random tag
sequences, ill-formed ones included.

*Relaxed* matches the same entities more kindly: a predicted entity is right when it shares at least one token with
a gold entity of its type, each entity being matched at most once.

*Many to many* is the other reading of relaxed: precision is the share of predicted entities that share a token with any
gold entity of their type, recall the share of gold entities that any predicted one of their type shares a token with.
So FedNER is read (Ge et al. 2020, arXiv 2003.09288, section 4.1: "only an overlap between the range of predicted
positions and gold annotations is needed"). Its F1 is never below the relaxed one.

*Token* counts each tag by itself, O included, as some published tables do (Sang and De Meulder 2003 count entities).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from engine.corpus import conll, files
from engine.corpus.sentences import entities
from engine.errors import InvalidConfig
from engine.records import Counts, EntityScores, SentenceSums, SidedCounts

Span = tuple[int, int]
"""First token of an entity and the token after its last one."""


def score(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> EntityScores:
    """Compare predicted with gold tags, sentence by sentence.

    gold, predicted: one sequence of IOB2 tags for each sentence, in the same order and of the same lengths.
    Classes are listed in alphabetical order; a class that occurs on one side only is listed too, since it enters
    the macro average. Raises InvalidConfig, with the number of the sentence (from 1), when the sides do not fit
    together or a tag is not IOB2.
    """
    if len(gold) != len(predicted):
        raise InvalidConfig(f"predicted has {len(predicted):,} sentences, expected {len(gold):,} as gold")
    names = ("gold", "predicted", "strict", "relaxed", "right", "found")
    totals: dict[str, Counter[str]] = {name: Counter() for name in names}
    sums = [0, 0, 0]
    for number, (gold_tags, predicted_tags) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(gold_tags) != len(predicted_tags):
            raise InvalidConfig(
                f"predicted sentence {number:,} has {len(predicted_tags):,} tags, expected {len(gold_tags):,} as gold"
            )
        there = _spans("gold", number, gold_tags)
        found = _spans("predicted", number, predicted_tags)
        for kind, spans in there.items():
            totals["gold"][kind] += len(spans)
        right = 0
        for kind, spans in found.items():
            totals["predicted"][kind] += len(spans)
            if kind in there:
                exact = len(set(spans) & set(there[kind]))
                right += exact
                totals["strict"][kind] += exact
                totals["relaxed"][kind] += _overlapping_pairs(there[kind], spans)
                totals["right"][kind] += _overlapping(spans, there[kind])
                totals["found"][kind] += _overlapping(there[kind], spans)
        if there or found:
            named = sum(map(len, there.values())) + sum(map(len, found.values()))
            sums = [sums[0] + right * right, sums[1] + right * named, sums[2] + named * named]
    return EntityScores(
        strict=_counts(totals["strict"], totals["predicted"], totals["gold"]),
        relaxed=_counts(totals["relaxed"], totals["predicted"], totals["gold"]),
        token=_token_counts(chain.from_iterable(gold), chain.from_iterable(predicted)),
        sentences=SentenceSums(len(gold), *sums),
        many_to_many={
            kind: SidedCounts(*(totals[name][kind] for name in ("right", "predicted", "found", "gold")))
            for kind in sorted(totals["predicted"] | totals["gold"])
        },
    )


def score_files(gold: Path, predicted: Path) -> EntityScores:
    """Compare two column files of the same sentences.

    The gold file's tags say which scheme is used. In BIO2 both files are taken as they stand, so that an ill-formed
    prediction counts as wrong; in IOB1 or BIOES both are read as BIO2. Raises CorpusError when a file cannot be read,
    InvalidConfig when they do not hold the same tokens.
    """
    sides = {path: conll.parse(files.content(path), path.name) for path in (gold, predicted)}
    there, found = sides[gold], sides[predicted]
    if len(there) != len(found):
        raise InvalidConfig(f"{predicted.name} has {len(found):,} sentences, expected {len(there):,} as {gold.name}")
    for number, (one, other) in enumerate(zip(there, found, strict=True), start=1):
        if one.tokens != other.tokens:
            raise InvalidConfig(
                f"{predicted.name} has other tokens than {gold.name} in sentence {number:,} "
                f"(line {other.line:,}, there line {one.line:,})"
            )
    if conll.scheme(there, gold.name) in (None, "BIO2") and not any(tag[0] in "ESLU" for b in found for tag in b.tags):
        return score([block.tags for block in there], [block.tags for block in found])
    return score(*([conll.to_bio2(block.tags) for block in side] for side in (there, found)))


def _spans(side: str, number: int, tags: Sequence[str]) -> dict[str, list[Span]]:
    spans: dict[str, list[Span]] = {}
    try:
        for kind, start, end in entities(tags):
            spans.setdefault(kind, []).append((start, end))
    except ValueError as error:
        raise InvalidConfig(
            f"{side} sentence {number:,} has the tag {str(error)!r}, expected O, or B- or I- and an entity type"
        ) from None
    return spans


def _overlapping_pairs(gold: list[Span], predicted: list[Span]) -> int:
    """Size of the largest one-to-one matching of spans that share a token; each list is disjoint and in order.

    Taking the leftmost overlapping pair is never wrong: of the two spans, the one that ends first overlaps nothing
    that comes later on the other side.
    """
    pairs = g = p = 0
    while g < len(gold) and p < len(predicted):
        if gold[g][1] <= predicted[p][0]:
            g += 1
        elif predicted[p][1] <= gold[g][0]:
            p += 1
        else:
            pairs, g, p = pairs + 1, g + 1, p + 1
    return pairs


def _overlapping(spans: list[Span], others: list[Span]) -> int:
    """How many spans share a token with any of the others; each list is disjoint and in order."""
    number = place = 0
    for start, end in spans:
        while place < len(others) and others[place][1] <= start:
            place += 1
        number += place < len(others) and others[place][0] < end
    return number


def _token_counts(gold: Iterable[str], predicted: Iterable[str]) -> dict[str, Counts]:
    pairs = Counter(zip(gold, predicted, strict=True))
    correct: Counter[str] = Counter()
    there: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for (gold_tag, predicted_tag), number in pairs.items():
        there[gold_tag] += number
        found[predicted_tag] += number
        if gold_tag == predicted_tag:
            correct[gold_tag] += number
    return _counts(correct, found, there)


def _counts(correct: Counter[str], predicted: Counter[str], gold: Counter[str]) -> dict[str, Counts]:
    return {name: Counts(correct[name], predicted[name], gold[name]) for name in sorted(predicted | gold)}
