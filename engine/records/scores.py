"""How well tags were found: counts, and the measures that follow from them."""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from engine.records.intervals import Interval, SentenceSums, f1_interval

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


def micro(counts: Iterable[Counts]) -> PrecisionRecallF1:
    """Ratios of the summed counts: every item weighs the same."""
    counts = list(counts)
    return Counts(sum(c.correct for c in counts), sum(c.predicted for c in counts), sum(c.gold for c in counts)).ratios


def macro(counts: Iterable[Counts]) -> PrecisionRecallF1:
    """Mean over classes: every class weighs the same."""
    return _mean([(c.ratios, 1) for c in counts])


def weighted(counts: Iterable[Counts]) -> PrecisionRecallF1:
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
    """

    strict: Mapping[str, Counts]
    relaxed: Mapping[str, Counts]
    token: Mapping[str, Counts]
    sentences: SentenceSums | None = field(default=None, compare=False)

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
        return cls(**levels, sentences=every)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` is the inverse."""
        levels = {
            level: {name: [c.correct, c.predicted, c.gold] for name, c in getattr(self, level).items()}
            for level in LEVELS
        }
        return levels | ({"sentences": list(astuple(self.sentences))} if self.sentences else {})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EntityScores":
        """Read what :meth:`to_dict` wrote."""
        sums = values.get("sentences")
        return cls(
            **{level: {name: Counts(*map(int, c)) for name, c in values[level].items()} for level in LEVELS},
            sentences=SentenceSums(*map(int, sums)) if sums else None,
        )
