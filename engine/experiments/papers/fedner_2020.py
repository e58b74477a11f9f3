"""Replication of Table 2 and Figures 3 to 6 of FedNER (Ge et al. 2020): configuration, reported and measured scores.

The paper is *FedNER: Privacy-preserving Medical Named Entity Recognition with Federated Learning*. There are three
clients (silos): ADE Corpus V2, as in the paper, PsyTAR instead of CADEC, and BC5CDR instead of SMM4H, since those two
corpora may not be redistributed. A seed determines the randomness of training and, as in section 4.1, the 80/20 split
of ADE and PsyTAR; BC5CDR has its standard split. Weights are averaged over the last steps, and training runs until they
converge.

Training *alone* can mean two things. With batches of 64, the usual comparison, a client updates its weights per epoch a
third as often as in a federation of three, whose batches of 64 are divided among the clients. Alone *with as many
updates*, it has the steps, batches and sentences of the federation, and shares nothing.

Beyond the paper: clients train together at first and *then alone*, each from the shared weights.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.config import JOIN, NOTHING, FederationConfig, PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.corpus.files import SPLIT, base_name_and_split
from engine.taggers import KINDS, splits_of

NAME = "fedner"
PLATFORMS = {"ade": "ade", "psytar": "cadec", "bc5cdr": "smm4h"}
"""Our corpora by name, with the paper's corpora that they replace."""
_SPLIT_BY_SEED = ("ade", "psytar")
BASELINES = tuple(kind.name for kind in KINDS.values() if kind.paper == NAME and not kind.in_context)
"""The methods of section 4.2 without a language model."""
TAGGER = next(kind.name for kind in KINDS.values() if kind.paper == NAME and kind.in_context)
"""FedNER's own tagger, trained alone; it replaces ELMoNER."""
FEDERATED, ALONE, ALONE_AS_OFTEN = "fedner", "alone", "alone, as many updates"
PARTED = "then alone"
TOGETHER = 0.6
"""Share of the steps that are joint before clients train alone; it was not tuned."""
ALONE_SETTINGS = (ALONE, ALONE_AS_OFTEN)
TABLES = {
    "table2": "Methods on three clients",
    "figure3": "Share of the training sentences",
    "figure4": "Shared layers",
    "figure5": "Masking of entities that several silos have",
    "figure6": "Each method alone and within FedNER",
    "private": "Under differential privacy",
}
SEEDS = {"table2": 5, "figure3": 3, "figure4": 3, "figure5": 3, "figure6": 3, "private": 3}
"""Number of seeds of each mean."""
EPOCHS = {1.0: 15.0, 0.5: 22.5, 0.25: 37.5, 0.1: 75.0}
"""Epochs by the share of the training sentences; smaller shares need more epochs to converge as with all sentences."""
SPLITS = (
    NOTHING,
    "characters",
    "characters,convolution",
    "characters,convolution,lstm",
    "characters,convolution,lstm,scores",
)
"""Figure 4: shared layers, from none to a single tagger with all entity types. The third is the paper's choice."""
MASKED = (0.0, 0.5, 1.0)
"""Figure 5: shares of the common entities that are masked."""
SMALL, LINEAR = "mlp-crf", "linear-crf"
"""Taggers of the private rows: a CRF over a frozen public language model, with a hidden layer of 64 or none."""
_RATES = {SMALL: 0.01, LINEAR: 0.05}
"""Learning rates.

That of ``SMALL`` is the better of 0.01 and 0.03 on the validation sets with seed 0 at ε = 1. That of ``LINEAR`` is from
the recommended settings.
"""
UNPROTECTED, SENTENCE, PLATFORM = "nobody", "sentence", "platform"
SCOPES = (UNPROTECTED, SENTENCE, PLATFORM)
"""Protected units: none without noise; each sentence; or a whole client (silo), against all others."""
EPSILONS = (1.0, 3.0, 8.0)
_BATCH = {UNPROTECTED: 128, SENTENCE: 1024, PLATFORM: 128}
_PRIVATE_EPOCHS, _ROUNDS = 30.0, 5
"""Epochs with sentences as protected unit; communication rounds with clients as protected unit."""
_NOISE = {SENTENCE: {1.0: 6.01, 3.0: 2.38, 8.0: 1.21}, PLATFORM: {1.0: 16.69, 3.0: 6.22, 8.0: 2.69}}
"""σ by protected unit and ε; the values are valid for all seeds (tested)."""
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Cell:
    """One number of a table or figure.

    Attributes:
        table: name of the table.
        method: "fedner", or the name of a tagger.
        platform: one of :data:`PLATFORMS`.
        setting: other varied fields.
        published: reported scores; None where the paper's corpus differs or the paper shows a figure only.
        config: configuration of its run, with seed 0.
    """

    table: str
    method: str
    platform: str
    setting: Mapping[str, Any]
    published: Mapping[str, float] | None
    config: SimulationConfig

    def seeds(self, number: int | None = None) -> list[SimulationConfig]:
        """Return the configuration with each of the first seeds, by default those of its table."""
        return [with_seed(self.config, seed) for seed in range(number or SEEDS[self.table])]


def with_seed(config: SimulationConfig, seed: int) -> SimulationConfig:
    """Return the configuration with another seed, which also determines the split of corpora without a standard one."""
    names = [base_name_and_split(name) for name in config.corpus.split(JOIN)]
    corpus = JOIN.join(base if split is None else f"{base}{SPLIT}{seed}" for base, split in names)
    return replace(config, corpus=corpus, seed=seed)


def corpus_of(platform: str) -> str:
    """Return the corpus of a client, with split 0 where the seed determines the split."""
    return f"{platform}{SPLIT}0" if platform in _SPLIT_BY_SEED else platform


def setting(corpus: str, tagger: str = TAGGER, share: float = 1.0) -> SimulationConfig:
    """Return the paper settings (section 4.1), without noise.

    Args:
        corpus: name of the corpus.
        tagger: name of the tagger.
        share: share of the training sentences.
    """
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
    """Return the configuration of all clients together (Eq. 2).

    Args:
        tagger: name of the tagger.
        share: share of the training sentences.
        shared: shared layers, by default the paper's choice.
    """
    if shared is None:
        shared = paper_split(tagger)
    federation = FederationConfig(clients=len(PLATFORMS), schedule="gradients", shared=shared)
    return replace(setting(JOIN.join(map(corpus_of, PLATFORMS)), tagger, share), federation=federation)


def paper_split(tagger: str) -> str:
    """Return the layers that section 3.2 shares: all below the first LSTM.

    Without an LSTM these are all layers below the scores; with nothing below the first LSTM it is that LSTM.
    """
    parts = splits_of(tagger)
    below = [part for part in parts if part in ("characters", "convolution")]
    return ",".join(below) or parts[0]


def live(
    platforms: Sequence[str], tagger: str, shared: str | None, scope: str, *, parting: bool = False
) -> SimulationConfig:
    """Return the configuration of a live run on the page Medical, with σ = 1 where there is noise.

    Args:
        platforms: the clients.
        tagger: :data:`TAGGER`, or :data:`SMALL` or :data:`LINEAR`, which have few weights over a public language model.
        shared: shared layers, None for all.
        scope: protected unit, one of :data:`SCOPES`.
        parting: whether the clients train alone after :data:`TOGETHER` of the steps.

    Raises:
        InvalidConfig: for a combination that is not valid.
    """
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
        scope = UNPROTECTED
    if scope == SENTENCE:
        privacy = PrivacyConfig(clip_norm=0.1)
    elif scope == PLATFORM:
        federation = replace(federation, schedule="averaging", rounds=_ROUNDS)
        privacy = PrivacyConfig(clip_norm=1.0, mechanism="secure-sum")
        # With weights averaged over five rounds, a private head would follow shared layers it was not trained with.
        training = replace(base.training, epochs=base.training.epochs / _ROUNDS, averaging=0.0)
        base = replace(base, training=training)
    corpus = JOIN.join(map(corpus_of, platforms))
    return replace(base, corpus=corpus, federation=federation, privacy=privacy)


def without_the_others(config: SimulationConfig) -> SimulationConfig:
    """Return the configuration with nothing shared; a client that sends nothing needs no client-level noise."""
    if config.privacy.kind.client_level:
        config = replace(config, privacy=PrivacyConfig(noise_multiplier=0.0))
    return replace(config, federation=replace(config.federation, shared=NOTHING, together=1.0))


def private(tagger: str, shared: str, scope: str, epsilon: float) -> SimulationConfig:
    """Return the private configuration on all clients.

    Args:
        tagger: name of the tagger.
        shared: shared layers.
        scope: protected unit, ``SENTENCE`` or ``PLATFORM``.
        epsilon: largest ε of each client, one of :data:`EPSILONS`.
    """
    base = live(list(PLATFORMS), tagger, shared, scope)
    return replace(base, privacy=replace(base.privacy, noise_multiplier=_NOISE[scope][epsilon]))


@cache
def cells() -> tuple[Cell, ...]:
    """Return all cells of all tables."""
    return (*_table2(), *_figure3(), *_figure4(), *_figure5(), *_figure6(), *_private())


@cache
def published() -> dict[str, Any]:
    """Return title, authors, venue and the reported numbers of Tables 1 and 2; the figures have no numbers."""
    paper: dict[str, Any] = json.loads((_FOLDER / f"{NAME}.json").read_text(encoding="utf-8"))
    return paper


def _reported(method: str, platform: str) -> Mapping[str, float] | None:
    if PLATFORMS[platform] != platform:
        return None
    (row,) = (row for row in published()["table2"] if row["method"] == method and row["corpus"] == platform)
    return {name: value for name, value in row.items() if name not in ("method", "corpus")}


def _all_ways(table: str, **settings: Any) -> Iterable[Cell]:
    """Yield for each client FedNER, FedNER *then alone*, and its tagger alone in both meanings."""
    share = settings.get("share", 1.0)
    parted = federated(share=share)
    parted = replace(parted, federation=replace(parted.federation, together=TOGETHER))
    for platform in PLATFORMS:
        whole = share == 1.0
        alone = _reported(TAGGER, platform) if whole else None
        together = _reported(FEDERATED, platform) if whole else None
        own = setting(corpus_of(platform), share=share)
        yield Cell(table, TAGGER, platform, {**settings, "trained": ALONE}, alone, own)
        as_often = federated(share=share, shared=NOTHING)
        yield Cell(table, TAGGER, platform, {**settings, "trained": ALONE_AS_OFTEN}, None, as_often)
        yield Cell(table, FEDERATED, platform, settings, together, federated(share=share))
        yield Cell(table, FEDERATED, platform, {**settings, "trained": PARTED}, None, parted)


def _table2() -> Iterable[Cell]:
    for method in BASELINES:
        for platform in PLATFORMS:
            own = setting(corpus_of(platform), method)
            yield Cell("table2", method, platform, {"trained": ALONE}, _reported(method, platform), own)
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
    """Yield the cells of the private rows.

    With sentence-level privacy these are a shared hidden layer, a hidden layer for each client, no hidden layer, and
    FedNER's own tagger. The last one has 1.2 million weights with noise and is measured at the largest ε only. With
    client-level privacy the shared layer is compared with clients alone without noise, since a client that sends
    nothing spends no ε.
    """
    kinds = [(SMALL, FEDERATED, SENTENCE), (SMALL, ALONE_AS_OFTEN, SENTENCE), (LINEAR, ALONE_AS_OFTEN, SENTENCE)]
    for tagger, way, scope in (*kinds, (SMALL, FEDERATED, PLATFORM), (TAGGER, FEDERATED, SENTENCE)):
        for epsilon in EPSILONS if tagger != TAGGER else EPSILONS[-1:]:
            shared = {SMALL: "hidden", TAGGER: paper_split(TAGGER)}.get(tagger, NOTHING)
            config = private(tagger, NOTHING if way == ALONE_AS_OFTEN else shared, scope, epsilon)
            for platform in PLATFORMS:
                fields = {"protects": scope, "epsilon": epsilon, "trained": way}
                yield Cell("private", tagger, platform, fields, None, config)
    silent = live(list(PLATFORMS), SMALL, NOTHING, UNPROTECTED)
    for platform in PLATFORMS:
        yield Cell("private", SMALL, platform, {"protects": UNPROTECTED, "trained": ALONE_AS_OFTEN}, None, silent)


def what(cell: Cell) -> str:
    """Return the method and its varied fields in a few words, which saved measurements have as keys."""
    parts = ["FedNER" if cell.method == FEDERATED else KINDS[cell.method].short]
    for name, value in cell.setting.items():
        if name == "trained":
            if value != FEDERATED:
                parts.append(str(value))
            elif cell.method != FEDERATED:
                parts.append("within FedNER")
        elif name == "share":
            parts.append(f"{100 * value:.0f} % of the sentences")
        elif name == "epsilon":
            unit = "client" if cell.setting["protects"] == PLATFORM else cell.setting["protects"]
            parts.append(f"ε = {value:g} for each {unit}")
        elif name == "protects":
            parts += ["no noise"] if value == UNPROTECTED else []
        elif name == "masked":
            parts.append(f"{100 * value:.0f} % masked")
        else:
            parts.append("nothing shared" if value == NOTHING else f"shared: {value.replace(',', ', ')}")
    return ", ".join(parts)


def title(text: str) -> str:
    """Return the words of :func:`what`, or of a way of training, as tables and charts show them."""
    text = text.replace("for each client", "for each silo").replace(", within FedNER", ", FedNER")
    if text.endswith(ALONE_AS_OFTEN):
        return f"{text.removesuffix(ALONE_AS_OFTEN)}alone, same number of updates"
    return f"{text}, batches of 64" if text.endswith(ALONE) and not text.endswith(PARTED) else text


def baseline(alone: Cell) -> str:
    """Return a way of training alone with which FedNER is compared; at the silo level it has no noise."""
    unprotected = alone.setting.get("protects") == UNPROTECTED
    return "alone, without noise" if unprotected else title(str(alone.setting["trained"]))


def share_printed(seconds: Mapping[str, float]) -> float:
    """Return the share of Table 2's seconds that its reported rows take; keys of ``seconds`` are from :func:`what`."""
    reported = [taken for method, taken in seconds.items() if not method.endswith((ALONE_AS_OFTEN, PARTED))]
    return sum(reported) / sum(seconds.values())


def wanted(seeds: int | None = None, tables: Sequence[str] = tuple(TABLES)) -> list[SimulationConfig]:
    """Return the configurations of all cells of some tables, the first seed of all cells first."""
    every = [pair for cell in cells() if cell.table in tables for pair in enumerate(cell.seeds(seeds))]
    return list(dict.fromkeys(config for _, config in sorted(every, key=lambda pair: pair[0])))
