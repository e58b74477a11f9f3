"""Page Home in a browser: the picture answers to keys and to a drag; the last page opens again."""

import pytest
from playwright.sync_api import expect

from pages.home import picture
from tests.browser.driving import answer, wait_for

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [1280, 390])
def test_the_picture_shows_the_values_at_the_chosen_epsilon(page, dashboard, width) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(dashboard)
    slider, (paper, recommended) = page.get_by_role("slider"), picture.values()["series"].values()
    slider.wait_for(timeout=90_000)  # the first page of a server that has just been started
    results = page.locator(".letters .result")
    for key, place in (("End", -1), ("Home", 0)):
        slider.press(key)
        for text, points in zip(results.all_inner_texts(), (paper, recommended), strict=True):
            point = points[place]
            assert text.startswith(f"F1 {point['f1']:.2f}. Finds {round(sum(point['found']))} of ")
    box = page.locator(".picture svg").bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.up()
    assert page.locator(".picture output").inner_text().startswith("ε = 1.")
    assert slider.get_attribute("aria-valuetext") == page.locator(".picture output").inner_text()


@pytest.mark.repeats(area="pages")
def test_doors_lead_to_pages_and_the_last_page_opens_again(page, dashboard) -> None:
    page.goto(dashboard)
    page.get_by_role("link", name="Teach a class").click()
    wait_for(lambda: answer(page) == "Privacy lessons")
    page.goto("about:blank")
    page.goto(dashboard)
    wait_for(lambda: answer(page) == "Privacy lessons")
    page.get_by_role("link", name="Home").first.click()
    expect(page.get_by_role("link", name="Check a privacy claim")).to_be_visible()
