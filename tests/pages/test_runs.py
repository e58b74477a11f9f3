"""Page Runs, without a browser."""

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from engine.cluster import supervisor
from engine.config import PrivacyConfig, SimulationConfig, run_id
from engine.records import RunKind, RunState
from engine.service import Application
from engine.service.reproducibility import repeat_id
from engine.store import paths
from pages.runs import listing, pagination
from tests.engine.factories import SMALL, provenance, record, scores


def stored(app: Application, seed: int, *, done: bool = True) -> str:
    config = replace(SMALL, seed=seed)
    identity = run_id(config, "0" * 64)
    app._context.store.submit(identity, config, "0" * 64)
    if done:
        claim = app._context.store.claim(identity, "me/1")
        for number in range(3):
            app._context.store.append(claim, record(number))
        app._context.store.finish(claim, provenance())
    return identity


def texts(elements) -> str:
    return "\n".join(element.value for element in elements)


def test_empty_list_says_how_to_start_a_run(open_page, settings):
    assert "No runs yet: start one on the page Explore." in texts(open_page("runs").markdown)


def test_list_has_state_epsilon_and_f1(open_page, settings):
    runs = Application(settings)
    stored(runs, 1)
    stored(runs, 2, done=False)
    test = open_page("runs")
    assert "1 queued, 1 done; 1 outdated." in texts(test.markdown)
    frame = test.dataframe[0].value
    assert set(frame["state"]) == {"✓ done", "◔ queued"}
    done = frame[frame["seed"] == 1].iloc[0]
    assert done["ε"] == "1.5"
    assert done["set"] == "test"
    assert done["F1"] == pytest.approx(8 / 11)


def test_outdated_runs_can_be_filtered(open_page, engine_5_settings):
    test = open_page("runs", engine_5_settings)
    assert test.dataframe[0].value["engine"].tolist() == ["5 (outdated)"]
    assert "1 published; 1 outdated." in texts(test.markdown)
    test.text_input(key="runs_words").set_value("outdated").run()
    assert len(test.dataframe[0].value) == 1


def test_words_and_states_filter_the_list(open_page, settings):
    runs = Application(settings)
    for seed in range(3):
        stored(runs, seed, done=seed > 0)
    test = open_page("runs")
    test.text_input(key="runs_words").set_value("seed=2 tddl").run()
    assert test.dataframe[0].value["seed"].tolist() == [2]
    test.text_input(key="runs_words").set_value("").run()
    test.multiselect(key="runs_states").set_value([RunState.QUEUED]).run()
    assert test.dataframe[0].value["seed"].tolist() == [0]
    test.text_input(key="runs_words").set_value("nowhere").run()
    assert "No matching runs." in texts(test.caption)


def test_failed_noise_check_replaces_epsilon(open_page, settings):
    app = Application(settings)
    config = replace(SMALL, seed=7)
    identity = run_id(config, "0" * 64)
    app._context.store.submit(identity, config, "0" * 64)
    claim = app._context.store.claim(identity, "me/1")
    app._context.store.append(claim, record(2, faults=("The noise is not there.",)))
    app._context.store.finish(claim, provenance())
    assert open_page("runs").dataframe[0].value["ε"].tolist() == ["✗ noise check"]


def test_rerun_without_guarantee_asks_first(settings, monkeypatch):
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    app = Application(settings)
    config = replace(SMALL, privacy=PrivacyConfig(noise_multiplier=0.0))
    store, identity = app._context.store, app.queries.identity(config)
    store.submit(identity, config, app.queries.corpus(config).checksum)
    claim = store.claim(identity, "me/1")
    store.append(claim, record(2))
    store.finish(claim, provenance(app.queries.corpus(config).checksum))
    app.budgets.set_total("synthetic", 2.0)

    def script(app, configs):
        import streamlit as st

        from pages.runs import actions

        if st.button("Rerun", key="rerun"):
            actions.rerun(app, configs)
        if asked := st.session_state.get(actions._DIALOG):  # the test's runs are of the whole script, not of the dialog
            asked()

    test = AppTest.from_function(script, default_timeout=60, kwargs={"app": app, "configs": {identity: config}}).run()
    test.button(key="rerun").click().run()
    assert app.queries.repeated([app.queries.get(identity)]) == {}
    assert test.button(key="rerun_chosen").disabled
    test.checkbox(key="runs_rerun-unprotected").check().run()
    test.button(key="rerun_chosen").click().run()
    (again,) = app.queries.repeated([app.queries.get(identity)]).values()
    assert again.state == RunState.QUEUED
    assert any(access.run == repeat_id(identity) for access in app.budgets.state("synthetic").looks)
    app.close()


class TestService:
    def test_delete_removes_run_and_note(self, settings):
        app = Application(settings)
        identity = stored(app, 1)
        app.runs.write_note(identity, "  look at this  ")
        assert app.queries.overview()[0].note == "look at this"
        app.runs.delete(identity)
        assert app.queries.overview() == []
        assert app._context.store.notes() == {}

    def test_empty_note_removes_the_note(self, settings):
        app = Application(settings)
        identity = stored(app, 1)
        app.runs.write_note(identity, "a")
        app.runs.write_note(identity, "")
        assert app.queries.overview()[0].note == ""

    def test_overview_has_the_newest_record(self, settings):
        app = Application(settings)
        identity = stored(app, 1, done=False)
        claim = app._context.store.claim(identity, "me/1")
        app._context.store.append(claim, record(0))
        assert app.queries.overview()[0].last_record == record(0)
        app._context.store.append(claim, record(1))
        assert app.queries.overview()[0].last_record == record(1)

    @pytest.mark.repeats(area="dashboard")
    def test_overview_lists_1500_runs(self, settings):
        app = Application(settings)
        for seed in range(1500):
            stored(app, seed, done=False)
        runs = app.queries.overview()
        assert len(runs) == 1500
        assert sorted(each.run.status.queue_place or 0 for each in runs) == list(range(1, 1501))
        assert len(listing.matching(runs, "seed=7", (), None)) == 1

    def test_published_run_cannot_be_deleted(self, with_published):
        from engine.errors import InvalidConfig

        app = Application(with_published)
        identity = next(run.run_id for run in app.queries.published())
        with pytest.raises(InvalidConfig, match="is published"):
            app.runs.delete(identity)
        assert app.queries.get(identity)


def test_link_restores_the_configuration():
    from pages.shared import address

    config = SimulationConfig.from_flat({"clients": 5, "mechanism": "local", "seed": 3})
    fields = dict(part.split("=") for part in address.link(config).removeprefix("./explore?").split("&"))
    restored, problems = address.read(fields, {"synthetic"})
    assert problems == []
    assert restored == config


def test_saved_models_can_be_deleted(open_page, settings):
    app = Application(settings)
    first, second = stored(app, 1), stored(app, 2)
    assert not [button for button in open_page("runs").button if button.key == "remove_taggers"]
    for identity in (first, second):
        with settings.artefacts.write(paths.model_name(identity), "The tagger") as path:
            path.write_bytes(bytes(1_250_000))
    page = open_page("runs")
    assert any("the models of 2 runs, 2.5 MB" in caption.value for caption in page.caption)
    next(button for button in page.button if button.key == "remove_taggers").click().run()
    assert app.models.sizes() == {}
    assert app.queries.get(first).records
    assert not [button for button in open_page("runs").button if button.key == "remove_taggers"]


def test_rerun_notes_its_difference(open_page, settings, monkeypatch):
    app = Application(settings)
    first = stored(app, 1)
    rerun_id = repeat_id(first)
    app._context.store.submit(rerun_id, replace(SMALL, seed=1), "0" * 64, kind=RunKind.REPEAT, parent=first)
    claim = app._context.store.claim(rerun_id, "me/1")
    for number in range(3):
        app._context.store.append(claim, record(number))
    app._context.store.finish(claim, provenance())
    other = stored(app, 2)
    app._context.store.submit(repeat_id(other), replace(SMALL, seed=2), "0" * 64, kind=RunKind.REPEAT, parent=other)
    claim = app._context.store.claim(repeat_id(other), "me/1")
    app._context.store.append(claim, replace(record(0, of=1), test=scores(5), loss=1.0))
    app._context.store.finish(claim, provenance())
    frame = open_page("runs").dataframe[0].value.set_index("id")
    assert frame["source"].to_dict() == {first: "yours", rerun_id: "rerun", other: "yours", repeat_id(other): "rerun"}
    notes = frame["note"].to_dict()
    assert notes[rerun_id] == "equal to the last digit"
    assert notes[repeat_id(other)].startswith("F1 +0.1")
    assert notes[first] == notes[other] == ""


class TestNoteDialog:
    @pytest.fixture
    def saved_notes(self):
        return []

    @pytest.fixture
    def dialog(self, saved_notes):
        """Return the note dialog for two runs, the first of which has a note."""

        def script(saved_notes):
            from types import SimpleNamespace

            from pages.runs import actions

            app = SimpleNamespace(
                runs=SimpleNamespace(write_note=lambda run_id, text: saved_notes.append((run_id, text)))
            )
            actions.note(app, ["a", "b"], "before")

        return AppTest.from_function(script, default_timeout=600, kwargs={"saved_notes": saved_notes}).run()

    def test_note_can_be_changed_on_several_runs(self, dialog, saved_notes):
        assert dialog.text_area[0].value == "before"
        dialog.text_area[0].set_value("look at this").run()
        dialog.button(key="keep_note").click().run()
        assert saved_notes == [("a", "look at this"), ("b", "look at this")]

    def test_too_long_note_shows_an_error_and_keeps_the_text(self, dialog, saved_notes):
        dialog.text_area[0].set_value("x" * 6_000).run()
        assert "has 6,000 characters; the maximum is 2,000" in dialog.error[0].value
        assert dialog.button(key="keep_note").disabled
        assert dialog.text_area[0].value == "x" * 6_000
        assert saved_notes == []

    def test_dialog_can_be_cancelled(self, dialog, saved_notes):
        dialog.button(key="keep_no_note").click().run()
        assert not dialog.exception
        assert saved_notes == []


class TestPagination:
    """Pagination with two rows a page and three runs a query."""

    @pytest.fixture
    def page(self, open_page, settings, monkeypatch):
        monkeypatch.setattr(pagination, "ROWS", 2)
        monkeypatch.setattr(pagination, "LOOKED_AT", 3)
        runs = Application(settings)
        for seed in range(7):
            stored(runs, seed, done=seed > 0)
        return open_page("runs")

    def seeds(self, page) -> list[int]:
        return page.dataframe[0].value["seed"].tolist()

    def step(self, page, direction: str):
        return next(button for button in page.button if button.key == f"runs_{direction}").click().run()

    def test_each_run_is_on_exactly_one_page(self, page):
        assert "Newest 3 of 7 runs: 3 done" in texts(page.markdown)
        listed = [self.seeds(page)]
        for _ in range(4):
            page = self.step(page, "older")
            listed.append(self.seeds(page))
        assert listed == [[6, 5], [4], [3, 2], [1], [0]]
        assert "1 older runs of 7 in total: 1 queued" in texts(page.markdown)
        assert next(button for button in page.button if button.key == "runs_older").disabled
        assert [self.seeds(self.step(page, "newer")) for _ in range(2)] == [[3, 2], [6, 5]]
        assert next(button for button in page.button if button.key == "runs_newer").disabled

    def test_search_continues_until_a_match(self, page):
        page.text_input(key="runs_words").set_value("seed=0").run()
        assert "No matching runs." in texts(page.caption)
        page = self.step(page, "older")
        assert self.seeds(page) == [0]
        page.text_input(key="runs_words").set_value("seed=5").run()
        assert self.seeds(page) == [5]

    def test_search_without_match_shows_a_toast_and_stays(self, page):
        page.text_input(key="runs_words").set_value("seed=99").run()
        page = self.step(page, "older")
        assert "No older run matches." in [toast.value for toast in page.toast]
        page.text_input(key="runs_words").set_value("").run()
        assert self.seeds(page) == [6, 5]

    def test_single_page_has_no_pagination_buttons(self, open_page, settings):
        stored(Application(settings), 1)
        assert not [button for button in open_page("runs").button if button.key in ("runs_older", "runs_newer")]


def test_runs_with_equal_times_are_all_paginated(settings, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1e9)
    app = Application(settings)
    expected = {stored(app, seed, done=False) for seed in range(5)}
    listed, last = [], None
    while batch := app.queries.recent(2, last):
        listed += [run.run_id for run in batch]
        last = batch[-1]
    assert sorted(listed) == sorted(expected)
    assert app.queries.count() == 5
