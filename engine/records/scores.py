"""How well tags were found: counts, and the measures that follow from them."""

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
    """Three numbers from 0 to 1; 0 where the ratio is undefined (nothing predicted, nothing there)."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Counts:
    """How many items of one class were right, how many were predicted, how many are in the gold standard."""

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
        """Of both classes together."""
        return Counts(self.correct + other.correct, self.predicted + other.predicted, self.gold + other.gold)


@dataclass(frozen=True)
class SidedCounts:
    """Counts where one item may fit several on the other side, so that each side has a number of its own.

    right: how many of the predicted items are right. found: how many of those in the gold standard are found.
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
        """Of both classes together."""
        return SidedCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


_Kind = TypeVar("_Kind", Counts, SidedCounts)


def micro(counts: Iterable[_Kind]) -> PrecisionRecallF1:
    """Ratios of the summed counts: every item weighs the same."""
    every = list(counts)
    return sum(every[1:], every[0]).ratios if every else PrecisionRecallF1(0.0, 0.0, 0.0)


def macro(counts: Iterable[Counts | SidedCounts]) -> PrecisionRecallF1:
    """Mean over classes: every class weighs the same."""
    return _mean([(c.ratios, 1) for c in counts])


def weighted(counts: Iterable[Counts | SidedCounts]) -> PrecisionRecallF1:
    """Mean over classes weighted by gold count; its F1 can lie below both precision and recall."""
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
    """Counts at three levels, from which every published average can be formed.

    strict: per entity type; a predicted entity is right when its first token, last token and type are
        (IOB2, ill-formed tags form no entity).
    relaxed: per entity type; right when it shares a token with a gold entity of its type, one to one.
    token: per tag, "O" included (``B-PER``, ``I-PER`` …).
    sentences: of the strict counts, what an interval needs; None in records that were made before they were kept,
        which is no difference between two records.
    many_to_many: the other reading of relaxed, per entity type; a predicted entity is right when it shares a token with
        any gold entity of its type, a gold one found when any predicted one of its type shares a token with it. None
        where it was not kept, as with sentences.
    """

    strict: Mapping[str, Counts]
    relaxed: Mapping[str, Counts]
    token: Mapping[str, Counts]
    sentences: SentenceSums | None = field(default=None, compare=False)
    many_to_many: Mapping[str, SidedCounts] | None = field(default=None, compare=False)

    @property
    def precision(self) -> float:
        """Strict micro precision, the headline."""
        return micro(self.strict.values()).precision

    @property
    def recall(self) -> float:
        """Strict micro recall, the headline."""
        return micro(self.strict.values()).recall

    @property
    def f1(self) -> float:
        """Strict micro F1, the headline."""
        return micro(self.strict.values()).f1

    @property
    def names(self) -> int:
        """How many names there are in the gold standard."""
        return sum(counts.gold for counts in self.strict.values())

    @property
    def f1_interval(self) -> Interval | None:
        """95 % interval of the headline over the sentences that could have been tested; None without any name."""
        counts = self.strict.values()
        named = sum(each.predicted + each.gold for each in counts)
        return f1_interval(sum(each.correct for each in counts), named, self.sentences)

    @property
    def relaxed_ratios(self) -> PrecisionRecallF1:
        """Micro averages where a name that overlaps is right, one to one."""
        return micro(self.relaxed.values())

    @property
    def many_to_many_ratios(self) -> PrecisionRecallF1 | None:
        """Micro averages where each overlap counts: the *relaxed* scores of FedNER; None in records without them."""
        return None if self.many_to_many is None else micro(self.many_to_many.values())

    def tokens(self, *, outside: bool) -> list[Counts]:
        """Token-level counts with (``outside=True``) or without the tag O."""
        return [counts for tag, counts in self.token.items() if outside or tag != "O"]

    @classmethod
    def together(cls, named: Mapping[str, "EntityScores"]) -> "EntityScores":
        """Of several platforms: a type is called by its platform too, since two may mean different things by it."""
        levels: dict[str, dict[str, Counts]] = {level: {} for level in LEVELS}
        for platform, scores in named.items():
            for level, found in levels.items():
                counts = getattr(scores, level)
                found |= {f"{platform}: {name}": each for name, each in counts.items() if name != "O"}
        if outside := [astuple(scores.token["O"]) for scores in named.values() if "O" in scores.token]:
            levels[TOKEN]["O"] = Counts(*map(sum, zip(*outside, strict=True)))
        sums = [scores.sentences for scores in named.values() if scores.sentences]
        every = sum(sums[1:], sums[0]) if len(sums) == len(named) and sums else None
        sided = {
            f"{platform}: {name}": each
            for platform, scores in named.items()
            for name, each in (scores.many_to_many or {}).items()
        }
        known = all(scores.many_to_many is not None for scores in named.values())
        return cls(**levels, sentences=every, many_to_many=sided if known else None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` is the inverse."""
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
        """Read what :meth:`to_dict` wrote."""
        sums, sided = values.get("sentences"), values.get("many_to_many")
        return cls(
            **{level: {name: Counts(*map(int, c)) for name, c in values[level].items()} for level in LEVELS},
            sentences=SentenceSums(*map(int, sums)) if sums else None,
            many_to_many=None if sided is None else {name: SidedCounts(*map(int, c)) for name, c in sided.items()},
        )
