"""Scoring of predicted tags at three levels: strict entities, relaxed entities (by two rules), tokens.

*Strict* is seqeval's ``mode="strict", scheme=IOB2``. An entity is a ``B-X`` with the ``I-X`` that directly follow, and
an ``I-X`` after neither ``B-X`` nor ``I-X`` belongs to no entity. (seqeval's default mode repairs such tags and counts
them as correct.) Entities are extracted by a separate loop, since a run is scored twenty times and more. The 3,453 test
sentences of CoNLL-2003 take 0.03 s at all three levels; seqeval's strict report alone takes 0.2 to 0.3 s after 2 s of
imports. Tests with random tag sequences, also ill-formed ones, verify that both give the same entities and averages.

*Relaxed* matches the same entities more loosely. A predicted entity is correct if it shares at least one token with a
gold entity of its type; each entity is matched at most once.

*Many to many* is the other relaxed metric. Precision is the share of predicted entities that share a token with any
gold entity of their type. Recall is the share of gold entities that share a token with any predicted entity of their
type. FedNER's relaxed scores are read this way (Ge et al. 2020, arXiv 2003.09288, section 4.1: "only an overlap between
the range of predicted positions and gold annotations is needed"). Its F1 is never below the relaxed one.

*Token* counts each tag separately, O included, as some published tables do (Sang and De Meulder 2003 count entities).
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

    Args:
        gold: One sequence of IOB2 tags for each sentence.
        predicted: The same, in the same order and of the same lengths.

    Returns:
        Counts with classes in alphabetical order. A class that occurs on one side only is included, since it enters the
            macro average.

    Raises:
        InvalidConfig: If the sides have different lengths or a tag is not IOB2; names the sentence, from 1.
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
        gold_spans = _spans("gold", number, gold_tags)
        predicted_spans = _spans("predicted", number, predicted_tags)
        for kind, spans in gold_spans.items():
            totals["gold"][kind] += len(spans)
        right = 0
        for kind, spans in predicted_spans.items():
            totals["predicted"][kind] += len(spans)
            if kind in gold_spans:
                exact = len(set(spans) & set(gold_spans[kind]))
                right += exact
                totals["strict"][kind] += exact
                totals["relaxed"][kind] += _overlapping_pairs(gold_spans[kind], spans)
                totals["right"][kind] += _overlapping(spans, gold_spans[kind])
                totals["found"][kind] += _overlapping(gold_spans[kind], spans)
        if gold_spans or predicted_spans:
            total = sum(map(len, gold_spans.values())) + sum(map(len, predicted_spans.values()))
            sums = [sums[0] + right * right, sums[1] + right * total, sums[2] + total * total]
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

    The gold file's tags determine the scheme. In BIO2 both files are used as written, so that an ill-formed prediction
    counts as wrong. In IOB1 or BIOES both are converted to BIO2.

    Raises:
        CorpusError: If a file cannot be read.
        InvalidConfig: If the files have different tokens.
    """
    sides = {path: conll.parse(files.content(path), path.name) for path in (gold, predicted)}
    gold_blocks, predicted_blocks = sides[gold], sides[predicted]
    if len(gold_blocks) != len(predicted_blocks):
        raise InvalidConfig(
            f"{predicted.name} has {len(predicted_blocks):,} sentences, expected {len(gold_blocks):,} as {gold.name}"
        )
    for number, (gold_block, predicted_block) in enumerate(zip(gold_blocks, predicted_blocks, strict=True), start=1):
        if gold_block.tokens != predicted_block.tokens:
            raise InvalidConfig(
                f"{predicted.name} has other tokens than {gold.name} in sentence {number:,} "
                f"(line {predicted_block.line:,}, gold line {gold_block.line:,})"
            )
    if conll.scheme(gold_blocks, gold.name) in (None, "BIO2") and not any(
        tag[0] in "ESLU" for b in predicted_blocks for tag in b.tags
    ):
        return score([block.tags for block in gold_blocks], [block.tags for block in predicted_blocks])
    return score(*([conll.to_bio2(block.tags) for block in side] for side in (gold_blocks, predicted_blocks)))


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
    """Return the size of the largest one-to-one matching of spans that share a token.

    Both lists are disjoint and in order. Matching the leftmost overlapping pair is optimal: the span of the two that
    ends first overlaps no later span of the other side.
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
    """Return how many spans share a token with any of the others; both lists are disjoint and in order."""
    number = index = 0
    for start, end in spans:
        while index < len(others) and others[index][1] <= start:
            index += 1
        number += index < len(others) and others[index][0] < end
    return number


def _token_counts(gold: Iterable[str], predicted: Iterable[str]) -> dict[str, Counts]:
    pairs = Counter(zip(gold, predicted, strict=True))
    correct: Counter[str] = Counter()
    gold_counts: Counter[str] = Counter()
    predicted_counts: Counter[str] = Counter()
    for (gold_tag, predicted_tag), number in pairs.items():
        gold_counts[gold_tag] += number
        predicted_counts[predicted_tag] += number
        if gold_tag == predicted_tag:
            correct[gold_tag] += number
    return _counts(correct, predicted_counts, gold_counts)


def _counts(correct: Counter[str], predicted: Counter[str], gold: Counter[str]) -> dict[str, Counts]:
    return {name: Counts(correct[name], predicted[name], gold[name]) for name in sorted(predicted | gold)}
