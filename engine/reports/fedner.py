"""What our runs say of FedNER's table and figures, in sentences: all of it follows from the rows."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from engine.config import SimulationConfig
from engine.experiments.papers import fedner_2020
from engine.experiments.papers.fedner_2020 import Row
from engine.experiments.statistics import paired_difference
from engine.records import Run
from engine.reports.numbers import points_text
from engine.taggers import KINDS

TITLES = {"ade": "ADE", "psytar": "PsyTAR", "bc5cdr": "BC5CDR"}
"""Of the platforms, short."""
NOTHING_YET = "Nothing can be said yet: no run is here with another to be held against."
_Differences = Mapping[str, Sequence[float]]
"""Of each platform, seed by seed, by how much F1 is above that of something else."""


def verdict(rows: Sequence[Row], table: str) -> list[str]:
    """Sentences on one of :data:`fedner.TABLES`, each of which can stand alone. rows: of all tables, or of that one."""
    here = [row for row in rows if row.cell.table == table]
    told = _VERDICTS[table](here)
    return [*(told or [NOTHING_YET]), here_text(here, figure=table.startswith("figure"))]


def here_text(rows: Sequence[Row], *, figure: bool = False) -> str:
    """How many of the runs behind some rows are here, how long they took, and on what. figure: whether the paper shows
    these as a picture."""
    wanted = {config for row in rows for config in row.cell.seeds()}
    runs = _runs(rows)
    told = f"{len(runs)} of {len(wanted)} runs are here{time_text(runs.values())}."
    if len(runs) < len(wanted):
        told += f" {len(wanted) - len(runs)} are missing, and what is said above may change with them."
    return told + (" The paper's figure is a picture without numbers." if figure else "")


def time_text(runs: Iterable[Run]) -> str:
    """Wall time of some runs, each by itself, and the machines; empty where none says."""
    made = [run.provenance for run in runs if run.provenance]
    if not made:
        return ""
    hours = sum(each.wall_seconds for each in made) / 3600
    return (
        f": {hours:.1f} hours of wall time, summed over runs, on {'; '.join(sorted({each.machine for each in made}))}"
    )


def all_time_text(rows: Sequence[Row]) -> str:
    """The same of all tables together, where some share their runs."""
    runs = _runs(rows)
    return f"All tables together, each run counted once: {len(runs)} runs{time_text(runs.values())}."


def _runs(rows: Sequence[Row]) -> dict[SimulationConfig, Run]:
    return {run.config: run for row in rows for run in row.runs}


def _table2(rows: Sequence[Row]) -> list[str]:
    together = _trained(rows, fedner_2020.FEDERATED)
    often, alone = _trained(rows, fedner_2020.ALONE_AS_OFTEN), _trained(rows, fedner_2020.ALONE, fedner_2020.TAGGER)
    told = [
        _said(f"Within FedNER, against alone {_way(base)}", together, others)
        for base, others in ((fedner_2020.ALONE_AS_OFTEN, often), (fedner_2020.ALONE, alone))
    ]
    more = _said("More updates by themselves, against batches of 64, with nothing shared", often, alone)
    if more and (printed := _printed_gain(together, alone)):
        more += f" {printed}"
    parted = _said("Then alone, against alone with as many updates", _trained(rows, fedner_2020.PARTED), often)
    return list(filter(None, (*told, more, parted)))


def _printed_gain(together: Mapping[str, Row], alone: Mapping[str, Row]) -> str:
    """What the paper printed as the gain, where the corpus is its own."""
    told = [
        f"{TITLES[name]} {points_text(here['strict_f1'] - there['strict_f1'])}"
        for name, row in together.items()
        if (here := row.cell.published) and name in alone and (there := alone[name].cell.published)
    ]
    return f"The paper printed for both together, more updates and sharing: {', '.join(told)}." if told else ""


def _figure3(rows: Sequence[Row]) -> list[str]:
    told, wins = [], []
    for share in sorted(fedner_2020.EPOCHS):
        here = [row for row in rows if row.cell.setting["share"] == share]
        often = _trained(here, fedner_2020.ALONE_AS_OFTEN)
        what = f"With {_percent(share)} of the sentences, against alone with as many updates"
        told.append(_said(what, _trained(here, fedner_2020.FEDERATED), often))
        wins.append((share, _differences(_trained(here, fedner_2020.PARTED), often)))
    return [*filter(None, told), *_parted(wins)]


def _parted(found: Sequence[tuple[float, _Differences]]) -> list[str]:
    """At which shares it pays on each platform to go on alone after a while, and at which it does not."""
    known = [(share, differences) for share, differences in found if len(differences) == len(TITLES)]
    if not known:
        return []
    wins = [share for share, each in known if all(statistics.fmean(values) > 0 for values in each.values())]
    others = [share for share, _ in known if share not in wins]
    seeds = sorted({len(values) for _, each in known for values in each.values()})
    number = " or ".join(map(str, seeds))
    told = [f"lies above alone with as many updates on each platform at {_shares(wins)}"] if wins else []
    told += [f"not on each at {_shares(others)}"] if others else []
    chance = ", which says nothing of chance" if seeds == [1] else ""
    return [f"*Then alone* {', '.join(told)} of the sentences ({number} {_plural('seed', seeds[-1])}{chance})."]


def _figure4(rows: Sequence[Row]) -> list[str]:
    told = []
    printed = fedner_2020.paper_split(fedner_2020.TAGGER)
    for platform, title in TITLES.items():
        here = {str(row.cell.setting["shared"]): row for row in rows if row.cell.platform == platform and row.runs}
        both = set.intersection(*({run.config.seed for run in row.runs} for row in here.values())) if here else set()
        if len(here) < 2 or not both:
            continue
        means = {shared: statistics.fmean(_by_seed(row)[seed] for seed in both) for shared, row in here.items()}
        best = max(means, key=means.__getitem__)
        tried = f"{len(here)} of {len(fedner_2020.SPLITS)} splits are here"
        if any(len(row.runs) > len(both) for row in here.values()):
            tried += f", held against each other on the {len(both)} {_plural('seed', len(both))} that all of them have"
        sentence = f"{title}: best with {_split(best)}, F1 {100 * means[best]:.1f}"
        if best == printed:
            sentence += ", as the paper has it"
        elif printed in here:
            over = _points(fedner_2020.differences(here[best], here[printed]))
            sentence += f", {over} over the paper's choice, {_split(printed)}"
        told.append(f"{sentence} ({tried}).")
    return told


def _figure5(rows: Sequence[Row]) -> list[str]:
    told = []
    for share in fedner_2020.MASKED:
        here = [row for row in rows if row.cell.setting["masked"] == share]
        what = f"With {_percent(share)} of the common names masked, against alone with as many updates"
        told.append(_said(what, _trained(here, fedner_2020.FEDERATED), _trained(here, fedner_2020.ALONE_AS_OFTEN)))
    return list(filter(None, told))


def _figure6(rows: Sequence[Row]) -> list[str]:
    methods = list(dict.fromkeys(row.cell.method for row in rows))
    found = {
        method: _differences(
            _trained(rows, fedner_2020.FEDERATED, method=method), _trained(rows, fedner_2020.ALONE, method=method)
        )
        for method in methods
    }
    told = []
    for platform, title in TITLES.items():
        known = {method: each[platform] for method, each in found.items() if platform in each}
        if not known:
            continue
        gaining = [method for method, values in known.items() if statistics.fmean(values) > 0]
        beyond = [
            method for method in gaining if len(known[method]) > 1 and paired_difference(known[method]).significant
        ]
        each = ", ".join(f"{KINDS[method].short} {_points(values)}" for method, values in known.items())
        number = (
            f"{len(gaining)} of {len(known)} {_plural('method', len(known))} {'gains' if len(gaining) == 1 else 'gain'}"
        )
        told.append(f"{title}: {number}, {len(beyond)} of them beyond chance ({each}).")
    absent = [KINDS[method].short for method in methods if not found[method]]
    if told and absent:
        told.append(f"Not here yet within FedNER: {', '.join(absent)}.")
    return told


def _private(rows: Sequence[Row]) -> list[str]:
    told = []
    silent = _trained(
        [row for row in rows if row.cell.setting["protects"] == fedner_2020.NOBODY], fedner_2020.ALONE_AS_OFTEN
    )
    for scope in (fedner_2020.SENTENCE, fedner_2020.PLATFORM):
        for epsilon in fedner_2020.EPSILONS:
            here = [
                row
                for row in rows
                if row.cell.method == fedner_2020.SMALL
                and (row.cell.setting["protects"], row.cell.setting.get("epsilon")) == (scope, epsilon)
            ]
            others = silent if scope == fedner_2020.PLATFORM else _trained(here, fedner_2020.ALONE_AS_OFTEN)
            what = "alone without noise" if scope == fedner_2020.PLATFORM else "alone at the same ε"
            said = f"{KINDS[fedner_2020.SMALL].short}, ε = {epsilon:g} for each {scope}: sharing, against {what}"
            told.append(_said(said, _trained(here, fedner_2020.FEDERATED), others))
    return list(filter(None, told))


_VERDICTS = {
    "table2": _table2,
    "figure3": _figure3,
    "figure4": _figure4,
    "figure5": _figure5,
    "figure6": _figure6,
    "private": _private,
}


def _trained(rows: Sequence[Row], way: str, method: str | None = None) -> dict[str, Row]:
    """By platform, the rows with runs that were trained so. method: of that tagger alone, where several are there."""
    return {
        row.cell.platform: row
        for row in rows
        if row.runs and row.cell.setting.get("trained", fedner_2020.FEDERATED) == way
        if method in (None, row.cell.method)
    }


def _differences(mine: Mapping[str, Row], others: Mapping[str, Row]) -> dict[str, list[float]]:
    found = {name: fedner_2020.differences(row, others[name]) for name, row in mine.items() if name in others}
    return {name: values for name, values in found.items() if values}


def _said(what: str, mine: Mapping[str, Row], others: Mapping[str, Row]) -> str:
    """A sentence on the gain of each platform, and one on all together; empty where nothing is known."""
    told = ", ".join(f"{TITLES[name]} {_points(values)}" for name, values in _differences(mine, others).items())
    return f"{what}, in points of strict F1: {told}.{_on_average(mine, others)}" if told else ""


def _on_average(mine: Mapping[str, Row], others: Mapping[str, Row]) -> str:
    """A sentence on the mean over all platforms, seed by seed, which chance moves less than each of them; empty where
    there are no two seeds that all have."""
    both = [(_by_seed(mine[name]), _by_seed(others[name])) for name in TITLES if name in mine and name in others]
    seeds = set.intersection(*(set(each) for pair in both for each in pair)) if len(both) == len(TITLES) else set()
    if len(seeds) < 2:
        return ""
    return f" On average over all {_points([statistics.fmean(a[seed] - b[seed] for a, b in both) for seed in seeds])}."


def _points(values: Sequence[float]) -> str:
    """The mean of differences in points, with its interval, or with the remark that there is one seed."""
    if len(values) < 2:
        return f"{points_text(values[0])} (one seed)"
    gain = paired_difference(values)
    low, high = points_text(gain.interval.low), points_text(gain.interval.high)
    return f"{points_text(gain.mean)} (95 % interval {low} to {high}, {gain.number} seeds)"


def _by_seed(row: Row) -> dict[int, float]:
    return {run.config.seed: score.f1 for run, score in zip(row.runs, row.scores, strict=True)}


def _way(base: str) -> str:
    return "with as many updates" if base == fedner_2020.ALONE_AS_OFTEN else "with batches of 64"


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
