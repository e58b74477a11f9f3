"""Glossary tooltips open by mouse, touch and keyboard, and the page keeps working."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.driving import MARKED, UNEXPLAINED, answer, open_page, page_addresses, wait_for

pytestmark = pytest.mark.browser

LESSONS = ("promise&guess=73", "noise&guess=none", "step&guess=none", "price&guess=none")
"""Lessons with a guess, whose pages have further terms."""
ALWAYS = ("", "glossary", "medical", f"learn?lesson={LESSONS[0]}")
"""Pages that each run of the tests opens: charts, text, a table and a lesson."""
PAGES = dict.fromkeys((*ALWAYS, *page_addresses(), *(f"learn?lesson={lesson}" for lesson in LESSONS)))
EPSILON = "a bound on how much one record can change the result."
CENTER = """([form, within]) => {
  for (const range of CSS.highlights.get("terms") ?? []) {
    const box = range.getBoundingClientRect();
    const here = range.startContainer.parentElement.closest(within);
    if (range.toString() === form && here && box.width && box.top > 0 && box.bottom < innerHeight) {
      return [box.left + box.width / 2, box.top + box.height / 2];
    }
  }
}"""

ADD_A_TERM = """() => {
  const more = document.createElement("p");
  more.textContent = "A linkage attack";
  document.querySelector(".stMain [data-testid=stVerticalBlock]").prepend(more);
}"""


def card(page: Page) -> Locator:
    return page.locator(".card")


def center_of(page: Page, form: str, within: str = ".stMain") -> list[float]:
    """Return the center of a visible term with a tooltip."""
    wait_for(lambda: page.evaluate(CENTER, [form, within]))
    return page.evaluate(CENTER, [form, within])


def slider_changes_answer(page: Page, before: str) -> bool:
    """Move a slider by one step and return whether the answer has changed; a redraw may remove the focus."""
    slider = page.get_by_role("slider").first
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(1000)
    return answer(page) != before


@pytest.mark.repeats(area="dashboard")
def test_click_opens_an_entry_and_the_page_keeps_working(page, dashboard):
    """Check that React still controls the sentence: after the entry was open, a slider changes the sentence."""
    open_page(page, dashboard + "explore")
    errors = []
    page.on("pageerror", lambda error: errors.append(error))
    page.mouse.click(*center_of(page, "ε", "h3"))
    expect(card(page)).to_contain_text(EPSILON)
    expect(card(page)).to_contain_text("Dwork and Roth 2014")
    before = answer(page)
    wait_for(lambda: slider_changes_answer(page, before))
    expect(page.locator(".stException")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(card(page)).to_be_hidden()
    page.mouse.click(*center_of(page, "δ"))
    expect(card(page)).to_contain_text("Publishing one record drawn at random")
    page.mouse.click(*center_of(page, "PLD"))
    expect(card(page).locator("h2")).to_have_text("PLD")
    page.mouse.click(5, 400)
    expect(card(page)).to_be_hidden()
    assert errors == []


@pytest.mark.repeats(area="pages")
def test_click_on_a_widget_label_or_an_axis_opens_its_entry(page, dashboard):
    """A widget keeps its value, though a click on its label would focus it."""
    open_page(page, dashboard + "explore")
    before = answer(page)
    page.mouse.click(*center_of(page, "σ", ".stSidebar"))
    expect(card(page).locator("h2")).to_have_text("noise multiplier (σ)")
    assert answer(page) == before
    page.keyboard.press("Escape")
    page.locator(".js-plotly-plot .xtitle").first.scroll_into_view_if_needed()
    page.mouse.click(*center_of(page, "ε", ".js-plotly-plot"))
    expect(card(page)).to_contain_text(EPSILON)


def test_terms_are_reachable_by_keyboard(page, dashboard):
    open_page(page, dashboard + "explore")
    words = page.get_by_role("toolbar", name="Terms explained on this page")
    letter = words.get_by_role("button", name="epsilon (ε): definition")
    expect(letter).to_have_count(1)

    def reaches_letter() -> bool:
        words.get_by_role("button").first.focus()
        for _ in range(words.get_by_role("button").count()):
            if letter.evaluate("each => each.matches(':focus')"):
                return True
            page.keyboard.press("ArrowRight")
        return False

    wait_for(reaches_letter)  # while Streamlit loads a page, it hides parts of it, which lose the focus
    box = letter.bounding_box()
    assert box["width"] > 5  # it covers the word
    assert 0 <= box["y"] < 800
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="epsilon (ε)")
    expect(dialog).to_be_focused()
    expect(dialog).to_contain_text(EPSILON)
    page.evaluate(ADD_A_TERM)  # like a page that is still loading
    expect(words.get_by_role("button", name="linkage attack: definition")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(card(page)).to_be_hidden()
    expect(letter).to_be_focused()


@pytest.mark.repeats(area="pages")
def test_touch_opens_an_entry_that_fits_a_phone(browser, dashboard):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, color_scheme="dark")
    page = context.new_page()
    open_page(page, dashboard + "explore")
    page.touchscreen.tap(*center_of(page, "ε", "h3"))
    expect(card(page)).to_contain_text(EPSILON)
    box = card(page).bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    context.close()


@pytest.mark.nightly(after=len(ALWAYS))
@pytest.mark.parametrize("name", PAGES)
def test_every_greek_letter_has_a_tooltip(page, dashboard, name):
    open_page(page, dashboard + name)
    wait_for(lambda: page.evaluate(MARKED) or name == "runs")
    wait_for(lambda: page.evaluate(UNEXPLAINED) == [], 15)
    assert "Epsilon" not in page.evaluate(MARKED)  # the dashboard's name is not a term


@pytest.mark.repeats(area="dashboard")
def test_glossary_search_is_restored_by_its_link(page, dashboard):
    open_page(page, dashboard + "glossary")
    page.get_by_label("Search").fill("Balle")
    page.keyboard.press("Enter")
    headings = page.locator(".stMain h5")
    expect(headings).to_have_count(3)
    wait_for(lambda: re.search("word=Balle", page.evaluate("() => location.href")))
    page.reload()
    expect(headings).to_have_count(3)
    expect(headings.first).to_contain_text("amplification by subsampling")
