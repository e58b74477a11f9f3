"""Page Learn with two small lessons; the real lessons have their own test files."""

import math
import re
import sys
import threading
import urllib.request
import xml.etree.ElementTree
from dataclasses import replace
from urllib.parse import unquote

import pytest
import segno
import streamlit as st

from engine.lessons.poll import Poll, Question, Tally
from engine.settings import REPOSITORY, Settings
from pages.learn import class_poll, classroom, histogram, qr, url_state
from pages.learn.lesson import MOST_WORDS, Guess, Lesson
from pages.learn.lessons import LESSONS
from pages.learn.url_state import UrlState
from tests.pages.reading import in_sight, words_in

CALLS = []


def one(guess: float | None) -> None:
    known = st.slider("Known", 1, 8, 3, key="l1_known", bind="query-params")
    CALLS.append((guess, known))
    st.markdown(f"known {known}, guess {guess}")


def two(guess: float | None) -> None:
    st.slider("Budget", 1, 8, 3, key="l2_budget", bind="query-params")


FIRST = Lesson(
    name="one",
    about="What it is about.",
    title="The *first*",
    question="How **many**?",
    guess=Guess(label="Share", low=0, high=100, step=5, unit=" %"),
    show=one,
    words="Words of the first.",
    simplifies="It is said too simply.",
    note="A note.",
)
SECOND = replace(
    FIRST,
    name="two",
    title="The second",
    question="How far?",
    guess=Guess(label="Length", low=-1, high=1, step=0.1),
    show=two,
)
BOTH = (FIRST, SECOND)


@pytest.fixture
def learn(open_page, monkeypatch):
    monkeypatch.setattr("pages.learn.lessons.LESSONS", BOTH)
    CALLS.clear()
    return lambda settings=None, **fields: open_page("learn", **({"settings": settings} if settings else {}), **fields)


def headings(test) -> list[str]:
    return [each.value for each in test.markdown if each.value.startswith("###")]


def page_text(test) -> str:
    return "\n".join(each.value for each in [*test.markdown, *test.caption, *test.warning])


def fields(test) -> dict[str, str]:
    return dict(test.query_params.items())


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
class TestEachLesson:
    def test_every_view_has_at_most_120_words(self, lesson, open_page, lesson_settings):
        settings = replace(lesson_settings, published=REPOSITORY / "cached_results")
        page = open_page("learn", settings, lesson=lesson.name)
        assert [button.key for button in page.button].count("guessed") == 1
        asked = list(in_sight(page.main))
        assert lesson.question in asked
        assert words_in(asked) <= MOST_WORDS
        views = sys.modules[lesson.show.__module__].VIEWS
        for view in views:
            chosen = {f"l{LESSONS.index(lesson) + 1}_view": view}
            page = open_page("learn", settings, lesson=lesson.name, guess=f"{lesson.guess.low:g}", **chosen)
            answered = list(in_sight(page.main))
            assert lesson.words in answered
            assert lesson.question not in answered
            assert words_in(answered) <= MOST_WORDS, (view, answered)

    def test_guess_range_is_a_multiple_of_its_step(self, lesson):
        asked = lesson.guess
        assert asked.low < asked.high
        steps = (asked.high - asked.low) / asked.step
        assert steps == pytest.approx(round(steps))

    def test_name_is_unique_and_texts_are_not_empty(self, lesson):
        assert re.fullmatch(r"[a-z][a-z-]*", lesson.name)
        assert lesson.title
        assert lesson.question.strip()
        assert lesson.note.strip()
        assert [each.name for each in LESSONS].count(lesson.name) == 1


class TestFrame:
    def test_overview_lists_all_lessons(self, learn):
        test = learn()
        assert [button.label for button in test.button][:2] == [r"1. The \*first\*", "2. The second"]
        test.button(key="lesson_2").click().run()
        assert headings(test) == ["### 2. The second"]
        assert fields(test) == {"lesson": "two"}

    def test_answer_is_hidden_before_the_guess(self, learn):
        test = learn(lesson="one")
        assert "How **many**?" in page_text(test)
        assert "Words of the first." not in page_text(test)
        assert CALLS == []
        slider = test.slider[0]
        assert (slider.min, slider.max, slider.step, slider.value) == (0, 100, 5, 50)

    def test_guess_reaches_the_chart_and_the_link(self, learn):
        test = learn(lesson="one")
        test.slider[0].set_value(35.0).run()
        test.button(key="guessed").click().run()
        assert CALLS[-1] == (35.0, 3)
        assert "Your guess: **35 %** (share)" in page_text(test)
        assert fields(test) == {"lesson": "one", "guess": "35"}
        assert "Words of the first." in page_text(test)
        assert [each.label for each in test.expander] == [
            "The question",
            "Common simplifications",
            "Teacher's note",
        ]

    def test_question_is_folded_after_the_answer_except_in_class_mode(self, learn):
        assert "How **many**?" in list(in_sight(learn(lesson="one").main))
        folded = learn(lesson="one", guess="35")
        assert "How **many**?" in page_text(folded)
        assert "How **many**?" not in list(in_sight(folded.main))
        assert "How **many**?" in list(in_sight(learn(**{"lesson": "one", "guess": "35", "class": "yes"}).main))

    def test_skipped_guess_shows_the_answer(self, learn):
        test = learn(lesson="one")
        test.button(key="skip").click().run()
        assert CALLS[-1] == (None, 3)
        assert "Your guess" not in page_text(test)
        assert fields(test) == {"lesson": "one", "guess": "none"}

    def test_link_restores_lesson_guess_and_controls(self, learn):
        test = learn(lesson="one", guess="35", l1_known="7")
        assert CALLS[-1] == (35.0, 7)
        assert headings(test) == [r"### 1. The \*first\*"]
        assert fields(test) == {"lesson": "one", "guess": "35", "l1_known": "7"}

    def test_guess_can_be_changed(self, learn):
        test = learn(lesson="one", guess="35")
        test.button(key="again").click().run()
        assert "Words of the first." not in page_text(test)
        assert fields(test) == {"lesson": "one"}

    def test_next_lesson_drops_the_fields_of_the_previous_one(self, learn):
        test = learn(lesson="one", guess="35", l1_known="7")
        assert not [button for button in test.button if button.key == "lesson_back"]
        test.button(key="lesson_next").click().run()
        assert headings(test) == ["### 2. The second"]
        assert fields(test) == {"lesson": "two"}
        assert not [button for button in test.button if button.key == "lesson_next"]
        test.button(key="lesson_back").click().run()
        assert CALLS[-1][0] == 35.0
        assert fields(test)["guess"] == "35"
        test.button(key="lesson_all").click().run()
        assert fields(test) == {}
        assert test.button(key="lesson_1").icon == ":material/check:"

    @pytest.mark.parametrize("guess", ["101", "-1", "nan", "inf", "", "<b>", "1e999"])
    def test_invalid_guess_in_a_link_shows_a_warning(self, learn, guess):
        test = learn(lesson="one", guess=guess)
        assert "invalid" in test.warning[0].value
        assert "expected a number from 0 to 100" in test.warning[0].value
        assert CALLS == []

    def test_unknown_lesson_in_a_link_shows_a_warning(self, learn):
        test = learn(lesson="nine")
        assert "unknown lesson" in test.warning[0].value
        assert len([button for button in test.button if re.fullmatch(r"lesson_\d", button.key)]) == 2


@pytest.mark.parametrize(
    "state",
    [
        UrlState(),
        UrlState(in_class=True),
        UrlState(lesson=FIRST),
        UrlState(lesson=SECOND, answered=True, guess=-0.3, in_class=True),
        UrlState(lesson=FIRST, answered=True),
    ],
)
def test_link_restores_its_state(state):
    assert url_state.read(state.fields(), BOTH) == (state, [])


class TestClassMode:
    def test_class_mode_stays_on_between_lessons(self, learn):
        test = learn(lesson="one", guess="35")
        test.button(key="class_mode").click().run()
        assert fields(test) == {"lesson": "one", "guess": "35", "class": "yes"}
        assert any("stHeader" in each.proto.body for each in test.get("html"))
        test.button(key="lesson_next").click().run()
        assert fields(test) == {"lesson": "two", "class": "yes"}
        test.button(key="class_mode").click().run()
        assert fields(test) == {"lesson": "two"}
        assert not any(
            "stHeader" in each.proto.body for each in test.get("html") if "font-size: 20px" in each.proto.body
        )

    def test_local_link_has_a_caption_and_no_qr_code(self, learn):
        test = learn(**{"lesson": "one", "class": "yes"})
        assert "opens on this machine only" in page_text(test)
        assert "EPSILON_POLL_ADDRESS=8600" in page_text(test)
        assert not any('class="qr"' in each.proto.body for each in test.get("html"))

    @pytest.mark.parametrize(
        ("address", "is_local"),
        [
            ("http://localhost:8501/learn", True),
            ("http://127.0.0.1:8501/", True),
            ("http://[::1]:8501/", True),
            ("http://x.localhost/", True),
            ("http://192.168.1.5:8501/learn", False),
            ("https://school.example/learn", False),
        ],
    )
    def test_on_this_machine_recognises_local_hosts(self, address, is_local):
        assert classroom.on_this_machine(address) == is_local

    def test_qr_code_holds_the_link(self):
        link = 'http://192.168.1.5:8600/?a="b"&c=<d>'
        found = xml.etree.ElementTree.fromstring(qr.image(link).removesuffix(">") + "/>")
        assert found.get("alt") == f"QR code of {link}"
        drawn = xml.etree.ElementTree.fromstring(unquote(found.get("src").split(",", 1)[1]))
        assert drawn.tag.endswith("svg")
        code = segno.make(link, error="m", micro=False, boost_error=False)
        assert drawn.get("viewBox").split()[2] == str((code.symbol_size(border=4)[0]) * 8)


class TestPoll:
    @pytest.fixture
    def poll_settings(self, settings: Settings, unused_tcp_port: int) -> Settings:
        return replace(settings, poll=("127.0.0.1", unused_tcp_port))

    @pytest.fixture
    def unused_tcp_port(self) -> int:
        import socket

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def test_without_the_setting_there_is_no_poll_and_no_button(self, learn):
        test = learn(**{"lesson": "one", "class": "yes"})
        assert not [button for button in test.button if button.key == "open_poll"]
        assert not [thread for thread in threading.enumerate() if thread.name == "poll"]

    def test_server_starts_only_when_a_poll_is_opened(self, learn, poll_settings):
        test = learn(poll_settings, **{"lesson": "one", "class": "yes"})
        assert not [thread for thread in threading.enumerate() if thread.name == "poll"]
        assert "no other part of the dashboard" in page_text(test)

    def test_median_of_the_class_reaches_the_chart(self, learn, poll_settings):
        test = learn(poll_settings, **{"lesson": "one", "class": "yes"})
        test.button(key="open_poll").click().run()
        asked = f"http://127.0.0.1:{poll_settings.poll[1]}/"
        assert "How many?" in urllib.request.urlopen(asked, timeout=60).read().decode()
        assert any(f"QR code of {asked}" in each.proto.body for each in test.get("html"))
        assert test.button(key="class_answer").disabled
        poll = class_poll._poll()
        for phone, guess in (("a", "10"), ("b", "20"), ("c", "90")):
            poll.answer(poll.current().token, phone, guess)
        test.run()
        assert "3 guesses, median 20 %" in page_text(test)
        assert CALLS == []
        test.button(key="class_answer").click().run()
        assert CALLS[-1][0] == 20.0
        assert fields(test) == {"lesson": "one", "guess": "20", "class": "yes"}
        assert "The class's median: **20 %**" in page_text(test)
        assert poll.current() is None
        test.button(key="lesson_next").click().run()
        assert "guesses" not in page_text(test)

    def test_poll_can_be_cleared_closed_and_reopened(self, learn, poll_settings):
        test = learn(poll_settings, **{"lesson": "one", "class": "yes"})
        test.button(key="open_poll").click().run()
        poll = class_poll._poll()
        poll.answer(poll.current().token, "a", "10")
        test.button(key="clear").click().run()
        assert "No guesses yet" in page_text(test)
        poll.answer(poll.current().token, "a", "10")
        test.button(key="close_poll").click().run()
        assert "1 guess, median 10 %" in page_text(test)
        test.button(key="open_poll").click().run()
        assert "No guesses yet" in page_text(test)

    def test_next_lesson_closes_the_poll(self, learn, poll_settings):
        test = learn(poll_settings, **{"lesson": "one", "class": "yes"})
        test.button(key="open_poll").click().run()
        poll = class_poll._poll()
        assert poll.current().question.name == "one"
        test.button(key="lesson_next").click().run()
        assert poll.current() is None

    def test_occupied_port_shows_an_error(self, learn, poll_settings):
        import socket

        with socket.create_server(poll_settings.poll):
            test = learn(poll_settings, **{"lesson": "one", "class": "yes"})
            test.button(key="open_poll").click().run()
            assert "cannot listen" in test.error[0].value
        assert test.button(key="open_poll")

    @pytest.mark.parametrize(
        ("markdown", "text"),
        [
            ("How **many** of `100`?", "How many of 100?"),
            ("A [link](http://x.example) and\na line", "A link and a line"),
            ("One.\n\nTwo \\* <b>three</b> & 4 < 5.", "One. Two * <b>three</b> & 4 < 5."),
        ],
    )
    def test_plain_text_removes_markdown(self, markdown, text):
        assert class_poll.plain_text(markdown) == text


def tally(*values: float, low=0.0, high=100.0, step=5.0, unit=" %") -> Tally:
    asked = Question(name="one", text="?", label="Share", low=low, high=high, step=step, unit=unit)
    return Tally(question=asked, token="t", is_open=True, values=values)


class TestHistogram:
    def test_bars_count_guesses_and_a_line_marks_the_median(self):
        figure = histogram.picture(tally(0.0, 35.0, 35.0, 100.0), height=200)
        bars = figure.data[0]
        assert sum(bars.y) == 4
        assert max(bars.y) == 2
        assert math.isclose(figure.layout.shapes[0].x0, 35)
        assert figure.layout.annotations[0].text == "median 35 %"
        assert bars.customdata[0] == "0 to 5"
        assert bars.customdata[-1] == "100"

    def test_no_guesses_give_an_empty_chart(self):
        figure = histogram.picture(tally(), height=200)
        assert sum(figure.data[0].y) == 0
        assert not figure.layout.shapes

    def test_sentence_has_number_and_median(self):
        assert histogram.sentence(tally()) == "No guesses yet."
        assert histogram.sentence(tally(5.0)) == "1 guess, median 5 %"
        assert histogram.sentence(tally(5.0, 6.0)) == "2 guesses, median 5.5 %"


def test_all_sessions_share_one_poll(open_page):
    open_page("learn")
    assert isinstance(class_poll._poll(), Poll)
    assert class_poll._poll() is class_poll._poll()
