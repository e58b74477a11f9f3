"""Lessons 1 to 4 with default and extreme control values; each chart shows the guess."""

import re

import pytest

from engine.lessons import counting_queries, linkage
from engine.lessons.noise_mechanisms import KINDS
from pages.learn import guess_markers, lesson_1_linkage, lesson_2_posterior, lesson_3_noise, lesson_4_trust
from pages.learn.lesson import MOST_WORDS, Lesson
from tests.pages.controls import Controls

MODULES = (lesson_1_linkage, lesson_2_posterior, lesson_3_noise, lesson_4_trust)
GUESSES = {"names": "40", "promise": "70", "noise": "20", "trust": "5"}
VIEWS = [(module, f"l{number}", view) for number, module in enumerate(MODULES, start=1) for view in module.VIEWS]
each_view = pytest.mark.parametrize(
    ("module", "key", "view"), VIEWS, ids=[f"{module.LESSON.name}: {view}" for module, _, view in VIEWS]
)
each_lesson = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.LESSON.name)


@pytest.fixture
def drawn(monkeypatch):
    """Return the figures of the lessons in drawing order."""
    figures = []
    for module in MODULES:
        monkeypatch.setattr(module, "draw", lambda figure, *, key, label: figures.append((figure, label)))
    return figures


def guess_lines(figure) -> list:
    """Return the markers of the guess: lines, a curve, error bars around the true value, or a label."""
    markers = [shape for shape in figure.layout.shapes if shape.line.color == guess_markers.GUESS["color"]]
    markers += [trace for trace in figure.data if "guess" in (trace.name or "")]
    return markers + [note for note in figure.layout.annotations if "guessed" in note.text]


def sliders(page, lesson: str):
    number = [module.LESSON.name for module in MODULES].index(lesson) + 1
    return [each for each in (*page.slider, *page.select_slider) if (each.key or "").startswith(f"l{number}_")]


@each_lesson
def test_texts_are_complete_and_short(module):
    lesson: Lesson = module.LESSON
    assert len(re.findall(r"\w[\w’'^/.]*", f"{lesson.question} {lesson.words}")) <= MOST_WORDS
    assert lesson.simplifies
    for part in ("**Sources.**", "**Pitfalls.**", "**Ask the class.**"):
        assert part in lesson.note


@each_lesson
def test_controls_are_hidden_before_the_guess(module, open_page, drawn):
    page = open_page("learn", lesson=module.LESSON.name)
    assert not drawn
    assert not sliders(page, module.LESSON.name)
    page.button(key="guessed").click().run()
    assert not page.exception
    assert sliders(page, module.LESSON.name)
    assert guess_lines(drawn[-1][0])


@each_view
def test_each_chart_has_a_headline_and_the_guess(module, key, view, open_page, drawn):
    """Check default controls, all at their lowest and all at their highest value."""
    lesson = module.LESSON.name
    page = open_page("learn", lesson=lesson, guess=GUESSES[lesson], **{f"{key}_view": view})
    check_picture(page, drawn)
    assert guess_lines(drawn[-1][0]) or view == "Group privacy"  # its axis has no certainty
    for end in (0, -1):
        assert sliders(page, lesson)
        for control in sliders(page, lesson):
            options = getattr(control, "options", None) or [control.min, control.max]
            control.set_value(type(control.value)(float(str(options[end]).replace(",", ""))))
        if lesson in ("promise", "noise"):
            page.segmented_control(key=f"{key}_noise").set_value(KINDS[end])
        drawn.clear()
        page.run()
        check_picture(page, drawn)
    page.query_params["guess"] = "none"
    drawn.clear()
    page.run()
    check_picture(page, drawn)
    assert not guess_lines(drawn[-1][0])


def check_picture(page, drawn):
    assert not page.exception
    ((figure, label),) = drawn
    assert figure.data
    assert label
    assert any(each.value.startswith("####") for each in page.markdown)


@each_view
@pytest.mark.repeats(area="dashboard", after=6)
def test_each_control_works_at_both_ends(module, key, view, drawn, monkeypatch):
    """Check the functions under the page, with a guess and without one."""

    def shown(guess, **chosen):
        controls = Controls(**{f"{key}_view": view} | chosen)
        monkeypatch.setattr(module, "st", controls)
        drawn.clear()
        module.LESSON.show(guess)
        ((figure, label),) = drawn
        assert figure.data
        assert label
        assert any(text.startswith("####") for text in controls.texts)
        return controls.ends

    ends = {name: found for name, found in shown(None).items() if name != f"{key}_view"}
    assert len(ends) >= 4
    for name, found in ends.items():
        for end in found:
            shown(float(GUESSES[module.LESSON.name]), **{name: end})
        shown(None, **{name: found[1]})


def heading(page) -> str:
    heading_text = next(each.value for each in page.markdown if each.value.startswith("####"))
    return heading_text.replace("\N{NO-BREAK SPACE}", " ")


def test_more_known_ratings_reidentify_more_people(open_page, drawn):
    page = open_page("learn", lesson="names", guess="40")
    assert "re-identifies 100 of 100" in heading(page)
    page.slider(key="l1_known").set_value(2).run()
    assert "re-identifies 0 of 100" in heading(page)  # both of them wrong
    page.slider(key="l1_wrong").set_value(0).run()
    assert 50 < int(re.search(r"re-identifies (\d+)", heading(page))[1]) < 100
    reported = next(trace for trace in drawn[-1][0].data if "reported" in trace.name)
    assert list(reported.y) == [99, 68]


def test_answer_omits_outcomes_of_zero():
    outsider = linkage.Outsider(known=8, wrong=2, days_off=14)
    found = linkage.attack(linkage.ratings(), outsider, linkage.Release())
    assert found.shares == (1, 0, 0)
    sentence = "An attacker who knows 8 ratings (2 wrong) re-identifies 100 of 100 people."
    assert lesson_1_linkage.answer(found, 8, 2) == sentence
    one = linkage.attack(linkage.ratings(), linkage.Outsider(known=1, wrong=0, days_off=14), linkage.Release())
    heading_text = lesson_1_linkage.answer(one, 1, 0)
    assert re.search(
        r"re-identifies \d+ of 100 people, confuses \d+ with another person and finds no match for \d+\.$", heading_text
    )


def test_labels_do_not_overlap_the_guess(open_page, drawn):
    open_page("learn", lesson="promise", guess="75")
    bound = next(each for each in drawn[-1][0].layout.annotations if each.text.startswith("bound: 73.1"))
    assert bound.yanchor == "top"  # below its line, since the guess is right above it
    open_page("learn", lesson="promise", guess="90")
    assert next(each for each in drawn[-1][0].layout.annotations if "73.1" in each.text).yanchor == "bottom"
    open_page("learn", lesson="noise", guess="100")
    assert next(each for each in drawn[-1][0].layout.annotations if each.text == "your guess").xanchor == "right"


def test_belief_never_exceeds_the_bound(open_page, drawn):
    page = open_page("learn", lesson="promise", guess="70")
    assert "never exceeds 73.1 %" in heading(page)
    curve = next(trace for trace in drawn[-1][0].data if trace.name == "neighbour's certainty")
    assert max(curve.y) == pytest.approx(73.1, abs=0.01)
    page.select_slider(key="l2_eps").set_value(0.1).run()
    assert "never exceeds 52.5 %" in heading(page)
    page.segmented_control(key="l2_noise").set_value("gaussian").run()
    assert "seldom exceeds" in heading(page)
    curve = next(trace for trace in drawn[-1][0].data if trace.name == "neighbour's certainty")
    assert max(curve.y) > 52.5


def test_unreachable_guess_has_a_label(open_page, drawn):
    open_page("learn", lesson="promise", guess="90", l2_view="Two worlds")
    assert any("no answer" in note.text for note in drawn[-1][0].layout.annotations)


def test_numbers_in_the_question_match_the_corpus():
    letters = counting_queries.letters()
    assert f"{len(letters.family):,} letters" in lesson_3_noise.LESSON.question
    assert letters.each("hospital").max() == 3


def test_mean_error_is_clip_over_epsilon(open_page, drawn):
    page = open_page("learn", lesson="noise", guess="20")
    assert "mean absolute error of 3 letters." in heading(page)
    page.select_slider(key="l3_eps").set_value(0.1).run()
    assert "mean absolute error of 30 letters." in heading(page)
    page.slider(key="l3_clip").set_value(1).run()
    assert "mean absolute error of 10 letters; clipping loses 17 more" in heading(page)


def test_error_ratio_grows_with_respondents(open_page, drawn):
    page = open_page("learn", lesson="trust", guess="5")
    assert "21.5 times" in heading(page)
    page.select_slider(key="l4_people").set_value(100_000).run()
    assert "215 times" in heading(page)


def test_link_restores_the_controls(open_page, drawn):
    page = open_page("learn", lesson="trust", guess="5", l4_people="10,000", l4_yes="35")
    assert page.select_slider(key="l4_people").value == 10_000
    assert page.slider(key="l4_yes").value == 35
