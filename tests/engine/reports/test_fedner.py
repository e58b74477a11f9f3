"""Findings on FedNER's figures, computed from made-up rows with known differences."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from engine.config import NOTHING, SimulationConfig
from engine.experiments.papers import fedner_2020, fedner_2020_scores
from engine.records import Run
from engine.reports import fedner
from tests.engine.experiments.papers.test_fedner_2020 import run
from tests.engine.factories import provenance

NAMES = list(fedner_2020.PLATFORMS)
ONLY_COUNTS = 2
"""Number of sentences without results: that there is no result, and the number of runs."""


def rows(known: Mapping[SimulationConfig, tuple[int, ...]], seeds: int = 1) -> list[fedner_2020_scores.Row]:
    """Return the rows of all cells: ``known`` gives the correct entities of 10 on each client, plus one per seed."""
    found = {}
    for config, right in known.items():
        for seed in range(seeds):
            each = fedner_2020.with_seed(config, seed)
            names = each.platforms or (each.corpus,)
            found[each] = run(each, {name: number + seed for name, number in zip(names, right, strict=True)})
    return [fedner_2020_scores.measure(cell, found.get) for cell in fedner_2020.cells()]


def with_time(made: Run, seconds: float, machine: str) -> Run:
    return replace(made, provenance=replace(provenance(), wall_seconds=seconds, machine=machine))


@pytest.mark.parametrize("table", fedner_2020.TABLES)
def test_without_runs_there_is_no_result(table: str) -> None:
    nothing, number = fedner.verdict(rows({}), table)
    assert nothing == fedner.NOTHING_YET
    wanted = len(fedner_2020.wanted(tables=[table]))
    assert number.startswith(f"0 of {wanted} runs ")
    assert f"{wanted} are missing" in number
    assert ("figure has no numbers" in number) == table.startswith("figure")


def test_table_2_splits_the_gain_into_more_updates_and_sharing() -> None:
    own = {fedner_2020.setting(fedner_2020.corpus_of(name)): (3,) for name in NAMES}
    known = own | {fedner_2020.federated(shared=NOTHING): (5, 4, 3), fedner_2020.federated(): (6, 4, 2)}
    often, alone, more, number = fedner.verdict(rows(known), "table2")
    assert all(part in often for part in ("same number of updates", "ADE +10.0 (one seed)", "PsyTAR +0.0 (one seed)"))
    assert all(part in alone for part in ("batches of 64", "ADE +30.0"))
    ours, _, printed = more.partition("paper")
    assert all(part in ours for part in ("ADE +20.0 (one seed)", "PsyTAR +10.0 (one seed)", "BC5CDR +0.0 (one seed)"))
    assert printed.endswith(" ADE +0.95 (81.62 % to 82.57 %).")
    assert all(part in number for part in ("5 of 120 runs", "115 are missing"))
    often, *_ = fedner.verdict(rows(known, seeds=3), "table2")
    assert "ADE +10.0 (95 % CI +10.0 to +10.0, 3 seeds)" in often


def test_the_mean_over_clients_needs_two_common_seeds() -> None:
    known = {fedner_2020.federated(): (7, 6, 8), fedner_2020.federated(shared=NOTHING): (5, 5, 5)}
    first, *_ = fedner.verdict(rows(known, seeds=2), "table2")
    assert first.partition("On average")[2].endswith(" +20.0 (95 % CI +20.0 to +20.0, 2 seeds).")
    assert "On average" not in fedner.verdict(rows(known), "table2")[0]
    alone = fedner_2020.federated(shared=NOTHING)
    several = [
        one if row.cell.platform == "psytar" and row.cell.config.federation.shared == alone.federation.shared else row
        for row, one in zip(rows(known, seeds=2), rows(known), strict=True)
    ]
    first, *_ = fedner.verdict(several, "table2")
    assert "PsyTAR +10.0 (one seed)" in first
    assert "On average" not in first


def test_figure_3_lists_the_shares_at_which_then_alone_gains() -> None:
    known = {}
    for share, right in ((0.1, (6, 6, 6)), (0.5, (6, 4, 6)), (1.0, (5, 5, 5))):
        together = fedner_2020.federated(share=share)
        parted = replace(together, federation=replace(together.federation, together=fedner_2020.TOGETHER))
        known |= {fedner_2020.federated(share=share, shared=NOTHING): (5, 5, 5), together: (7, 5, 4), parted: right}
    *shares, parting, _ = fedner.verdict(rows(known), "figure3")
    assert [each.split(" of the")[0] for each in shares] == [
        f"Gain of FedNER with {share} %" for share in (10, 50, 100)
    ]
    gains = ("ADE +20.0 (one seed)", "PsyTAR +0.0 (one seed)", "BC5CDR −10.0 (one seed)")
    assert all(part in shares[0] for part in gains)
    assert re.search(r" at 10 %, not .* at 50 % and 100 %", parting)
    assert all(part in parting for part in ("(1 seed", "seed variance is unknown"))
    assert "(2 seeds)" in fedner.verdict(rows(known, seeds=2), "figure3")[-2]


def test_figure_4_names_the_best_split_and_compares_it_with_the_papers() -> None:
    known = {fedner_2020.federated(shared=NOTHING): (7, 2, 5), fedner_2020.federated(): (5, 4, 5)}
    ade, psytar, bc5cdr, _ = fedner.verdict(rows(known, seeds=2), "figure4")
    best, _, printed = ade.partition(" over the paper's")
    assert best.startswith("ADE: best with nothing shared, ")
    assert best.endswith(" F1 75.0 %, +20.0 (95 % CI +20.0 to +20.0, 2 seeds)")
    assert all(part in printed for part in ("characters and convolution shared", "(2 of 5 choices"))
    assert psytar.startswith("PsyTAR: best ")
    assert all(
        part in psytar
        for part in ("characters and convolution", ", which is the paper's choice too, F1 45.0 %", "(2 of 5 choices")
    )
    assert bc5cdr.startswith("BC5CDR: best with")
    assert (
        len(fedner.verdict(rows({fedner_2020.federated(): (5, 4, 5)}), "figure4")) == ONLY_COUNTS
    )  # nothing to compare
    uneven = [
        one if row.cell.setting.get("shared") == NOTHING else row
        for row, one in zip(rows(known, seeds=2), rows(known), strict=True)
    ]
    ade, *_ = fedner.verdict(uneven, "figure4")
    assert "F1 70.0" in ade
    assert all(part in ade for part in ("(2 of 5 choices", " 1 seed that all"))


def test_figure_5_has_a_gain_for_each_share_that_is_masked() -> None:
    known = {}
    for share, right in ((0.0, 7), (1.0, 6)):
        for shared, number in ((None, right), (NOTHING, 5)):
            config = fedner_2020.federated(shared=shared)
            config = replace(config, federation=replace(config.federation, masked=share))
            known[config] = (number,) * 3
    none, every, _ = fedner.verdict(rows(known), "figure5")
    assert none.startswith("Gain of FedNER with 0 % ")
    assert "masked" in none
    assert "ADE +20.0" in none
    assert every.startswith("Gain of FedNER with 100 %")
    assert "BC5CDR +10.0" in every


def test_figure_6_counts_the_methods_that_gain() -> None:
    known = {fedner_2020.federated("cnn-crf"): (5, 3, 4), fedner_2020.federated(): (4, 4, 4)}
    for method in ("cnn-crf", fedner_2020.TAGGER, "lstm-crf"):
        known |= {fedner_2020.setting(fedner_2020.corpus_of(name), method): (4,) for name in NAMES}
    ade, psytar, _, absent, _ = fedner.verdict(rows(known), "figure6")
    assert ade.startswith(
        "ADE: 1 of 2 methods gains within FedNER, compared with training alone with batches of 64, 0 of them"
    )
    assert all(part in ade for part in ("significantly", "CNN-CRF +10.0 (one seed), LM-NER +0.0 (one seed)."))
    assert psytar.startswith(
        "PsyTAR: 0 of 2 methods gain within FedNER, compared with training alone with batches of 64, 0"
    )
    assert re.match("No run .*: LSTM-CRF, ", absent)
    assert ", 1 of them" in fedner.verdict(rows(known, seeds=2), "figure6")[0]


def test_private_sharing_is_compared_at_the_same_epsilon_or_without_noise() -> None:
    small, hidden = fedner_2020.SMALL, "hidden"
    known = {
        fedner_2020.private(small, hidden, fedner_2020.SENTENCE, 3.0): (4, 4, 4),
        fedner_2020.private(small, NOTHING, fedner_2020.SENTENCE, 3.0): (5, 4, 3),
        fedner_2020.private(small, hidden, fedner_2020.PLATFORM, 8.0): (2, 3, 4),
        fedner_2020.live(NAMES, small, NOTHING, fedner_2020.SCOPES[0]): (7, 7, 7),
    }
    sentence, platform, _ = fedner.verdict(rows(known), "private")
    assert sentence.startswith("Gain of sharing over training alone at the same ε ")
    assert "(tagger *MLP, CRF*, ε = 3 for each sentence)" in sentence
    gains = ("ADE −10.0 (one seed)", "PsyTAR +0.0 (one seed)", "BC5CDR +10.0 (one seed)")
    assert all(part in sentence for part in gains)
    assert platform.startswith("Gain of sharing over training alone without noise ")
    assert "(tagger *MLP, CRF*, ε = 8 for each silo)" in platform
    losses = ("ADE −50.0 (one seed)", "PsyTAR −40.0 (one seed)", "BC5CDR −30.0 (one seed)")
    assert all(part in platform for part in losses)


def test_wall_time_counts_each_run_once_and_names_the_machines() -> None:
    one, other = (with_time(run(fedner_2020.federated(shared=s), dict.fromkeys(NAMES, 5)), 5400, m) for s, m in TWO)
    found = {one.config: one, other.config: other}
    every = [
        fedner_2020_scores.measure(cell, found.get) for cell in fedner_2020.cells()
    ]  # both belong to several tables
    time = (" 3.0 hours of wall time", " one machine; other machine.")
    assert all(part in fedner.all_time_text(every) for part in (" 2 runs", *time))
    figure = fedner.verdict(every, "figure4")[-1]
    assert all(part in figure for part in ("2 of 15 runs", *time, " 13 are missing"))


TWO = ((NOTHING, "one machine"), (None, "other machine"))
