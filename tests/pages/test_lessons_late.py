"""Lessons 5 and 7 with default and other control values; each chart shows the guess."""

import re
import time

import pytest
import streamlit as st

from engine.errors import CorpusError
from engine.lessons import federated, fixtures
from engine.lessons.background_task import PollDrivenTask
from engine.lessons.gradient_leakage import NOISE
from engine.lessons.utility_curve import GOOD, PAPER
from pages.learn import guess_markers, lesson_5_fedavg, lesson_5_gradient_leakage, lesson_7_utility
from pages.learn.lesson import MOST_WORDS
from tests.pages.reading import figures, in_sight, words_in

MODULES = (lesson_5_gradient_leakage, lesson_7_utility)
each_lesson = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.LESSON.name)


@pytest.fixture
def drawn(monkeypatch):
    """Return the figures of the lessons in drawing order."""
    figures = []
    for module in (*MODULES, lesson_5_fedavg):
        monkeypatch.setattr(module, "draw", lambda figure, *, key, label: figures.append((figure, label)))
    st.cache_data.clear()
    yield figures
    st.cache_data.clear()


@pytest.fixture
def learn(open_page, with_published):
    """Return a function that opens a lesson with the published runs."""
    return lambda lesson, **fields: open_page("learn", with_published, lesson=lesson, **fields)


def guessed(figure) -> list:
    return [shape for shape in figure.layout.shapes if shape.line.color == guess_markers.GUESS["color"]]


def heading(page) -> str:
    return next(each.value for each in page.markdown if each.value.startswith("####"))


@each_lesson
def test_texts_are_complete_and_short(module):
    lesson = module.LESSON
    assert len(re.findall(r"\w[\w’'^/.]*", f"{lesson.question} {lesson.words}")) <= MOST_WORDS
    assert lesson.simplifies
    for part in ("**Sources.**", "**Pitfalls.**", "**Ask the class.**"):
        assert part in lesson.note


class TestFederated:
    """Gradient leakage, and the live rounds of federated averaging."""

    @pytest.fixture
    def federated_page(self, open_page, lesson_settings):
        return lambda **fields: open_page("learn", lesson_settings, lesson="federated", **fields)

    @staticmethod
    def marks(page) -> str:
        return "".join(each.body for each in page.get("html") if "read-words" in each.body)

    def test_without_noise_every_word_is_recovered(self, federated_page, drawn, lesson_settings):
        page = federated_page(guess="40")
        figure, label = drawn[-1]
        assert figures(heading(page)) == ["20", "20", "7", "7"]
        assert label in heading(page)
        assert [line.y0 for line in guessed(figure)] == [40]
        assert [trace.y[0] for trace in figure.data] == [100, 100, 100]
        assert list(figure.data[0].x) == [f"{sigma:g}" for sigma in NOISE]
        assert all(symbol.endswith("-open") for symbol in (trace.marker.symbol[-1] for trace in figure.data))
        assert "<mark>timetable</mark>" in self.marks(page)
        assert "<span>" not in self.marks(page)
        assert f"{fixtures.load(lesson_settings).weights.size:,} numbers" in lesson_5_gradient_leakage.LESSON.question

    def test_noise_and_secure_aggregation_protect_but_clipping_does_not(self, federated_page, drawn):
        page = federated_page(guess="none", l5_batch="8")
        assert not guessed(drawn[-1][0])
        page.select_slider(key="l5_sigma").set_value(1.0).run()
        assert "the server recovers none" in heading(page)
        assert "<span>" in self.marks(page)
        page.toggle(key="l5_clip").set_value(False).run()
        assert figures(heading(page))[:2] == ["62", "62"]
        assert page.select_slider(key="l5_sigma").disabled
        assert len(drawn[-1][0].data[0].x) == 1
        page.select_slider(key="l5_clients").set_value(50).run()
        assert "the server recovers none" in heading(page)
        page.select_slider(key="l5_clients").set_value(1).run()
        page.select_slider(key="l5_steps").set_value(4).run()
        number_of_words, number_recovered, *_ = figures(heading(page))
        assert number_of_words == number_recovered

    def test_beside_has_all_settings_that_differ_in_one_slider(self):
        here = lesson_5_gradient_leakage.Setting()
        found = lesson_5_gradient_leakage.beside(here)
        assert len(set(found)) == len(found) == 4 + 2 + 5
        assert here not in found
        moved = [[each.sentences != 2, each.steps != 1, each.clients != 1] for each in found]
        assert all(sum(each) == 1 for each in moved)
        assert {each.sentences for each in found[:4]} == {1, 2, 4}  # nearest first

    def test_marked_escapes_html(self):
        shown = lesson_5_gradient_leakage.marked([("<b>", True), ("&", False), ("x", None)])
        assert "<mark>&lt;b&gt;</mark> <span>&amp;</span> x" in shown

    @pytest.fixture
    def short(self, monkeypatch):
        """Shorten the run to two rounds; return the list of the runs that the page has started."""
        runs = []

        class Listed(PollDrivenTask):
            def __init__(self, *arguments):
                super().__init__(*arguments)
                runs.append(self)

        monkeypatch.setattr(federated, "ROUNDS", 2)
        monkeypatch.setattr(lesson_5_fedavg, "ROUNDS", 2)
        monkeypatch.setattr(federated, "PollDrivenTask", Listed)
        federated.live.cache_clear()
        yield runs
        federated.live.cache_clear()

    @staticmethod
    def to_the_end(page, runs):
        """Wait for the run, since a page that runs again and again would slow its training down."""
        assert page.get("progress")
        (run,) = runs
        deadline = time.monotonic() + 300
        while not run.poll().done:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert not page.run().exception
        assert not page.get("progress")
        assert "After 2 rounds" in "".join(each.value for each in page.markdown)
        return page

    @pytest.mark.repeats(area="dashboard")
    def test_rounds_arrive_without_user_action(self, short, federated_page, drawn):
        page = self.to_the_end(federated_page(guess="40", l5_view="Federated averaging", l5_road="50"), short)
        figure, label = drawn[-1]
        home, road, *bars = figure.data
        assert len(home.y) == len(road.y) == 2
        assert [len(each.x) for each in bars] == [20, 20]
        assert sum(bars[1].y) == 0  # owners on the road never take part
        assert sum(bars[0].y) > 0
        assert label in heading(page)
        assert "43,770 weights (175 kB)" in "".join(each.value for each in page.markdown)
        assert words_in(in_sight(page.main)) <= MOST_WORDS

    def test_no_conditions_and_private_head(self, short, federated_page, drawn):
        fields = {"l5_idle": "false", "l5_charging": "false", "l5_wifi": "false", "l5_personal": "true", "l5_road": "0"}
        page = self.to_the_end(federated_page(guess="40", l5_view="Federated averaging", **fields), short)
        assert not page.checkbox(key="l5_wifi").value
        assert [each.name for each in drawn[-1][0].data if each.type == "scatter"] == ["at home"]
        assert "10 of the 40 devices" in "".join(each.value for each in page.markdown)
        assert "43,770" not in "".join(each.value for each in page.markdown)  # the private head is not shared

    def test_failed_run_shows_its_error(self, federated_page, drawn, monkeypatch):
        def fails(*given):
            raise CorpusError("the sentences are gone")
            yield

        monkeypatch.setattr(federated, "play", fails)
        federated.live.cache_clear()
        page = federated_page(guess="40", l5_view="Federated averaging")
        deadline = time.monotonic() + 60
        while not page.error:
            assert time.monotonic() < deadline
            page.run()
        assert "the sentences are gone" in page.error[0].value
        federated.live.cache_clear()


class TestPrice:
    def test_points_are_the_published_runs_of_both_settings(self, learn, drawn):
        page = learn("price", guess="40")
        figure, label = drawn[-1]
        good, paper = (next(trace for trace in figure.data if trace.name == name) for name in (GOOD, PAPER))
        assert len(good.x) == 4
        assert len(paper.x) == 7
        assert list(paper.x) == sorted(paper.x)
        assert max(good.y) < 92
        assert label in heading(page)
        assert figures(heading(page))[:4] == ["1", "87", "100", "90"]
        assert "it finds 90 of 100 entities" in lesson_7_utility.LESSON.question
        assert [line.y0 for line in guessed(figure)] == [40]

    def test_headline_follows_the_acceptable_epsilon(self, learn, drawn):
        page = learn("price", guess="none")
        assert not guessed(drawn[-1][0])
        page.select_slider(key="l7_signed").set_value("0.1").run()
        assert "nothing was measured with the recommended settings" in heading(page)
        assert "a strong guarantee" in "".join(each.value for each in page.markdown)
        page.select_slider(key="l7_signed").set_value("no limit").run()
        assert figures(heading(page))[0] == "90"
        assert "no guarantee at all" in "".join(each.value for each in page.markdown)
        page.segmented_control(key="l7_view").set_value("F1").run()
        assert not page.exception

    def test_link_restores_corpus_and_epsilon(self, learn, drawn):
        page = learn("price", guess="40", l7_corpus="synthetic", l7_signed="8")
        assert not page.exception
        assert page.select_slider(key="l7_signed").value == "8"
        assert drawn

    def test_without_runs_the_headline_says_so(self, open_page, drawn):
        page = open_page("learn", lesson="price", guess="40")
        assert "No run of this lesson is available" in heading(page)
        assert not drawn
