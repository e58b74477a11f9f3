"""How each platform of a federation does by itself, as rows of a table. No streamlit."""

from typing import Any

from engine.records import NoiseCheck, RoundRecord
from engine.reports.numbers import epsilon_text
from pages.shared import metrics, titles


def rows(latest: RoundRecord) -> list[dict[str, Any]]:
    """A row for each platform, with scores on its test part where there are some, else on the validation part."""
    part = "test" if latest.test else "validation"
    return [
        {
            "Platform": titles.corpus(platform.name),
            f"F1, {part}": round(scores.f1, 3),
            metrics.INTERVAL: metrics.interval(scores),
            "Precision": round(scores.precision, 3),
            "Recall": round(scores.recall, 3),
            "ε": epsilon_text(platform.privacy.epsilon),
            "Noise check": _checked(platform.noise_check),
            "Entity types": ", ".join(sorted(scores.strict)),
        }
        for platform in latest.platforms
        for scores in [platform.test or platform.scores]
    ]


def _checked(check: NoiseCheck | None) -> str:
    if check is None:
        return "no noise"
    return "failed" if check.failed else "passed" if check.passed else "not measurable"
