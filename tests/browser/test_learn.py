"""Lessons in a browser, and a class poll with phones."""

import re
import statistics
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from pages.learn.lesson import Guess
from pages.learn.lessons import LESSONS
from tests.browser.driving import address, answer, wait_for

FIRST, SECOND = LESSONS[:2]
PLAYED = [(2, 390), (1, 1280), (1, 390), (2, 1280)]
"""Numbers of the tested lessons, and window widths in pixels."""

pytestmark = pytest.mark.browser


def fields(page: Page) -> dict[str, str]:
    """Return the fields of the link in the address bar."""
    return {name: values[-1] for name, values in parse_qs(urlsplit(address(page)).query).items()}


def steps_from_the_middle(question: Guess) -> int:
    """Return the number of slider steps from its middle to the guess."""
    return min(3, int((question.high - question.low) / question.step / 2))


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(("number", "width"), PLAYED)
@pytest.mark.repeats(area="pages")
def test_guess_shows_the_chart_and_the_link_restores_both(page, dashboard, profile, number, width):
    lesson, following = LESSONS[number - 1 : number + 1]
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(dashboard + "learn")
    page.get_by_role("button", name=f"{number}. {lesson.title}").click()
    slider = page.get_by_role("slider").first
    slider.wait_for()
    assert page.locator(".js-plotly-plot").count() == 0, "the answer was there before the guess"
    slider.focus()
    before = slider.get_attribute("aria-valuetext")
    for _ in range(steps_from_the_middle(lesson.guess)):
        page.keyboard.press("ArrowRight")
    wait_for(lambda: slider.get_attribute("aria-valuetext") != before)
    page.get_by_role("button", name="Submit guess").click()
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    wait_for(lambda: set(fields(page)) == {"lesson", "guess"})
    guessed = page.get_by_text("Your guess:").first.inner_text()
    control = page.get_by_role("slider").first
    control.focus()
    page.keyboard.press(
        "ArrowRight"
        if control.get_attribute("aria-valuenow") != control.get_attribute("aria-valuemax")
        else "ArrowLeft"
    )
    wait_for(lambda: any(name.startswith(f"l{number}_") for name in fields(page)))
    wide = page.evaluate("() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
    assert wide <= 0, "the content is wider than the window"
    expected = control.get_attribute("aria-valuetext")
    other = profile().new_page()
    other.goto(address(page))
    other.locator(".js-plotly-plot .main-svg").first.wait_for()
    assert other.get_by_text("Your guess:").first.inner_text() == guessed
    wait_for(lambda: other.get_by_role("slider").first.get_attribute("aria-valuetext") == expected)
    page.get_by_role("button", name="Next: ").click()
    wait_for(lambda: answer(page) == f"{number + 1}. {following.title}")
    wait_for(lambda: fields(page) == {"lesson": following.name})
    page.go_back()
    wait_for(lambda: answer(page) == f"{number}. {lesson.title}")
    wait_for(
        lambda: (
            page.get_by_text("Your guess:").count() and page.get_by_text("Your guess:").first.inner_text() == guessed
        )
    )


def test_arrow_keys_change_the_lesson_in_class_mode(page, dashboard):
    page.goto(dashboard + f"learn?lesson={FIRST.name}")
    page.get_by_role("button", name="Enter class mode").click()
    expect(page.get_by_test_id("stHeader")).to_be_hidden()
    page.locator("h3").first.click()
    page.keyboard.press("ArrowRight")
    wait_for(lambda: answer(page) == f"2. {SECOND.title}")
    assert fields(page) == {"lesson": SECOND.name, "class": "yes"}
    page.get_by_role("button", name="Back: ").wait_for()  # the page is complete
    slider = page.get_by_role("slider").first
    slider.focus()
    before = slider.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowLeft")
    wait_for(lambda: slider.get_attribute("aria-valuetext") != before)
    assert answer(page) == f"2. {SECOND.title}", "the slider had the key"
    page.locator("h3").first.click()
    page.keyboard.press("ArrowLeft")
    wait_for(lambda: answer(page) == f"1. {FIRST.title}")


@pytest.mark.repeats(area="pages")
def test_guesses_from_phones_appear_before_the_answer(page, dashboard, browser, profile):
    page.goto(dashboard + f"learn?lesson={FIRST.name}&class=yes")
    # Another test, or a first attempt of this one, may have had a poll on this dashboard.
    page.get_by_role("button", name=re.compile("Open poll")).click()
    code = page.locator("img.qr")
    code.wait_for()
    poll = code.get_attribute("alt").removeprefix("QR code of ")
    assert code.evaluate("image => image.naturalWidth > 0"), "the code cannot be drawn"
    question = FIRST.guess
    guesses = [question.low, question.low + 2 * question.step, question.high]
    for number, guess in enumerate(guesses, start=1):
        context = browser.new_context(viewport={"width": 390, "height": 844}, java_script_enabled=False)
        phone = context.new_page()
        phone.goto(poll)
        phone.get_by_label(question.label).fill(f"{guess:g}")
        phone.get_by_role("button", name="Send").click()
        phone.get_by_role("status").filter(has_text=f"{guess:g}{question.unit} is counted").wait_for()
        context.close()
        text = f"{number} guess{'es' if number > 1 else ''}, median"
        expect(page.get_by_text(text)).to_be_visible()  # without a user action
    stranger = profile().new_page()
    assert stranger.goto(poll + "learn").status == 404, "the server offers more than the question"
    page.get_by_role("button", name="Show answer").click()
    median = f"{statistics.median(guesses):g}"
    page.get_by_text("The class's median:").wait_for()
    wait_for(lambda: fields(page).get("guess") == median)
    stranger.goto(poll)
    stranger.get_by_text(re.compile("No question is open")).wait_for()
