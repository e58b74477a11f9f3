"""Page Assumptions: for settings, reported rows and runs, with assumptions in the link."""

import json
import math
from dataclasses import replace

import pytest

from engine.privacy.assumptions import Step, epsilon, printed_row
from engine.reports.assumptions import ledger_epsilon
from engine.reports.numbers import epsilon_text
from engine.service import Application
from engine.service.run_queries import RunQueries
from engine.settings import REPOSITORY
from pages.assumptions import charts, controls


def heading(page) -> str:
    return page.markdown[0].value


def test_heading_has_guaranteed_and_assumed_epsilon(open_page):
    page = open_page("assumptions")
    assert not page.exception
    assert heading(page) == "### Guaranteed: ε = 2.62 at δ = 1e-5."
    page.selectbox(key="sampling-poisson").set_value("none").run()
    page.selectbox(key="neighbours-add-or-remove").set_value("zero-out").run()
    assert not page.exception
    assert "Under your assumptions: ε = 17.9" in heading(page)


def test_reported_row_is_corrected_step_by_step(open_page):
    page = open_page("assumptions", of="Correct a reported ε")
    assert not page.exception
    assert "Guaranteed: ε = 54.4" in heading(page)
    assert "is **at least 6." in page.markdown[1].value
    page.segmented_control(key="row").set_value(5).run()
    assert not page.exception
    assert "σ = 5, with ε = 0.05 reported by" in page.caption[0].value
    assert "Guaranteed: ε = 6.57" in heading(page)


def test_reported_row_with_sigma_0_5_has_epsilon_159():
    row = printed_row(0.5)
    assert ledger_epsilon(epsilon(row, row.promised)) == "ε = 159"


def test_client_level_unit_has_infinite_epsilon(open_page):
    page = open_page("assumptions", clients="4", whole="true")
    assert not page.exception
    assert "Under your assumptions: ε = ∞" in heading(page)


def test_link_restores_assumptions(open_page):
    page = open_page("assumptions", k="10", seed="true")
    assert page.number_input(key="k").value == 10
    assert "Under your assumptions: ε = ∞" in heading(page)


def test_invalid_fields_and_unknown_runs_show_an_error(open_page):
    page = open_page("assumptions", n="100")
    assert "expected at most the 100 sentences of a client" in page.error[0].value
    page = open_page("assumptions", run="0123456789abcdef")
    assert page.error


@pytest.fixture
def published(settings):
    folder = REPOSITORY / "cached_results"
    for path in sorted(folder.glob("synthetic-bilstm-tddl-s2-*.json")):
        run = json.loads(path.read_text())
        if run["records"][-1]["noise_check"] and run["config"]["federation"]["clients"] == 1:
            (settings.published / path.name).write_bytes(path.read_bytes())
            return run
    raise AssertionError("no private run is published")


def test_guaranteed_epsilon_of_a_linked_run_is_that_of_the_run(open_page, published):
    spent = published["records"][-1]["privacy"]["epsilon"]
    page = open_page("assumptions", run=published["run_id"])
    assert not page.exception
    assert not page.error
    assert f"Guaranteed: ε = {epsilon_text(spent)} at δ" in heading(page)
    assert "seed" in page.warning[0].value, "the seed is public"


@pytest.mark.parametrize(
    ("clients", "noise", "fault"),
    [(1, 0.0, ""), (20, 7.01, ""), (3, 16.69, "need its corpus")],
    ids=["no noise", "a federation", "an uneven federation"],
)
def test_runs_of_each_kind_can_be_opened(open_page, with_published, clients, noise, fault):
    app = Application(with_published)
    found = next(
        run
        for run in app.queries.published()
        if (run.config.federation.clients, run.config.privacy.noise_multiplier) == (clients, noise)
    )
    app.close()
    page = open_page("assumptions", with_published, run=found.run_id)
    assert bool(page.error) == bool(fault)
    assert all(fault in error.value for error in page.error)
    last = found.records[-1].privacy
    assert (f"Guaranteed: ε = {epsilon_text(last.epsilon)} at δ" in heading(page)) == (not fault)


def test_failed_noise_check_has_no_epsilon(open_page, published, monkeypatch):
    original = RunQueries.get

    def failed(self, identity):
        run = original(self, identity)
        check = replace(run.records[-1].noise_check, faults=("the noise is too small",))
        return replace(run, records=(*run.records[:-1], replace(run.records[-1], noise_check=check)))

    monkeypatch.setattr(RunQueries, "get", failed)
    page = open_page("assumptions", run=published["run_id"])
    assert "failed its noise check, so it has no privacy guarantee" in page.error[0].value
    assert "No ε can be computed" in heading(page)


@pytest.mark.parametrize(
    ("fields", "first"), [({}, controls.BY_RDP), ({"of": controls.PRINTED}, controls.REPORTED)], ids=["own", "paper"]
)
def test_first_bar_is_reported_only_if_a_paper_reported_it(open_page, fields, first):
    page = open_page("assumptions", **fields)
    assert not page.exception
    assert any(caption.value.startswith(controls.FIRST_BAR[first]) for caption in page.caption)


def test_waterfall_bars_are_stacked():
    steps = [
        Step(assumption="", choice="reported", epsilon=1.0),
        Step(assumption="delta", choice="1e-6", epsilon=2.0),
    ]
    steps += [
        Step(assumption="seed", choice="known", epsilon=math.inf),
        Step(assumption="unit", choice="2", epsilon=None),
    ]
    figure = charts.waterfall(steps, key="a")
    first, second, third, fourth = figure.data
    assert first.base + first.y[0] == pytest.approx(second.base)
    assert second.base + second.y[0] == pytest.approx(third.base)
    assert [bar.text.replace("<b>", "").replace("</b>", "") for bar in figure.data] == ["1", "2", "∞", "?"]
    assert fourth.hovertext.endswith("no valid ε is known")


OLD_SOURCE = "A printed row, set\N{SPACE}right"
"""A value in links of version 0.7.0; its last two words are on the list of banned phrases."""


@pytest.mark.parametrize(
    ("old", "current"),
    [
        ({"of": OLD_SOURCE}, {"of": "Correct a reported ε"}),
        (
            {"neighbours-add-or-remove": "one sentence exchanged for another"},
            {"neighbours-add-or-remove": "replace one sentence"},
        ),
        (
            {"sampling-poisson": "fixed batches, sampling trusted for nothing"},
            {"sampling-poisson": "shuffled batches, no amplification by subsampling"},
        ),
    ],
    ids=["source", "adjacency", "sampling"],
)
def test_links_of_version_0_7_0_select_the_same_options(open_page, old, current):
    selected = heading(open_page("assumptions", **old))
    assert selected == heading(open_page("assumptions", **current))
    assert selected != heading(open_page("assumptions"))
