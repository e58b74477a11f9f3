"""Page Tag text with real NER taggers: a text is tagged, redacted and downloaded; its markup is not interpreted."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import answer, wait_for

TEXT = "Angela Merkel met <b>Rosa Hale</b> in Geneva.\n<img src=x onerror=\"document.title='broken'\"> **Ann** $x$"
SECONDS = 400_000
"""Time limit on a busy machine, in ms: a new process loads TensorFlow, spaCy and the language model."""

pytestmark = pytest.mark.browser


def read_texts(page: Page) -> list[str]:
    """Return the text in each tagger's panel."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.try-text')].map(panel => {
             const copy = panel.cloneNode(true);
             copy.querySelectorAll('small').forEach(each => each.remove());
             return copy.textContent; })"""
    )


@pytest.mark.timeout(1200)
@pytest.mark.repeats(area="dashboard")
def test_a_text_is_tagged_redacted_and_downloaded(page, dashboard):
    page.goto(dashboard + "try")
    expect(page.locator(".try-panel")).to_have_count(5, timeout=SECONDS)
    assert "the redacted text still shows" in answer(page)
    page.get_by_role("combobox", name="Text").click()
    page.get_by_role("option", name="A text of my own").click()
    wait_for(lambda: answer(page).startswith("Tag a text"))
    page.get_by_label("Your text, at most 20,000 characters").fill(TEXT)
    page.get_by_role("button", name="Tag text").click()
    wait_for(lambda: answer(page).startswith("Entities predicted:"))
    wait_for(lambda: read_texts(page) == [TEXT] * 5)
    assert page.locator(".try-text b, .try-text img, .try-text strong").count() == 0
    assert page.title().startswith("Tag text")
    marks = page.locator(".try-panel").first.locator("mark.try-name")
    assert marks.first.inner_text().startswith("Angela Merkel")

    page.get_by_role("radio", name="black squares").click()
    # Until the page is complete, old text and buttons may be next to the new ones.
    redacted = page.get_by_test_id("stCode").filter(has_text="█████████████ met")
    expect(redacted).to_have_count(1, timeout=SECONDS)
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning", timeout=SECONDS)
    expect(page.get_by_test_id("stCode")).to_have_count(1)
    expect(redacted).not_to_contain_text("Merkel")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download JSON with offsets").click()
    fields = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert len(fields["text"]) == len(TEXT)
    first = fields["entities"][0]
    assert TEXT[first["start"] : first["end"]] == "Angela Merkel"
    assert fields["text"][first["new_start"] : first["new_end"]] == "█" * len("Angela Merkel")
    assert page.evaluate("() => document.querySelector('.stMain').scrollWidth <= innerWidth")
