"""Page Replication of Jana & Biemann 2021, without a browser."""

from dataclasses import replace

import pytest

from engine import corpus
from engine.config import engine_version, run_id
from engine.experiments.papers import jana_biemann_2021 as tables
from engine.experiments.seed_aggregates import engine_of, older_text, over_seeds
from engine.records import RunKind
from engine.reports import paper_tables as reports
from engine.service import Application
from engine.service.reproducibility import repeat_id
from engine.service.run_service import RunService
from pages.paper import discussion
from pages.paper import tables as paper
from tests.engine.experiments.papers.test_jana_biemann_2021 import run_of
from tests.engine.factories import provenance, record
from tests.pages.reading import figures, open_tab


def test_reported_scores_are_shown_before_any_run(open_page):
    test = open_page("paper")
    assert [tab.label for tab in test.tabs] == [f"Table {number}" for number in range(1, 7)]
    assert test.dataframe[0].value["reported F1"].tolist() == [0.916, 0.864]
    buttons = []
    for number in range(1, 7):
        open_tab(test, "paper_table", f"Table {number}")
        assert len(test.dataframe) == 1 + (number in (2, 6))  # and counterfactual runs
        text = "\n".join(element.value for element in test.markdown)
        assert text.count("The paper's conclusion") == 1
        assert "No run of this table is finished yet" in text
        buttons += [button.label for button in test.button]
    assert "Start missing runs of this table (10 runs)" in buttons
    assert "Start missing runs of this table (5 runs)" in buttons  # the five rows of table 4 are one run


def test_finished_runs_can_be_rerun_and_the_result_is_shown(open_page, settings, monkeypatch):
    (cell,) = (c for c in tables.cells(corpus="synthetic") if c.table == "table3" and c.config.federation.clients == 2)
    app = Application(settings)
    checksum = corpus.resolve("synthetic", settings).checksum
    first = run_id(cell.config, checksum)
    for identity in (first, repeat_id(first)):
        kind = RunKind.RUN if identity == first else RunKind.REPEAT
        app._context.store.submit(identity, cell.config, checksum, kind=kind)
        claim = app._context.store.claim(identity, "me/1")
        for number in range(3):
            app._context.store.append(claim, record(number))
        app._context.store.finish(claim, provenance(checksum))
    page = open_page("paper")
    page.selectbox[0].set_value("synthetic")
    open_tab(page, "paper_table", "Table 3")
    assert any(figures(caption.value) == ["1", "1", "1"] for caption in page.caption if "Reruns" in caption.value)
    assert page.dataframe[0].value["reruns"].tolist()[0] == "1 of 1 identical"
    submitted = []
    monkeypatch.setattr(
        RunService,
        "submit_all",
        lambda self, configs, again, owner_pid, unprotected: submitted.append((configs, again)),
    )
    (button,) = (each for each in page.button if each.label == "Rerun this table (1 run)")
    button.click().run()
    assert submitted == [([cell.config], True)]
    app.close()


def test_rows_have_reported_and_measured_f1_and_their_difference():
    (cell,) = (cell for cell in tables.cells() if cell.table == "table2" and cell.config.privacy.noise_multiplier == 5
               and cell.config.tagger.name == "bilstm-crf")  # fmt: skip
    measured = tables.measure(cell, lambda config: run_of(config, 5 + config.seed), 3)
    (row,) = paper.rows([measured], "entity", {})
    assert row["setting"] == "CRF, σ = 5"
    assert row["reported F1"] == 0.802
    assert row["seeds"] == "3"
    assert row["difference"] is None  # another metric than the paper's
    assert row["± sd"] > 0
    assert "tagger=bilstm-crf" in row["run"]
    (row,) = paper.rows([measured], "published", {})
    assert row["difference"] == pytest.approx(row["F1"] - 0.802)
    figure = paper.picture([measured], "published", key="k")
    assert list(figure.data[0].y) == [0.802]
    assert measured.found.token is not None
    assert list(figure.data[1].y) == [measured.found.token.f1.mean]


def test_seeds_text_counts_outdated_runs():
    (cell,) = (c for c in tables.cells() if c.table == "table5" and c.config.federation.clients == 2)

    def find(config, old=3):
        version = "5" if config.seed < old else engine_version(config)
        return replace(run_of(config, 5), run_id=f"{config.seed}", provenance=provenance(engine_version=version))

    measured = tables.measure(cell, find)
    assert paper.rows([measured], "entity", {})[0]["seeds"] == "5 (3 of engine 5)"
    assert figures(older_text(measured.found.runs))[:3] == ["3", "5", "5"]
    assert "engine 5" in older_text(measured.found.runs)
    assert tables.fields(measured)["outdated"] == ["0", "1", "2"]
    assert "seeds: 5 (3 of engine 5)" in reports.paper_text([measured])
    outdated = tables.measure(cell, lambda config: find(config, 9))
    assert outdated.found.seeds_text == "5 of engine 5"
    assert older_text(outdated.found.runs).startswith("All runs in this table are outdated (engine 5)")
    current = tables.measure(cell, lambda config: find(config, 0))
    assert current.found.seeds_text == "5"
    assert older_text(current.found.runs) == ""
    assert "engine" not in reports.paper_text([current])


def test_non_private_runs_of_engine_5_are_not_outdated():
    (cell,) = (c for c in tables.cells() if c.table == "table3" and c.config.federation.clients == 2)
    run = replace(run_of(cell.config, 5), provenance=provenance(engine_version="5"))
    assert engine_of(run) == ""


@pytest.mark.parametrize("name", ["paper", "frontier", "compare", "diagnose"])
def test_pages_name_the_engine_of_outdated_runs(open_page, engine_5_settings, name):
    test = open_page(name, engine_5_settings)
    for box in [box for box in test.selectbox if box.label == "Corpus"]:
        box.set_value("synthetic").run()
    if name == "paper":
        open_tab(test, "paper_table", "Table 2")
    assert not test.exception
    text = "\n".join(caption.value for caption in test.caption)
    assert "All runs in this table are outdated (engine 5)" in text
    assert any("1 of engine 5" in frame.value["seeds"].tolist() for frame in test.dataframe if "seeds" in frame.value)


def test_each_table_has_a_discussion():
    for table in tables.TABLES:
        measured = [tables.measure(c, lambda config: run_of(config, 5), 1) for c in tables.cells() if c.table == table]
        story = discussion.story(table, [each for each in measured if each.found.runs])
        assert story.concluded
        assert story.why
        assert table in ("table4", "table6") or "Entity-level F1" in story.seen


def test_counterfactual_rows_belong_to_table_2_or_6():
    configs = tables.counterfactuals("synthetic")
    assert paper.counterfactuals("table1", configs) == {}
    assert list(paper.counterfactuals("table2", configs)) == [
        "TDDL, clipped, noise not applied",
        "CRF, clipped, noise not applied",
    ]
    phases = paper.counterfactual_rows(
        [
            (name, over_seeds(config, lambda config: run_of(config, 5), seeds=2))
            for name, config in paper.counterfactuals("table6", configs).items()
        ]
    )
    assert len(phases) == 2
    assert phases[0]["F1, entity-level"] == pytest.approx(1 / 3)
    assert "noise_multiplier=32" in phases[1]["run"]
