"""Findings of our runs on FedNER's table and figures, as sentences that are computed from the rows."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from engine.config import SimulationConfig
from engine.experiments.papers import fedner_2020, fedner_2020_scores
from engine.experiments.papers.fedner_2020_scores import Row
from engine.experiments.statistics import paired_difference
from engine.records import Run
from engine.reports.numbers import points_text
from engine.taggers import KINDS

TITLES = {"ade": "ADE", "psytar": "PsyTAR", "bc5cdr": "BC5CDR"}
"""Short titles of the clients (silos)."""
NOTHING_YET = "No result yet: there are no two runs to compare."
_Differences = Mapping[str, Sequence[float]]
"""Differences in F1 by client, seed by seed."""


def verdict(rows: Sequence[Row], table: str) -> list[str]:
    """Return self-contained sentences on one of :data:`fedner.TABLES`.

    Args:
        rows: rows of all tables, or of that one.
        table: name of the table.
    """
    selected = [row for row in rows if row.cell.table == table]
    sentences = _VERDICTS[table](selected)
    return [*(sentences or [NOTHING_YET]), here_text(selected, figure=table.startswith("figure"))]


def here_text(rows: Sequence[Row], *, figure: bool = False) -> str:
    """Return the number of finished runs behind some rows, their wall time and machines.

    Args:
        rows: the rows.
        figure: whether the paper shows these results as a figure.
    """
    required = {config for row in rows for config in row.cell.seeds()}
    runs = _runs(rows)
    text = f"{len(runs)} of {len(required)} runs are finished{time_text(runs.values())}."
    if len(runs) < len(required):
        text += f" {len(required) - len(runs)} are missing and may change the results above."
    return text + (" The paper's figure has no numbers." if figure else "")


def time_text(runs: Iterable[Run]) -> str:
    """Return the total wall time of some runs and their machines; empty without provenance."""
    made = [run.provenance for run in runs if run.provenance]
    if not made:
        return ""
    hours = sum(provenance.wall_seconds for provenance in made) / 3600
    machines = "; ".join(sorted({provenance.machine for provenance in made}))
    return f": {hours:.1f} hours of wall time, summed over runs, on {machines}"


def all_time_text(rows: Sequence[Row]) -> str:
    """Return the total wall time of all tables, with runs that belong to several tables counted once."""
    runs = _runs(rows)
    return f"All tables together use {len(runs)} runs, each counted once{time_text(runs.values())}."


def _runs(rows: Sequence[Row]) -> dict[SimulationConfig, Run]:
    return {run.config: run for row in rows for run in row.runs}


def _table2(rows: Sequence[Row]) -> list[str]:
    together = _trained(rows, fedner_2020.FEDERATED)
    often, alone = _trained(rows, fedner_2020.ALONE_AS_OFTEN), _trained(rows, fedner_2020.ALONE, fedner_2020.TAGGER)
    sentences = [
        _gain_text(f"Gain of FedNER over training alone {_baseline(base)}", together, others)
        for base, others in ((fedner_2020.ALONE_AS_OFTEN, often), (fedner_2020.ALONE, alone))
    ]
    more = _gain_text(
        "Gain of training alone with the same number of updates over training alone with batches of 64", often, alone
    )
    if more and (reported := _reported_gain(together, alone)):
        more += f" {reported}"
    parted = _gain_text(
        "Gain of *FedNER, then alone* over training alone with the same number of updates",
        _trained(rows, fedner_2020.PARTED),
        often,
    )
    return list(filter(None, (*sentences, more, parted)))


def _reported_gain(together: Mapping[str, Row], alone: Mapping[str, Row]) -> str:
    """Return the gain that the paper reports, for clients with the paper's corpus."""
    gains = [
        f"{TITLES[name]} {100 * (federated['strict_f1'] - baseline['strict_f1']):+.2f} "
        f"({100 * baseline['strict_f1']:.2f} % to {100 * federated['strict_f1']:.2f} %)"
        for name, row in together.items()
        if (federated := row.cell.published) and name in alone and (baseline := alone[name].cell.published)
    ]
    return f"The paper reports the sum of both effects (more updates and sharing): {', '.join(gains)}." if gains else ""


def _figure3(rows: Sequence[Row]) -> list[str]:
    sentences, wins = [], []
    for share in sorted(fedner_2020.EPOCHS):
        selected = [row for row in rows if row.cell.setting["share"] == share]
        often = _trained(selected, fedner_2020.ALONE_AS_OFTEN)
        comparison = (
            f"Gain of FedNER with {_percent(share)} of the sentences over training alone with the same number of "
            "updates"
        )
        sentences.append(_gain_text(comparison, _trained(selected, fedner_2020.FEDERATED), often))
        wins.append((share, _differences(_trained(selected, fedner_2020.PARTED), often)))
    return [*filter(None, sentences), *_parted(wins)]


def _parted(by_share: Sequence[tuple[float, _Differences]]) -> list[str]:
    """Return a sentence on the shares at which *then alone* has a higher mean F1 for all clients."""
    complete = [(share, differences) for share, differences in by_share if len(differences) == len(TITLES)]
    if not complete:
        return []
    wins = [
        share for share, differences in complete if all(statistics.fmean(values) > 0 for values in differences.values())
    ]
    others = [share for share, _ in complete if share not in wins]
    seeds = sorted({len(values) for _, differences in complete for values in differences.values()})
    number = " or ".join(map(str, seeds))
    where = [f"in all silos at {_shares(wins)}"] if wins else []
    where += [f"not in every silo at {_shares(others)}"] if others else []
    variance = ", so the seed variance is unknown" if seeds == [1] else ""
    return [
        "Higher mean F1 of the method *FedNER, then alone* than of training alone with the same number of updates: "
        f"{', '.join(where)} of the sentences ({number} {_plural('seed', seeds[-1])}{variance})."
    ]


def _figure4(rows: Sequence[Row]) -> list[str]:
    sentences = []
    paper = fedner_2020.paper_split(fedner_2020.TAGGER)
    for platform, title in TITLES.items():
        by_split = {str(row.cell.setting["shared"]): row for row in rows if row.cell.platform == platform and row.runs}
        seeds = (
            set.intersection(*({run.config.seed for run in row.runs} for row in by_split.values()))
            if by_split
            else set()
        )
        if len(by_split) < 2 or not seeds:
            continue
        means = {shared: statistics.fmean(_by_seed(row)[seed] for seed in seeds) for shared, row in by_split.items()}
        best = max(means, key=means.__getitem__)
        every = len(fedner_2020.SPLITS)
        number = f"all {every}" if len(by_split) == every else f"{len(by_split)} of {every}"
        number += " choices of shared layers were run"
        if any(len(row.runs) > len(seeds) for row in by_split.values()):
            number += f", compared on the {len(seeds)} {_plural('seed', len(seeds))} that all of them have"
        as_reported = ", which is the paper's choice too" if best == paper else ""
        sentence = f"{title}: best with {_split(best)}{as_reported}, F1 {100 * means[best]:.1f} %"
        if best != paper and paper in by_split:
            gain = _points(fedner_2020_scores.differences(by_split[best], by_split[paper]))
            sentence += f", {gain} over the paper's choice, {_split(paper)}"
        sentences.append(f"{sentence} ({number}).")
    return sentences


def _figure5(rows: Sequence[Row]) -> list[str]:
    sentences = []
    for share in fedner_2020.MASKED:
        selected = [row for row in rows if row.cell.setting["masked"] == share]
        comparison = (
            f"Gain of FedNER with {_percent(share)} of the entities of several silos masked over training alone with "
            "the same number of updates"
        )
        federated = _trained(selected, fedner_2020.FEDERATED)
        sentences.append(_gain_text(comparison, federated, _trained(selected, fedner_2020.ALONE_AS_OFTEN)))
    return list(filter(None, sentences))


def _figure6(rows: Sequence[Row]) -> list[str]:
    methods = list(dict.fromkeys(row.cell.method for row in rows))
    by_method = {
        method: _differences(
            _trained(rows, fedner_2020.FEDERATED, method=method), _trained(rows, fedner_2020.ALONE, method=method)
        )
        for method in methods
    }
    sentences = []
    for platform, title in TITLES.items():
        gains = {method: differences[platform] for method, differences in by_method.items() if platform in differences}
        if not gains:
            continue
        gaining = [method for method, values in gains.items() if statistics.fmean(values) > 0]
        significant = [
            method for method in gaining if len(gains[method]) > 1 and paired_difference(gains[method]).significant
        ]
        values_text = ", ".join(f"{KINDS[method].short} {_points(values)}" for method, values in gains.items())
        number = (
            f"{len(gaining)} of {len(gains)} {_plural('method', len(gains))} {'gains' if len(gaining) == 1 else 'gain'}"
        )
        sentences.append(
            f"{title}: {number} within FedNER, compared with training alone with batches of 64, {len(significant)} of "
            f"them significantly at 5 %. In points of strict F1: {values_text}."
        )
    absent = [KINDS[method].short for method in methods if not by_method[method]]
    if sentences and absent:
        sentences.append(f"No run within FedNER yet: {', '.join(absent)}.")
    return sentences


def _private(rows: Sequence[Row]) -> list[str]:
    sentences = []
    silent = _trained(
        [row for row in rows if row.cell.setting["protects"] == fedner_2020.UNPROTECTED], fedner_2020.ALONE_AS_OFTEN
    )
    for scope in (fedner_2020.SENTENCE, fedner_2020.PLATFORM):
        for epsilon in fedner_2020.EPSILONS:
            selected = [
                row
                for row in rows
                if row.cell.method == fedner_2020.SMALL
                and (row.cell.setting["protects"], row.cell.setting.get("epsilon")) == (scope, epsilon)
            ]
            others = silent if scope == fedner_2020.PLATFORM else _trained(selected, fedner_2020.ALONE_AS_OFTEN)
            baseline = (
                "training alone without noise" if scope == fedner_2020.PLATFORM else "training alone at the same ε"
            )
            unit = _UNITS[scope]
            comparison = (
                f"Gain of sharing over {baseline} (tagger *{KINDS[fedner_2020.SMALL].short}*, ε = {epsilon:g} for each "
                f"{unit})"
            )
            sentences.append(_gain_text(comparison, _trained(selected, fedner_2020.FEDERATED), others))
    return list(filter(None, sentences))


_UNITS = {fedner_2020.SENTENCE: "sentence", fedner_2020.PLATFORM: "silo"}
"""Names of the protected units."""
_VERDICTS = {
    "table2": _table2,
    "figure3": _figure3,
    "figure4": _figure4,
    "figure5": _figure5,
    "figure6": _figure6,
    "private": _private,
}


def _trained(rows: Sequence[Row], way: str, method: str | None = None) -> dict[str, Row]:
    """Return the rows with runs by client.

    Args:
        rows: the rows.
        way: how the model was trained, the setting ``trained``.
        method: name of the tagger, None for any.
    """
    return {
        row.cell.platform: row
        for row in rows
        if row.runs and row.cell.setting.get("trained", fedner_2020.FEDERATED) == way
        if method in (None, row.cell.method)
    }


def _differences(rows: Mapping[str, Row], others: Mapping[str, Row]) -> dict[str, list[float]]:
    differences = {
        name: fedner_2020_scores.differences(row, others[name]) for name, row in rows.items() if name in others
    }
    return {name: values for name, values in differences.items() if values}


def _gain_text(comparison: str, rows: Mapping[str, Row], others: Mapping[str, Row]) -> str:
    """Return a sentence on the gain of each client and one on their mean; empty without a pair of runs."""
    gains = ", ".join(f"{TITLES[name]} {_points(values)}" for name, values in _differences(rows, others).items())
    return f"{comparison}, in points of strict F1: {gains}.{_on_average(rows, others)}" if gains else ""


def _on_average(rows: Mapping[str, Row], others: Mapping[str, Row]) -> str:
    """Return a sentence on the mean gain over all clients, seed by seed; empty without two common seeds.

    The seed variance of this mean is smaller than that of a single client.
    """
    pairs = [(_by_seed(rows[name]), _by_seed(others[name])) for name in TITLES if name in rows and name in others]
    seeds = set.intersection(*(set(one) for pair in pairs for one in pair)) if len(pairs) == len(TITLES) else set()
    if len(seeds) < 2:
        return ""
    means = [statistics.fmean(a[seed] - b[seed] for a, b in pairs) for seed in seeds]
    return f" On average over all silos {_points(means)}."


def _points(values: Sequence[float]) -> str:
    """Return the mean of differences in points, with its 95 % CI, or with a note on a single seed."""
    if len(values) < 2:
        return f"{points_text(values[0])} (one seed)"
    gain = paired_difference(values)
    low, high = points_text(gain.interval.low), points_text(gain.interval.high)
    return f"{points_text(gain.mean)} (95 % CI {low} to {high}, {gain.number} seeds)"


def _by_seed(row: Row) -> dict[int, float]:
    return {run.config.seed: score.f1 for run, score in zip(row.runs, row.scores, strict=True)}


def _baseline(base: str) -> str:
    return "with the same number of updates" if base == fedner_2020.ALONE_AS_OFTEN else "with batches of 64"


def _shares(shares: Sequence[float]) -> str:
    *first, last = map(_percent, shares)
    return f"{', '.join(first)} and {last}" if first else last


def _split(shared: str) -> str:
    *first, last = shared.split(",")
    return f"{', '.join(first)} and {last} shared" if first else f"{last} shared"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"
