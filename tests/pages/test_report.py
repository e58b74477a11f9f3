"""Page Privacy report: the document of a run and its download formats."""

import html
import re
import shutil
from dataclasses import replace

import pytest

from engine.records import Run
from engine.reports.numbers import epsilon_text
from engine.reports.scores import f1_text
from engine.service import Application
from engine.service.run_queries import RunQueries
from tests.engine.reports.runs_published import PLAIN, PRIVATE, SYNTHETIC, paths


@pytest.fixture
def report_settings(settings):
    for path in paths(PRIVATE, PLAIN, SYNTHETIC):
        shutil.copy(path, settings.published)
    return settings


def document_text(test) -> str:
    """Return the text of the document."""
    (body,) = (each.proto.body for each in test.get("html") if '<div class="report">' in each.proto.body)
    return html.unescape(re.sub(r"<[^>]*>", " ", body))


def test_page_without_runs_says_where_to_start_one(open_page):
    test = open_page("report")
    assert "No run is finished yet" in test.caption[0].value
    assert not test.get("download_button")


@pytest.mark.repeats(area="dashboard")
def test_linked_run_has_the_figures_of_explore(open_page, report_settings):
    test = open_page("report", report_settings, run=PRIVATE)
    text = document_text(test)
    last = Application.from_environment().queries.get(PRIVATE).final
    assert f"ε = {epsilon_text(last.privacy.epsilon)}, δ = 1e-5" in text
    assert f1_text(last.test) in text
    assert "Run " + PRIVATE in text
    assert [each.label for each in test.get("download_button")] == ["PDF", "HTML", "JSON", "Markdown"]
    assert "NOT PRIVATE" not in text
    explored = open_page("explore", report_settings, corpus="synthetic", tagger="bilstm-crf", noise_multiplier="0.5")
    link = next(each for each in explored.get("page_link") if each.proto.label == "Report")
    assert link.proto.page.endswith("report")
    headline = explored.markdown[0].value.replace("\\", "").replace("\u00a0", " ")
    epsilon, f1 = re.search(r"ε = ([\d.]+)", headline)[1], re.search(r"F1 ([\d.]+)", headline)[1]
    label = document_text(open_page("report", report_settings, run=SYNTHETIC)).replace("\u00a0", " ")
    assert f"ε = {epsilon}, δ = 1e-5" in label
    assert f"F1 {f1}" in label


def test_two_runs_are_compared_side_by_side(open_page, report_settings):
    test = open_page("report", report_settings, run=PRIVATE, beside=PLAIN)
    assert "two runs side by side" in document_text(test)
    assert test.query_params["beside"] == PLAIN
    test.toggle(key="report_beside").set_value(False).run()
    assert "beside" not in test.query_params
    assert "Run " + PRIVATE in document_text(test)


def test_selecting_another_run_updates_the_link(open_page, report_settings):
    test = open_page("report", report_settings, run=PRIVATE)
    setting = test.selectbox(key="one_setting")
    setting.select_index(next(n for n, title in enumerate(setting.options) if "σ = 0.5" in title)).run()
    assert test.query_params["run"] == SYNTHETIC
    assert "Run " + SYNTHETIC in document_text(test)


def test_failed_noise_check_is_marked(open_page, report_settings, monkeypatch):
    def broken(self, identity: str) -> Run:
        run = next(each for each in self.published() if each.run_id == identity)
        check = replace(run.final.noise_check, faults=("The noise is <b>missing</b>.",))
        return replace(run, records=(*run.records[:-1], replace(run.final, noise_check=check)))

    monkeypatch.setattr(RunQueries, "get", broken)
    test = open_page("report", report_settings, run=PRIVATE)
    text = document_text(test)
    assert text.count("NOT PRIVATE") > 10
    assert "<b>missing</b>" in text


def test_unknown_run_shows_an_error(open_page, report_settings):
    assert "No run has the identity" in open_page("report", report_settings, run="0" * 16).error[0].value
