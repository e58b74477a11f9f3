"""Table rows with the scores of each silo of a federation. Does not use Streamlit."""

from typing import Any

from engine.records import NoiseCheck, RoundRecord
from engine.reports.csv_export import neutral
from engine.reports.numbers import epsilon_text
from pages.shared import metrics, titles


def rows(latest: RoundRecord) -> list[dict[str, Any]]:
    """Return a row for each silo, with scores on its test set if there are some, else on its validation set."""
    part = "test" if latest.test else "validation"
    return [
        {
            "Client": neutral(titles.corpus(platform.name)),
            f"F1, {part} set": round(scores.f1, 3),
            metrics.INTERVAL: metrics.interval(scores),
            "Precision": round(scores.precision, 3),
            "Recall": round(scores.recall, 3),
            "ε": epsilon_text(platform.privacy.epsilon),
            "Noise check": _check_result(platform.noise_check),
            "Entity types": neutral(", ".join(sorted(scores.strict))),
        }
        for platform in latest.platforms
        for scores in [platform.test or platform.scores]
    ]


def _check_result(check: NoiseCheck | None) -> str:
    if check is None:
        return "no noise"
    return "failed" if check.failed else "passed" if check.passed else "not measurable"
