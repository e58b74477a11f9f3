"""Table 2 and Figures 3 to 6 of *FedNER: Privacy-preserving Medical Named Entity Recognition with Federated Learning*
(Ge et al. 2020), cell by cell: the run that each stands for, what was printed, and what the known runs give.

Three platforms: ADE Corpus V2, as in the paper; PsyTAR in the place of CADEC and BC5CDR in that of SMM4H, which may not
be passed on. A seed decides the training's chance and, as in section 4.1, what is trained on and what is tested: a new
80/20 split of ADE and PsyTAR for each; BC5CDR has the parts that everybody tests with. Weights are averaged over the
last steps, and training goes on until they move no more.

What a platform has *alone* can mean two things. With batches of 64, as papers compare, it moves its weights a third as
often an epoch as within a federation of three, whose batches of 64 are split over the platforms. Alone *with as many
updates* it has the federation's steps, batches and sentences to the last, and shares nothing.

Beyond the paper: platforms go together at first, and *then alone*, each from what all have learned.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.config import JOIN, NOTHING, FederationConfig, PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.corpus.files import SPLIT, base_name_and_split
from engine.experiments.statistics import PairedDifference, ScoreSpread, paired_difference, score_spread
from engine.records import EntityScores, PrecisionRecallF1, Run
from engine.taggers import KINDS, splits_of

NAME = "fedner"
PLATFORMS = {"ade": "ade", "psytar": "cadec", "bc5cdr": "smm4h"}
"""Our corpora → the paper's whose place they have."""
_SPLIT_BY_SEED = ("ade", "psytar")
BASELINES = tuple(kind.name for kind in KINDS.values() if kind.paper == NAME and not kind.in_context)
"""The methods of section 4.2 that read no language model."""
TAGGER = next(kind.name for kind in KINDS.values() if kind.paper == NAME and kind.in_context)
"""ELMoNER's place: FedNER's own tagger, by itself."""
FEDERATED, ALONE, ALONE_AS_OFTEN = "fedner", "alone", "alone, as many updates"
PARTED = "then alone"
TOGETHER = 0.6
"""Share of the steps after which those go on alone; the first value that was tried."""
_ALONE = (ALONE, ALONE_AS_OFTEN)
TABLES = {
    "table2": "Methods on three platforms",
    "figure3": "Share of the training sentences",
    "figure4": "What the platforms share",
    "figure5": "Names masked that several platforms know",
    "figure6": "Each method alone and within FedNER",
    "private": "Under differential privacy",
}
SEEDS = {"table2": 5, "figure3": 3, "figure4": 3, "figure5": 3, "figure6": 3, "private": 3}
"""How many means are taken over."""
EPOCHS = {1.0: 15.0, 0.5: 22.5, 0.25: 37.5, 0.1: 75.0}
"""By the share of the training sentences: with fewer of them more passes, so that training ends where it has ended with
all, and not earlier."""
SPLITS = (
    NOTHING,
    "characters",
    "characters,convolution",
    "characters,convolution,lstm",
    "characters,convolution,lstm,scores",
)
"""Figure 4: from nothing to one tagger for all, with the entity types of all. The third is the paper's."""
MASKED = (0.0, 0.5, 1.0)
"""Figure 5: shares of the names that are masked."""
SMALL, LINEAR = "mlp-crf", "linear-crf"
"""The taggers of the private rows: one hidden layer of 64 over a public language model's frozen vectors, or none, and a
chain above it."""
_RATES = {SMALL: 0.01, LINEAR: 0.05}
"""Of the first the better of 0.01 and 0.03 on the validation parts of seed 0 at ε = 1; of the other the ladder's."""
NOBODY, SENTENCE, PLATFORM = "nobody", "sentence", "platform"
SCOPES = (NOBODY, SENTENCE, PLATFORM)
"""Whom noise protects: nobody, where there is none; each sentence; a platform whole, from everybody else."""
EPSILONS = (1.0, 3.0, 8.0)
_BATCH = {NOBODY: 128, SENTENCE: 1024, PLATFORM: 128}
_PRIVATE_EPOCHS, _ROUNDS = 30.0, 5
"""Passes where each sentence is protected; rounds where whole platforms are."""
_NOISE = {SENTENCE: {1.0: 6.01, 3.0: 2.38, 8.0: 1.21}, PLATFORM: {1.0: 16.69, 3.0: 6.22, 8.0: 2.69}}
"""σ by whom noise protects and ε, for the platforms of any seed (a test holds them)."""
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Cell:
    """One number of a table or figure.

    method: "fedner", or a tagger's name. platform: one of :data:`PLATFORMS`. setting: what else varies. published: what
    the paper has for it in numbers, None where its corpus is another or it shows a picture alone. config: of the run
    behind it, seed 0.
    """

    table: str
    method: str
    platform: str
    setting: Mapping[str, Any]
    published: Mapping[str, float] | None
    config: SimulationConfig

    def seeds(self, number: int | None = None) -> list[SimulationConfig]:
        """The configurations of the first so many seeds, by default those of its table."""
        return [with_seed(self.config, seed) for seed in range(number or SEEDS[self.table])]


@dataclass(frozen=True)
class Row:
    """A cell and what its runs give. scores: of each run, on the cell's platform. strict, relaxed: over these; relaxed
    counts each overlap, many to many. one_to_one: the other reading of relaxed."""

    cell: Cell
    runs: tuple[Run, ...] = ()
    scores: tuple[EntityScores, ...] = ()
    strict: ScoreSpread | None = None
    relaxed: ScoreSpread | None = None
    one_to_one: ScoreSpread | None = None


def with_seed(config: SimulationConfig, seed: int) -> SimulationConfig:
    """The configuration with another seed, which also says how corpora without parts of their own are split."""
    names = [base_name_and_split(name) for name in config.corpus.split(JOIN)]
    corpus = JOIN.join(base if split is None else f"{base}{SPLIT}{seed}" for base, split in names)
    return replace(config, corpus=corpus, seed=seed)


def corpus_of(platform: str) -> str:
    """Its name, split by seed 0 where it is split by seed."""
    return f"{platform}{SPLIT}0" if platform in _SPLIT_BY_SEED else platform


def setting(corpus: str, tagger: str = TAGGER, share: float = 1.0) -> SimulationConfig:
    """What section 4.1 prints, without noise. share: of the training sentences."""
    return SimulationConfig(
        corpus=corpus,
        data_fraction=share,
        features="contextual" if KINDS[tagger].in_context else "vectors",
        tagger=TaggerConfig(name=tagger, hidden_size=200, dropout=0.2, well_formed=True),
        training=TrainingConfig(
            optimiser="adam", learning_rate=0.001, batch_size=64, epochs=EPOCHS[share], loss="sum", averaging=0.98
        ),
        privacy=PrivacyConfig(noise_multiplier=0.0),
    )


def federated(tagger: str = TAGGER, share: float = 1.0, shared: str | None = None) -> SimulationConfig:
    """All platforms together, by Eq. 2. shared: parts of the tagger, by default the paper's choice."""
    if shared is None:
        shared = paper_split(tagger)
    federation = FederationConfig(clients=len(PLATFORMS), schedule="gradients", shared=shared)
    return replace(setting(JOIN.join(map(corpus_of, PLATFORMS)), tagger, share), federation=federation)


def paper_split(tagger: str) -> str:
    """What section 3.2 shares of a tagger: all below its first LSTM; of one without LSTM all below its scores, and of
    one that has nothing below its first LSTM that one."""
    parts = splits_of(tagger)
    below = [part for part in parts if part in ("characters", "convolution")]
    return ",".join(below) or parts[0]


def live(
    platforms: Sequence[str], tagger: str, shared: str | None, scope: str, *, parting: bool = False
) -> SimulationConfig:
    """What the page Medical runs while somebody watches, with σ = 1 where there is noise. tagger: :data:`TAGGER`, or
    :data:`SMALL` or :data:`LINEAR`, which learn little more than what a public language model does not know. scope: one
    of :data:`SCOPES`: whom noise protects. parting: whether they go on alone after :data:`TOGETHER` of the steps.
    Raises InvalidConfig."""
    base = federated(TAGGER, shared=shared)
    epochs = _PRIVATE_EPOCHS if scope == SENTENCE else 20.0
    training = replace(base.training, batch_size=_BATCH[scope], epochs=epochs)
    if tagger in _RATES:
        small = TaggerConfig(name=tagger, hidden_size=64, window=1, well_formed=True)
        base = replace(base, tagger=small, training=replace(training, learning_rate=_RATES[tagger], averaging=0.95))
    elif scope == SENTENCE:
        base = replace(base, training=training)
    together = TOGETHER if parting and shared != NOTHING else 1.0
    federation = replace(base.federation, clients=len(platforms), shared=shared, together=together)
    privacy = PrivacyConfig(noise_multiplier=0.0)
    if scope == PLATFORM and shared == NOTHING:
        scope = NOBODY
    if scope == SENTENCE:
        privacy = PrivacyConfig(clip_norm=0.1)
    elif scope == PLATFORM:
        federation = replace(federation, schedule="averaging", rounds=_ROUNDS)
        privacy = PrivacyConfig(clip_norm=1.0, mechanism="secure-sum")
        # Averaged over five rounds, a platform's own part would stand above shared weights that it never learned with.
        training = replace(base.training, epochs=base.training.epochs / _ROUNDS, averaging=0.0)
        base = replace(base, training=training)
    corpus = JOIN.join(map(corpus_of, platforms))
    return replace(base, corpus=corpus, federation=federation, privacy=privacy)


def without_the_others(config: SimulationConfig) -> SimulationConfig:
    """The same where nothing is shared. Who sends nothing needs no noise on what is sent."""
    if config.privacy.kind.client_level:
        config = replace(config, privacy=PrivacyConfig(noise_multiplier=0.0))
    return replace(config, federation=replace(config.federation, shared=NOTHING, together=1.0))


def private(tagger: str, shared: str, scope: str, epsilon: float) -> SimulationConfig:
    """The same on all platforms, with the noise that gives each of them at most this ε, one of :data:`EPSILONS`."""
    base = live(list(PLATFORMS), tagger, shared, scope)
    return replace(base, privacy=replace(base.privacy, noise_multiplier=_NOISE[scope][epsilon]))


def cells() -> list[Cell]:
    """Everything that is measured."""
    return [*_table2(), *_figure3(), *_figure4(), *_figure5(), *_figure6(), *_private()]


@lru_cache(maxsize=1)
def published() -> dict[str, Any]:
    """Title, authors, venue and the numbers of Tables 1 and 2 as printed; figures are pictures alone."""
    found: dict[str, Any] = json.loads((_FOLDER / f"{NAME}.json").read_text(encoding="utf-8"))
    return found


def _printed(method: str, platform: str) -> Mapping[str, float] | None:
    if PLATFORMS[platform] != platform:
        return None
    (row,) = (row for row in published()["table2"] if row["method"] == method and row["corpus"] == platform)
    return {name: value for name, value in row.items() if name not in ("method", "corpus")}


def _all_ways(table: str, **settings: Any) -> Iterable[Cell]:
    """FedNER, its platforms parting or not, and its tagger alone in both meanings, on each platform."""
    share = settings.get("share", 1.0)
    parted = federated(share=share)
    parted = replace(parted, federation=replace(parted.federation, together=TOGETHER))
    for platform in PLATFORMS:
        whole = share == 1.0
        alone = _printed(TAGGER, platform) if whole else None
        together = _printed(FEDERATED, platform) if whole else None
        own = setting(corpus_of(platform), share=share)
        yield Cell(table, TAGGER, platform, {**settings, "trained": ALONE}, alone, own)
        as_often = federated(share=share, shared=NOTHING)
        yield Cell(table, TAGGER, platform, {**settings, "trained": ALONE_AS_OFTEN}, alone, as_often)
        yield Cell(table, FEDERATED, platform, settings, together, federated(share=share))
        yield Cell(table, FEDERATED, platform, {**settings, "trained": PARTED}, None, parted)


def _table2() -> Iterable[Cell]:
    for method in BASELINES:
        for platform in PLATFORMS:
            own = setting(corpus_of(platform), method)
            yield Cell("table2", method, platform, {"trained": ALONE}, _printed(method, platform), own)
    yield from _all_ways("table2")


def _figure3() -> Iterable[Cell]:
    for share in sorted(EPOCHS):
        yield from _all_ways("figure3", share=share)


def _figure4() -> Iterable[Cell]:
    for shared in SPLITS:
        for platform in PLATFORMS:
            yield Cell("figure4", FEDERATED, platform, {"shared": shared}, None, federated(shared=shared))


def _figure5() -> Iterable[Cell]:
    for share in MASKED:
        for platform in PLATFORMS:
            for way, shared in ((ALONE_AS_OFTEN, NOTHING), (FEDERATED, None)):
                base = federated(shared=shared)
                config = replace(base, federation=replace(base.federation, masked=share))
                method = TAGGER if way == ALONE_AS_OFTEN else FEDERATED
                yield Cell("figure5", method, platform, {"masked": share, "trained": way}, None, config)


def _figure6() -> Iterable[Cell]:
    for method in (*BASELINES, TAGGER):
        for platform in PLATFORMS:
            own = setting(corpus_of(platform), method)
            yield Cell("figure6", method, platform, {"trained": ALONE}, None, own)
            yield Cell("figure6", method, platform, {"trained": FEDERATED}, None, federated(method))


def _private() -> Iterable[Cell]:
    """Each sentence protected: with a shared hidden layer, with one for each, and with none at all; FedNER's own
    tagger, whose 1.2 million weights each get noise, at the largest ε alone. Whole platforms: the shared layer, against
    each alone without noise, since who sends nothing spends nothing."""
    kinds = [(SMALL, FEDERATED, SENTENCE), (SMALL, ALONE_AS_OFTEN, SENTENCE), (LINEAR, ALONE_AS_OFTEN, SENTENCE)]
    for tagger, way, scope in (*kinds, (SMALL, FEDERATED, PLATFORM), (TAGGER, FEDERATED, SENTENCE)):
        for epsilon in EPSILONS if tagger != TAGGER else EPSILONS[-1:]:
            shared = {SMALL: "hidden", TAGGER: paper_split(TAGGER)}.get(tagger, NOTHING)
            config = private(tagger, NOTHING if way == ALONE_AS_OFTEN else shared, scope, epsilon)
            for platform in PLATFORMS:
                said = {"protects": scope, "epsilon": epsilon, "trained": way}
                yield Cell("private", tagger, platform, said, None, config)
    silent = live(list(PLATFORMS), SMALL, NOTHING, NOBODY)
    for platform in PLATFORMS:
        yield Cell("private", SMALL, platform, {"protects": NOBODY, "trained": ALONE_AS_OFTEN}, None, silent)


def measure(cell: Cell, find: Callable[[SimulationConfig], Run | None], seeds: int | None = None) -> Row:
    """A cell with what its finished runs give; ``find`` knows them."""
    runs, scores = [], []
    for run in map(find, cell.seeds(seeds)):
        if run and (found := on_platform(run, cell.platform)):
            runs.append(run)
            scores.append(found)
    if not runs:
        return Row(cell)
    overlaps = [each for score in scores if (each := score.many_to_many_ratios)]
    return Row(
        cell,
        tuple(runs),
        tuple(scores),
        strict=score_spread(PrecisionRecallF1(each.precision, each.recall, each.f1) for each in scores),
        relaxed=score_spread(overlaps) if overlaps else None,
        one_to_one=score_spread(score.relaxed_ratios for score in scores),
    )


def on_platform(run: Run, platform: str) -> EntityScores | None:
    """The test scores of a finished run on one of its platforms."""
    if not run.final:
        return None
    if not run.config.platforms:
        return run.final.test
    places = [base_name_and_split(name)[0] for name in run.config.platforms]
    return run.final.platforms[places.index(platform)].test


def gain(one: Row, other: Row) -> PairedDifference | None:
    """By how much strict F1 of ``one`` is above that of ``other``, seed by seed; None where fewer than two seeds have
    both."""
    found = differences(one, other)
    return paired_difference(found) if len(found) > 1 else None


def differences(one: Row, other: Row) -> list[float]:
    """The same of each seed that both have."""
    mine, theirs = (
        {run.config.seed: score.f1 for run, score in zip(row.runs, row.scores, strict=True)} for row in (one, other)
    )
    return [mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())]


def gains(rows: Sequence[Row]) -> list[tuple[Row, Row, PairedDifference]]:
    """Of each row within FedNER, each of the same table that differs from it in having been trained alone, and the gain
    over that one."""
    found = []
    for row in rows:
        if row.cell.setting.get("trained") in _ALONE:
            continue
        for other in rows:
            if other.cell.setting.get("trained") in _ALONE and _like(row.cell, other.cell):
                difference = gain(row, other)
                found += [(row, other, difference)] if difference else []
    return found


def _like(one: Cell, other: Cell) -> bool:
    mine, theirs = ({name: value for name, value in cell.setting.items() if name != "trained"} for cell in (one, other))
    if mine.get("protects") == PLATFORM:
        mine = {"protects": NOBODY}  # who sends nothing needs no noise on it
    same_tagger = other.method == (TAGGER if one.method == FEDERATED else one.method)
    return one.table == other.table and one.platform == other.platform and mine == theirs and same_tagger


def what(cell: Cell) -> str:
    """The method and what it varies, in a few words."""
    told = ["FedNER" if cell.method == FEDERATED else KINDS[cell.method].short]
    for name, value in cell.setting.items():
        if name == "trained":
            if value != FEDERATED:
                told.append(str(value))
            elif cell.method != FEDERATED:
                told.append("within FedNER")
        elif name == "share":
            told.append(f"{100 * value:.0f} % of the sentences")
        elif name == "epsilon":
            told.append(f"ε = {value:g} for each {cell.setting['protects']}")
        elif name == "protects":
            told += ["no noise"] if value == NOBODY else []
        elif name == "masked":
            told.append(f"{100 * value:.0f} % masked")
        else:
            told.append("nothing shared" if value == NOTHING else f"shared: {value.replace(',', ', ')}")
    return ", ".join(told)


def share_printed(seconds: Mapping[str, float]) -> float:
    """What of the seconds of Table 2's rows, by :func:`what` they are, goes to those that the paper has."""
    printed = [took for method, took in seconds.items() if not method.endswith((ALONE_AS_OFTEN, PARTED))]
    return sum(printed) / sum(seconds.values())


def wanted(seeds: int | None = None, tables: Sequence[str] = tuple(TABLES)) -> list[SimulationConfig]:
    """The runs behind all cells of some tables, the first seed of everything first."""
    every = [pair for cell in cells() if cell.table in tables for pair in enumerate(cell.seeds(seeds))]
    return list(dict.fromkeys(config for _, config in sorted(every, key=lambda pair: pair[0])))
