"""The cells of the paper's tables: configurations, and means over seeds."""

import math
from dataclasses import replace

import pytest

from engine.config import DEFAULT_CLIP_NORM, SimulationConfig
from engine.experiments.papers import jana_biemann_2021
from engine.experiments.papers.jana_biemann_2021 import Cell
from engine.experiments.seed_aggregates import record_after
from engine.experiments.token_f1 import floor
from engine.records import Counts, EntityScores, FederatedRound, Run, RunState, RunStatus
from tests.engine.factories import record


def test_each_reported_row_is_a_cell() -> None:
    cells = jana_biemann_2021.cells()
    numbers = [sum(cell.table == table for cell in cells) for table in jana_biemann_2021.TABLES]
    assert numbers == [2, 10, 5, 5, 5, 5]
    assert len({cell.config for cell in cells}) == 24  # five rows of tables 4 and 6 are one run each


@pytest.mark.parametrize(
    ("table", "setting", "sigma", "clients", "rounds", "after", "f1"),
    [
        ("table1", {"tagger": "bilstm-crf"}, 0, 1, 1, None, 0.864),
        ("table2", {"tagger": "bilstm-tddl", "noise_multiplier": 50}, 50, 1, 1, None, 0.908),
        ("table3", {"clients": 20}, 0, 20, 1, None, 0.766),
        ("table4", {"data_fraction": 0.4}, 0, 5, 10, 4, 0.797),
        ("table5", {"clients": 2}, 1, 2, 1, None, 0.834),
        ("table6", {"data_fraction": 1.0}, 1, 5, 10, 10, 0.123),
    ],
)
def test_cells_have_the_paper_settings(table, setting, sigma, clients, rounds, after, f1) -> None:
    (cell,) = (cell for cell in jana_biemann_2021.cells() if cell.table == table and cell.setting == setting)
    config = cell.config
    assert (config.privacy.noise_multiplier, config.federation.clients, config.federation.rounds) == (
        sigma,
        clients,
        rounds,
    )
    assert (cell.round, cell.published["f1"]) == (after, f1)
    assert (config.training.learning_rate, config.training.batch_size, config.training.epochs) == (0.15, 32, 10)
    assert config.privacy.clip_norm == (DEFAULT_CLIP_NORM if sigma else None)


def scored(correct: int) -> EntityScores:
    token = {"O": Counts(80, 90, 80), "B-PER": Counts(correct, 10, 20)}
    return EntityScores(strict={"PER": Counts(correct, 10, 20)}, relaxed={}, token=token)


def run_of(config: SimulationConfig, correct: int, epsilon: float = 1.0) -> Run:
    last = record(2, epsilon=epsilon)
    return Run(
        run_id=str(config.seed), config=config, status=RunStatus(run_id="a", state=RunState.DONE),
        records=(record(0), record(1), replace(last, test=scored(correct))),
    )  # fmt: skip


def cell_of(**more) -> Cell:
    return Cell("table1", {"tagger": "bilstm-tddl"}, {"f1": 0.9}, SimulationConfig(), **more)


def test_measure_aggregates_the_available_seeds() -> None:
    runs = {0: run_of(SimulationConfig(seed=0), 5), 2: run_of(SimulationConfig(seed=2), 10, epsilon=2.0)}
    row = jana_biemann_2021.measure(cell_of(), lambda config: runs.get(config.seed))
    result = row.found
    # 5 of 10 and 20, then 10 of 10 and 20: F1 1/3 and 2/3.
    assert result.entity is not None
    assert result.entity.f1.mean == pytest.approx(0.5)
    assert result.entity.f1.sd == pytest.approx((1 / 3) / math.sqrt(2))
    assert result.epsilon == 6.0
    assert [run.config.seed for run in result.runs] == [0, 2]
    fields = jana_biemann_2021.fields(row)
    assert fields["seeds"] == [0, 2]
    assert fields["measured"]["f1_mean"] == pytest.approx(0.5)
    # O: 160/170; 20 entities: 2c/(10 + 20); weighted 80 to 20.
    o, first, second = 160 / 170, 10 / 30, 20 / 30
    expected = (0.8 * o + 0.2 * first + 0.8 * o + 0.2 * second) / 2
    assert fields["measured"]["published_metric"]["f1_mean"] == pytest.approx(expected)


def test_floor_is_the_token_f1_without_predicted_entities() -> None:
    # All O: precision 0.8 and recall 1 on O, weighted by 0.8; 0 on entities.
    result = floor(scored(3))
    assert result.precision == pytest.approx(0.64)
    assert result.recall == pytest.approx(0.8)
    assert result.f1 == pytest.approx(0.8 * 2 * 0.8 / 1.8)


def test_record_after_returns_the_record_of_a_round() -> None:
    def phase(number: int) -> FederatedRound:
        return FederatedRound(
            round=number, rounds=3, clients=(0,), failed=(), drift=0.0, update_norms=(), bytes_down=0, bytes_up=0
        )

    run = run_of(SimulationConfig(), 5)
    records = tuple(replace(r, federation=phase(r.round + 1), test=scored(r.round)) for r in run.records)
    run = replace(run, records=records)
    assert record_after(run, 2) == records[1]
    assert record_after(replace(run, records=records[:2]), 2) is None


def test_a_cell_without_runs_is_empty() -> None:
    fields = jana_biemann_2021.fields(jana_biemann_2021.measure(cell_of(), lambda config: None))
    assert fields["measured"] is None
    assert fields["runs"] == []
