"""Scores as plain fields and as a text table."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from engine.records import (
    Counts,
    EntityScores,
    SidedCounts,
    macro,
    micro,
    weighted,
)

_Kind = TypeVar("_Kind", Counts, SidedCounts)


def score_fields(scores: EntityScores) -> dict[str, Any]:
    """Return every average at entity and token level.

    Token-level averages are given with and without the tag O, since published tables differ. The field
    ``many_to_many`` is None in older records.
    """
    several = scores.many_to_many
    interval = {"f1_interval": list(scores.f1_interval) if scores.f1_interval else None}
    return {
        "strict": _averages(scores.strict.values()) | interval | {"per_type": _per_class(scores.strict)},
        "relaxed": _averages(scores.relaxed.values()) | {"per_type": _per_class(scores.relaxed)},
        "many_to_many": None if several is None else _averages(several.values()) | {"per_type": _per_class(several)},
        "token": {
            "with_o": _averages(scores.tokens(outside=True)),
            "without_o": _averages(scores.tokens(outside=False)),
            "per_tag": _per_class(scores.token),
        },
    }


FEW_NAMES = 100
"""Number of entities below which an F1 is shown with that number, since one entity changes it by a point or more."""


def f1_text(scores: EntityScores, digits: int = 2) -> str:
    """Return F1 with its 95 % CI, and the number of entities where it is small; without line breaks."""
    text = f"{scores.f1:.{digits}f}"
    if scores.f1_interval is None:
        return text
    few = f", {scores.names:,} entities only" if scores.names < FEW_NAMES else ""
    whole = f"{text} (95 % CI: {scores.f1_interval.text}{few})"
    return whole.replace(" ", "\u00a0").replace("\u2013", "\u2060\u2013\u2060")  # word joiners, of no width


def _averages(counts: Iterable[_Kind]) -> dict[str, float]:
    classes = list(counts)
    overall, by_class, by_support = micro(classes), macro(classes), weighted(classes)
    return {
        "precision": overall.precision,
        "recall": overall.recall,
        "f1": overall.f1,
        "macro_f1": by_class.f1,
        "weighted_precision": by_support.precision,
        "weighted_recall": by_support.recall,
        "weighted_f1": by_support.f1,
    }


def _per_class(counts: Mapping[str, _Kind]) -> dict[str, dict[str, float]]:
    return {name: asdict(each.ratios) | asdict(each) for name, each in sorted(counts.items())}


def score_table(scores: EntityScores) -> str:
    """Return the main averages and the strict scores per type as a text table."""
    fields = score_fields(scores)
    rows = [
        ("entities, strict", fields["strict"]),
        ("entities, relaxed", fields["relaxed"]),
        ("  many to many", fields["many_to_many"]),
        ("tokens, with O", fields["token"]["with_o"]),
        ("tokens, without O", fields["token"]["without_o"]),
    ]
    lines = [f"{'':20}{'P':>8}{'R':>8}{'F1':>8}{'macro F1':>10}{'weighted F1':>13}"]
    lines += [
        f"{name:20}{row['precision']:8.3f}{row['recall']:8.3f}{row['f1']:8.3f}"
        f"{row['macro_f1']:10.3f}{row['weighted_f1']:13.3f}"
        for name, row in rows
        if row
    ]
    if scores.f1_interval:
        lines.append(f"{'  95 % CI of strict F1':36}{scores.f1_interval.text:>14}, {scores.names:,} entities")
    lines += [
        f"  {name:18}{row['precision']:8.3f}{row['recall']:8.3f}{row['f1']:8.3f}{row['gold']:10,} entities"
        for name, row in fields["strict"]["per_type"].items()
    ]
    return "\n".join(lines)
