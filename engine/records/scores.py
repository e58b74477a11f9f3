"""Scores of predicted tags: counts, and the metrics computed from them."""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, TypeVar

from engine.records.confidence_intervals import Interval, SentenceSums, f1_interval

RELAXED, STRICT, TOKEN = "relaxed", "strict", "token"

LEVELS = (STRICT, RELAXED, TOKEN)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@dataclass(frozen=True)
class PrecisionRecallF1:
    """Three numbers from 0 to 1; 0 where the ratio is undefined (no predictions or no gold items)."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Counts:
    """Number of correct, predicted and gold items of one class."""

    correct: int
    predicted: int
    gold: int

    @property
    def ratios(self) -> PrecisionRecallF1:
        """Precision correct/predicted, recall correct/gold, F1 = 2·correct/(predicted + gold)."""
        return PrecisionRecallF1(
            _ratio(self.correct, self.predicted),
            _ratio(self.correct, self.gold),
            _ratio(2 * self.correct, self.predicted + self.gold),
        )

    def __add__(self, other: "Counts") -> "Counts":
        """Return the counts of both classes together."""
        return Counts(self.correct + other.correct, self.predicted + other.predicted, self.gold + other.gold)


@dataclass(frozen=True)
class SidedCounts:
    """Counts where one item may match several on the other side, so that each side has its own count of matches.

    Attributes:
        right: Number of correct predicted items.
        predicted: Number of predicted items.
        found: Number of gold items that were found.
        gold: Number of gold items.
    """

    right: int
    predicted: int
    found: int
    gold: int

    @property
    def ratios(self) -> PrecisionRecallF1:
        """Precision right/predicted, recall found/gold, F1 their harmonic mean."""
        precision, recall = _ratio(self.right, self.predicted), _ratio(self.found, self.gold)
        return PrecisionRecallF1(precision, recall, _ratio(2 * precision * recall, precision + recall))

    def __add__(self, other: "SidedCounts") -> "SidedCounts":
        """Return the counts of both classes together."""
        return SidedCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


_Kind = TypeVar("_Kind", Counts, SidedCounts)


def micro(counts: Iterable[_Kind]) -> PrecisionRecallF1:
    """Return the ratios of the summed counts: every item has the same weight."""
    classes = list(counts)
    return sum(classes[1:], classes[0]).ratios if classes else PrecisionRecallF1(0.0, 0.0, 0.0)


def macro(counts: Iterable[Counts | SidedCounts]) -> PrecisionRecallF1:
    """Return the mean over classes: every class has the same weight."""
    return _mean([(c.ratios, 1) for c in counts])


def weighted(counts: Iterable[Counts | SidedCounts]) -> PrecisionRecallF1:
    """Return the mean over classes weighted by gold count; its F1 can lie below both precision and recall."""
    return _mean([(c.ratios, c.gold) for c in counts])


def _mean(rows: list[tuple[PrecisionRecallF1, int]]) -> PrecisionRecallF1:
    total = sum(weight for _, weight in rows)
    return PrecisionRecallF1(
        *(
            _ratio(sum(getattr(ratios, name) * weight for ratios, weight in rows), total)
            for name in ("precision", "recall", "f1")
        )
    )


@dataclass(frozen=True)
class EntityScores:
    """Counts at three levels, from which every published average can be computed.

    Attributes:
        strict: By entity type; a predicted entity is correct if its first token, last token and type are. Tags are
            IOB2, and ill-formed tags form no entity.
        relaxed: By entity type; a predicted entity is correct if it shares a token with a gold entity of its type, one
            to one.
        token: By tag, "O" included (``B-PER``, ``I-PER`` …).
        sentences: Sums of the strict counts for a confidence interval. None in older records; comparisons of records
            ignore it.
        many_to_many: The other relaxed metric, by entity type. A predicted entity is correct if it shares a token with
            any gold entity of its type, and vice versa. None in older records; comparisons ignore it.
    """

    strict: Mapping[str, Counts]
    relaxed: Mapping[str, Counts]
    token: Mapping[str, Counts]
    sentences: SentenceSums | None = field(default=None, compare=False)
    many_to_many: Mapping[str, SidedCounts] | None = field(default=None, compare=False)

    @property
    def precision(self) -> float:
        """Strict micro precision."""
        return micro(self.strict.values()).precision

    @property
    def recall(self) -> float:
        """Strict micro recall."""
        return micro(self.strict.values()).recall

    @property
    def f1(self) -> float:
        """Strict micro F1."""
        return micro(self.strict.values()).f1

    @property
    def names(self) -> int:
        """Number of gold entities."""
        return sum(counts.gold for counts in self.strict.values())

    @property
    def f1_interval(self) -> Interval | None:
        """95 % CI of the strict micro F1 over the sampling of test sentences; None without any entity."""
        counts = self.strict.values()
        named = sum(count.predicted + count.gold for count in counts)
        return f1_interval(sum(count.correct for count in counts), named, self.sentences)

    @property
    def relaxed_ratios(self) -> PrecisionRecallF1:
        """Micro averages where an overlapping entity is correct, one to one."""
        return micro(self.relaxed.values())

    @property
    def many_to_many_ratios(self) -> PrecisionRecallF1 | None:
        """Micro averages where each overlap counts: the *relaxed* scores of FedNER; None in records without them."""
        return None if self.many_to_many is None else micro(self.many_to_many.values())

    def tokens(self, *, outside: bool) -> list[Counts]:
        """Return the token-level counts with (``outside=True``) or without the tag O."""
        return [counts for tag, counts in self.token.items() if outside or tag != "O"]

    @classmethod
    def together(cls, named: Mapping[str, "EntityScores"]) -> "EntityScores":
        """Return the scores of several clients together.

        Entity types are prefixed by their client, since two clients may use one name for different types.
        """
        levels: dict[str, dict[str, Counts]] = {level: {} for level in LEVELS}
        for platform, scores in named.items():
            for level, totals in levels.items():
                counts = getattr(scores, level)
                totals |= {f"{platform}: {name}": count for name, count in counts.items() if name != "O"}
        if outside := [astuple(scores.token["O"]) for scores in named.values() if "O" in scores.token]:
            levels[TOKEN]["O"] = Counts(*map(sum, zip(*outside, strict=True)))
        sums = [scores.sentences for scores in named.values() if scores.sentences]
        total = sum(sums[1:], sums[0]) if len(sums) == len(named) and sums else None
        sided = {
            f"{platform}: {name}": count
            for platform, scores in named.items()
            for name, count in (scores.many_to_many or {}).items()
        }
        complete = all(scores.many_to_many is not None for scores in named.values())
        return cls(**levels, sentences=total, many_to_many=sided if complete else None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; :meth:`from_dict` is the inverse."""
        levels = {
            level: {name: [c.correct, c.predicted, c.gold] for name, c in getattr(self, level).items()}
            for level in LEVELS
        }
        sums = {"sentences": list(astuple(self.sentences))} if self.sentences else {}
        if self.many_to_many is None:
            return levels | sums
        return levels | sums | {"many_to_many": {name: list(astuple(c)) for name, c in self.many_to_many.items()}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EntityScores":
        """Read the values of :meth:`to_dict`."""
        sums, sided = values.get("sentences"), values.get("many_to_many")
        return cls(
            **{level: {name: Counts(*map(int, c)) for name, c in values[level].items()} for level in LEVELS},
            sentences=SentenceSums(*map(int, sums)) if sums else None,
            many_to_many=None if sided is None else {name: SidedCounts(*map(int, c)) for name, c in sided.items()},
        )
