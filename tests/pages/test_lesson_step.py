"""Lesson 6 with default and extreme control values; its charts show the guess."""

import math
import re

import pytest

from engine.lessons import fixtures
from engine.lessons.ablations import FAULTS
from pages.learn import guess_markers, lesson_6_step
from pages.learn.lesson import MOST_WORDS
from tests.pages.controls import Controls

LESSON, VIEWS = lesson_6_step.LESSON, lesson_6_step.VIEWS


@pytest.fixture
def drawn(monkeypatch):
    """Return the figures of the lesson in drawing order."""
    figures = []
    monkeypatch.setattr(lesson_6_step, "draw", lambda figure, *, key, label: figures.append((figure, label)))
    return figures


@pytest.fixture(scope="module")
def model(lesson_settings):
    """Return one lesson model for all tests of this file."""
    return fixtures.load(lesson_settings)


@pytest.fixture
def learn(open_page, lesson_settings, monkeypatch, model):
    """Return a function that opens the lesson with its model."""
    monkeypatch.setattr(lesson_6_step.fixtures, "load", lambda settings, on_progress: model)
    return lambda **fields: open_page("learn", lesson_settings, lesson="step", **fields)


def guess_lines(figure) -> list:
    markers = [shape for shape in figure.layout.shapes if shape.line.color == guess_markers.GUESS["color"]]
    return markers + [trace for trace in figure.data if trace.name == "your guess"]


def heading(page) -> str:
    return next(each.value for each in page.markdown if each.value.startswith("####"))


def sliders(page):
    return [each for each in page.select_slider if (each.key or "").startswith("l6_")]


def test_texts_are_complete_and_short():
    assert len(re.findall(r"\w[\w’'^/.]*", f"{LESSON.question} {LESSON.words}")) <= MOST_WORDS
    assert "primer" in LESSON.simplifies
    for part in ("**Sources.**", "**Pitfalls.**", "**Ask the class.**"):
        assert part in LESSON.note


def test_controls_are_hidden_before_the_guess(learn, drawn):
    page = learn()
    assert not drawn
    assert not sliders(page)
    page.button(key="guessed").click().run()
    assert not page.exception
    assert len(sliders(page)) == 5
    assert guess_lines(drawn[-1][0])


@pytest.mark.parametrize("view", VIEWS)
def test_each_chart_has_a_headline_and_the_guess(view, learn, drawn):
    """Check default controls, all at their lowest and all at their highest value."""
    page = learn(guess="5", l6_view=view)
    check_picture(page, drawn)
    assert bool(guess_lines(drawn[-1][0])) is (view != VIEWS[3])
    for end in (0, -1) if view != VIEWS[3] else ():
        for slider in sliders(page):
            slider.set_value(type(slider.value)(float(slider.options[end].replace(",", ""))))
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
    assert not page.error
    ((figure, label),) = drawn
    assert figure.data
    assert heading(page) == f"#### {label}"
    assert page.caption


@pytest.mark.parametrize("view", VIEWS[:3])
def test_each_control_works_at_both_ends(view, model, drawn, monkeypatch):
    """Check the functions under the page."""
    monkeypatch.setattr(lesson_6_step, "_load_model", lambda: model)

    def shown(**chosen):
        controls = Controls(l6_view=view, **chosen)
        monkeypatch.setattr(lesson_6_step, "st", controls)
        drawn.clear()
        LESSON.show(0.0)
        ((figure, label),) = drawn
        assert figure.data
        assert f"#### {label}" in controls.texts
        return controls.ends

    ends = {name: found for name, found in shown().items() if name != "l6_view"}
    assert set(ends) >= {f"l6_{name}" for name in ("sigma", "clip", "batch", "steps", "before")}
    for name, found in ends.items():
        for end in found:
            shown(**{name: end})


def test_bars_are_kept_and_clipped_gradient_lengths(learn, drawn):
    page = learn(guess="0", l6_view="The batch")
    stays, cut = drawn[-1][0].data
    assert max(stays.y) == pytest.approx(1.5)
    whole = [one + other for one, other in zip(stays.y, cut.y, strict=True)]
    assert whole == sorted(whole, reverse=True)
    assert whole == pytest.approx(list(stays.customdata))
    share = round(100 * sum(cut.y) / sum(whole))
    assert f"The batch has {len(whole)} sentences" in heading(page)
    assert f"removes {share} % of the total length" in heading(page)
    page.select_slider(key="l6_clip").set_value(5.0).run()
    assert "shortens 0 of their gradients and removes 0 %" in heading(page)


def test_arrow_lengths_equal_those_in_the_headline(learn, drawn):
    page = learn(guess="3")
    both, noise, signal, guess = drawn[-1][0].data
    lengths = [math.hypot(each.x[1] - each.x[0], each.y[1] - each.y[0]) for each in (both, noise, signal)]
    assert (both.x[1], both.y[1]) == (noise.x[1], noise.y[1])
    assert f"The noise is {lengths[1] / lengths[2]:.0f} times as long as the sum" in heading(page)
    assert max(guess.y) == pytest.approx(3 * lengths[2])
    assert "ε ≤ 1.58" in heading(page)
    page.select_slider(key="l6_batch").set_value(1024).run()
    assert "Signal-to-noise ratio 1.5" in heading(page)


def test_larger_batches_have_less_noise_for_the_same_epsilon(learn, drawn):
    page = learn(guess="3", l6_view="Larger batches")
    *curves, yours = (trace for trace in drawn[-1][0].data)
    assert len(curves) == 4
    (epsilon,), (now,) = yours.x, yours.y
    best = min(y for curve in curves for x, y in zip(curve.x, curve.y, strict=True) if x <= epsilon)
    assert best < now
    assert f"reduce this ratio to {best:.0f} times." in heading(page)
    assert "32 times the sentences" in page.caption[0].value
    page.segmented_control(key="l6_same").set_value("sentences").run()
    assert "in 31 steps" in heading(page)
    assert "no more sentences" in page.caption[0].value
    page.select_slider(key="l6_batch").set_value(1024).run()
    assert "No larger batch here has less noise" in heading(page)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "the noise check finds no fault in 64 steps"),
        ("half", "Found after 1 step. The noise on the weights has 5"),
        ("layer", "Found after 4 steps"),
        ("each", "clip norms apart"),
        ("secret", "Not found in 64 steps. The noise is as it should be."),
    ],
)
def test_headline_names_the_left_out_part_and_the_check_result(name, words, learn, drawn):
    page = learn(guess="3", l6_view="Leave one out", l6_missing=FAULTS[name].title)
    assert words in heading(page)
    assert all(slider.disabled for slider in sliders(page))
    found = next(trace for trace in drawn[-1][0].data if trace.name == "fault found")
    assert bool(found.x) is ("Found after" in heading(page))


def test_link_restores_the_controls(learn, drawn):
    page = learn(guess="5", l6_sigma="3", l6_batch="1,024", l6_before="10")
    assert page.select_slider(key="l6_sigma").value == 3
    assert page.select_slider(key="l6_batch").value == 1024
    assert page.select_slider(key="l6_before").value == 10
