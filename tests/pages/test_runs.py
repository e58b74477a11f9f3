"""The Runs page, run without a browser."""

from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.config import SimulationConfig, run_id
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


def said(elements) -> str:
    return "\n".join(element.value for element in elements)


def test_an_empty_list_says_what_to_do(open_page, settings):
    assert "No runs yet: start one on the page Explore." in said(open_page("runs").markdown)


def test_runs_are_listed_with_what_they_gave(open_page, settings):
    runs = Application(settings)
    stored(runs, 1)
    stored(runs, 2, done=False)
    test = open_page("runs")
    assert "1 queued, 1 done; 1 outdated." in said(test.markdown)
    frame = test.dataframe[0].value
    assert set(frame["state"]) == {"✓ done", "◔ queued"}
    done = frame[frame["seed"] == 1].iloc[0]
    assert done["ε"] == "1.5"
    assert done["set"] == "test"
    assert done["F1"] == pytest.approx(8 / 11)


def test_runs_of_an_older_engine_can_be_found(open_page, older):
    test = open_page("runs", older)
    assert test.dataframe[0].value["engine"].tolist() == ["5 (outdated)"]
    assert "1 published; 1 outdated." in said(test.markdown)
    test.text_input(key="runs_words").set_value("outdated").run()
    assert len(test.dataframe[0].value) == 1


def test_words_and_states_narrow_the_list(open_page, settings):
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
    assert "No matching runs." in said(test.caption)


def test_a_failed_check_is_no_epsilon(open_page, settings):
    app = Application(settings)
    config = replace(SMALL, seed=7)
    identity = run_id(config, "0" * 64)
    app._context.store.submit(identity, config, "0" * 64)
    claim = app._context.store.claim(identity, "me/1")
    app._context.store.append(claim, record(2, faults=("The noise is not there.",)))
    app._context.store.finish(claim, provenance())
    assert open_page("runs").dataframe[0].value["ε"].tolist() == ["✗ check"]


class TestTheDoor:
    def test_a_run_is_deleted_with_all_that_belongs_to_it(self, settings):
        app = Application(settings)
        identity = stored(app, 1)
        app.runs.write_note(identity, "  look at this  ")
        assert app.queries.overview()[0].note == "look at this"
        app.runs.delete(identity)
        assert app.queries.overview() == []
        assert app._context.store.notes() == {}

    def test_an_empty_note_removes_it(self, settings):
        app = Application(settings)
        identity = stored(app, 1)
        app.runs.write_note(identity, "a")
        app.runs.write_note(identity, "")
        assert app.queries.overview()[0].note == ""

    def test_a_run_that_is_taken_up_again_shows_its_newest_record(self, settings):
        app = Application(settings)
        identity = stored(app, 1, done=False)
        claim = app._context.store.claim(identity, "me/1")
        app._context.store.append(claim, record(0))
        assert app.queries.overview()[0].last_record == record(0)
        app._context.store.append(claim, record(1))
        assert app.queries.overview()[0].last_record == record(1)

    def test_thousands_of_runs_are_listed(self, settings):
        app = Application(settings)
        for seed in range(1500):
            stored(app, seed, done=False)
        found = app.queries.overview()
        assert len(found) == 1500
        assert sorted(each.run.status.queue_place or 0 for each in found) == list(range(1, 1501))
        assert len(listing.matching(found, "seed=7", (), None)) == 1

    def test_a_published_run_cannot_be_deleted(self, settings):
        from engine.errors import InvalidConfig
        from engine.service import Application as Door

        real = replace(settings, published=Path(__file__).resolve().parents[2] / "cached_results")
        app = Door(real)
        identity = next(run.run_id for run in app.queries.published())
        with pytest.raises(InvalidConfig, match="is published"):
            app.runs.delete(identity)
        assert app.queries.get(identity)


def test_a_link_leads_back_to_the_configuration():
    from pages.shared import address

    config = SimulationConfig.from_flat({"clients": 5, "mechanism": "local", "seed": 3})
    fields = dict(part.split("=") for part in address.link(config).removeprefix("./?").split("&"))
    found, problems = address.read(fields, {"synthetic"})
    assert problems == []
    assert found == config


def test_what_taggers_take_is_shown_and_can_be_removed(open_page, settings):
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


def test_a_run_that_was_run_again_says_what_came_of_it(open_page, settings, monkeypatch):
    app = Application(settings)
    first = stored(app, 1)
    again = repeat_id(first)
    app._context.store.submit(again, replace(SMALL, seed=1), "0" * 64, kind=RunKind.REPEAT, parent=first)
    claim = app._context.store.claim(again, "me/1")
    for number in range(3):
        app._context.store.append(claim, record(number))
    app._context.store.finish(claim, provenance())
    other = stored(app, 2)
    app._context.store.submit(repeat_id(other), replace(SMALL, seed=2), "0" * 64, kind=RunKind.REPEAT, parent=other)
    claim = app._context.store.claim(repeat_id(other), "me/1")
    app._context.store.append(claim, replace(record(0, of=1), test=scores(5), loss=1.0))
    app._context.store.finish(claim, provenance())
    frame = open_page("runs").dataframe[0].value.set_index("id")
    assert frame["source"].to_dict() == {first: "yours", again: "rerun", other: "yours", repeat_id(other): "rerun"}
    notes = frame["note"].to_dict()
    assert notes[again] == "equal to the last digit"
    assert notes[repeat_id(other)].startswith("F1 +0.1")
    assert notes[first] == notes[other] == ""


class TestNoting:
    @pytest.fixture
    def kept(self):
        return []

    @pytest.fixture
    def dialog(self, kept):
        """The dialog for two runs, of which the first has a note."""

        def script(kept):
            from types import SimpleNamespace

            from pages.runs import actions

            app = SimpleNamespace(runs=SimpleNamespace(write_note=lambda run_id, text: kept.append((run_id, text))))
            actions.note(app, ["a", "b"], "before")

        return AppTest.from_function(script, kwargs={"kept": kept}).run()

    def test_what_was_there_can_be_changed_on_several_runs(self, dialog, kept):
        assert dialog.text_area[0].value == "before"
        dialog.text_area[0].set_value("look at this").run()
        dialog.button(key="keep_note").click().run()
        assert kept == [("a", "look at this"), ("b", "look at this")]

    def test_what_is_too_long_is_said_and_nothing_is_lost(self, dialog, kept):
        dialog.text_area[0].set_value("x" * 6_000).run()
        assert "has 6,000 characters; the maximum is 2,000" in dialog.error[0].value
        assert dialog.button(key="keep_note").disabled
        assert dialog.text_area[0].value == "x" * 6_000
        assert kept == []

    def test_it_can_be_left(self, dialog, kept):
        dialog.button(key="keep_no_note").click().run()
        assert not dialog.exception
        assert kept == []


class TestOlderRuns:
    """With a list of two rows, of three runs that are looked through at once."""

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

    def step(self, page, where: str):
        return next(button for button in page.button if button.key == f"runs_{where}").click().run()

    def test_all_runs_can_be_reached_and_none_comes_twice(self, page):
        assert "Of the newest 3 of 7 runs: 3 done" in said(page.markdown)
        met = [self.seeds(page)]
        for _ in range(4):
            page = self.step(page, "older")
            met.append(self.seeds(page))
        assert met == [[6, 5], [4], [3, 2], [1], [0]]
        assert "Of 1 older runs, of 7 in total: 1 queued" in said(page.markdown)
        assert next(button for button in page.button if button.key == "runs_older").disabled
        assert [self.seeds(self.step(page, "newer")) for _ in range(2)] == [[3, 2], [6, 5]]
        assert next(button for button in page.button if button.key == "runs_newer").disabled

    def test_a_search_goes_on_until_it_finds_one(self, page):
        page.text_input(key="runs_words").set_value("seed=0").run()
        assert "No matching runs." in said(page.caption)
        page = self.step(page, "older")
        assert self.seeds(page) == [0]
        page.text_input(key="runs_words").set_value("seed=5").run()
        assert self.seeds(page) == [5]

    def test_a_search_that_finds_none_says_so_and_stays(self, page):
        page.text_input(key="runs_words").set_value("seed=99").run()
        page = self.step(page, "older")
        assert "No older run matches." in [toast.value for toast in page.toast]
        page.text_input(key="runs_words").set_value("").run()
        assert self.seeds(page) == [6, 5]

    def test_where_all_are_shown_there_is_nothing_to_step_to(self, open_page, settings):
        stored(Application(settings), 1)
        assert not [button for button in open_page("runs").button if button.key in ("runs_older", "runs_newer")]


def test_runs_of_the_same_moment_are_all_there_wherever_the_list_is_cut(settings, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1e9)
    app = Application(settings)
    wanted = {stored(app, seed, done=False) for seed in range(5)}
    met, last = [], None
    while some := app.queries.recent(2, last):
        met += [run.run_id for run in some]
        last = some[-1]
    assert sorted(met) == sorted(wanted)
    assert app.queries.count() == 5
