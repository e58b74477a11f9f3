"""The Ledger page: of settings, of the printed row and of runs, with assumptions in the link."""

import json
import math
from dataclasses import replace

import pytest

from engine.privacy.ledger import Step
from engine.reports.numbers import epsilon_text
from engine.runs import Runs
from engine.settings import REPOSITORY
from pages.ledger import charts


def heading(page) -> str:
    return page.markdown[0].value


def test_what_is_promised_and_what_is_assumed(open_page):
    page = open_page("ledger")
    assert not page.exception
    assert heading(page) == "### Promised: ε = 2.62 at δ = 1e-5."
    page.selectbox(key="sampling-poisson").set_value("none").run()
    page.selectbox(key="neighbours-add-or-remove").set_value("zero-out").run()
    assert not page.exception
    assert "As you assume: ε = 17.9" in heading(page)


def test_the_printed_row_is_set_right_step_by_step(open_page):
    page = open_page("ledger", of="A printed row, set right")
    assert not page.exception
    assert "Promised: ε = 54.4" in heading(page)
    assert "costs **at least ε = 6." in page.markdown[1].value
    page.segmented_control(key="row").set_value(0.5).run()
    assert not page.exception
    assert "σ = 0.5, ε = 3.73 as dp" in page.caption[0].value
    assert "Promised: ε = 159" in heading(page)


def test_of_a_whole_client_nothing_is_promised(open_page):
    page = open_page("ledger", clients="4", whole="true")
    assert not page.exception
    assert "As you assume: ε = ∞" in heading(page)


def test_a_link_restores_assumptions(open_page):
    page = open_page("ledger", k="10", seed="true")
    assert page.number_input(key="k").value == 10
    assert "As you assume: ε = ∞" in heading(page)


def test_what_does_not_fit_is_said(open_page):
    page = open_page("ledger", n="100")
    assert "expected at most the 100 sentences of a client" in page.error[0].value
    page = open_page("ledger", run="0123456789abcdef")
    assert page.error


@pytest.fixture
def published(settings):
    folder = REPOSITORY / "cached_results"
    for path in sorted(folder.glob("synthetic-bilstm-tddl-s*.json")):
        run = json.loads(path.read_text())
        if run["records"][-1]["noise_check"] and run["config"]["federation"]["clients"] == 1:
            (settings.published / path.name).write_bytes(path.read_bytes())
            return run
    raise AssertionError("no private run is published")


def test_the_ledger_of_a_run_promises_what_the_run_does(open_page, published):
    spent = published["records"][-1]["privacy"]["epsilon"]
    page = open_page("ledger", run=published["run_id"])
    assert not page.exception
    assert not page.error
    assert f"Promised: ε = {epsilon_text(spent)} at δ" in heading(page)
    assert "seed" in page.warning[0].value, "it is printed"


def test_of_a_run_that_failed_its_check_nothing_is_promised(open_page, published, monkeypatch):
    real = Runs.get

    def failed(self, identity):
        run = real(self, identity)
        check = replace(run.records[-1].noise_check, faults=("the noise is too small",))
        return replace(run, records=(*run.records[:-1], replace(run.records[-1], noise_check=check)))

    monkeypatch.setattr(Runs, "get", failed)
    page = open_page("ledger", run=published["run_id"])
    assert "failed its noise check, so nothing is promised" in page.error[0].value
    assert "no numbers" in heading(page)


def test_bars_stand_one_on_another():
    steps = [
        Step(assumption="", choice="as printed", epsilon=1.0),
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
    assert fourth.hovertext.endswith("no sound number is known")


@pytest.mark.parametrize("name", ["compare", "diagnose", "frontier", "paper", "planner", "practice", "runs"])
def test_every_table_leads_from_its_eps_to_what_they_rest_on(open_page, settings, name):
    here = replace(settings, published=REPOSITORY / "cached_results")
    page = open_page(name, here)
    assert not page.exception
    tables = [table.value for table in page.dataframe if "ε" in table.value.columns]
    assert tables
    links = [link for table in tables for link in table["ε rests on"].dropna()]
    assert links
    for link in {links[0], links[-1]}:
        opened = open_page("ledger", here, run=link.partition("run=")[2])
        assert not opened.exception
        # Who holds what of an uneven federation stands in its corpus, which is not here.
        assert all("needs its corpus" in error.value for error in opened.error)
