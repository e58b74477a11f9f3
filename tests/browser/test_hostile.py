"""Text from outside is displayed literally, whatever it contains: the browser's own view of the pages is compared."""

import re
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page

from engine.settings import Settings
from engine.visible_text import visible
from pages.shared.charts import literal
from tests.browser import hostile
from tests.browser.conftest import serving
from tests.browser.driving import answers, free_port, wait_for, wait_until_complete
from tests.engine.corpus.test_offsets import archive

pytestmark = pytest.mark.browser

LITERAL = """(pairs) => {
  const found = [];
  for (const element of document.querySelectorAll("a, img, image, iframe, form, [src]")) {
    for (const { value } of element.attributes) {
      if (/^(https?:)?\\/\\/[^/]*evil|^mailto:/.test(value)) found.push(element.outerHTML);
    }
  }
  const copy = document.body.cloneNode(true);
  copy.querySelectorAll("script, style, noscript, canvas").forEach(each => each.remove());
  const text = copy.textContent;
  for (const [word, before] of pairs) {
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
      const shown = text.slice(0, at).replaceAll("\\u2060", "");
      if (!shown.endsWith(before)) found.push(`${before}${word}: ${shown.slice(-20)}${word}`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the window");
  return [found, pairs.map(([word]) => word).filter(word => text.includes(word))];
}"""
"""Script that returns outside links and texts that are not literal, and which words were seen."""
HOVER = """() => [...document.querySelectorAll(".picture")].filter(each => each.data).flatMap(picture =>
  picture.data.flatMap((_, curveNumber) => {
    try { window.Plotly.Fx.hover(picture, [{ curveNumber, pointNumber: 0 }]); } catch { return []; }
    return [...picture.querySelectorAll(".hoverlayer .hovertext")].map(each => each.textContent);
  }))"""
"""Script that returns the texts that appear when the mouse points at the first point of each curve."""
DRAWN = """texts => {
  const picture = document.body.appendChild(document.createElement("div"));
  const found = texts.map(text => {
    window.Plotly.newPlot(picture, [{ x: [1], y: [text], name: text, type: "bar", orientation: "h", showlegend: true,
      hovertemplate: text + "<extra></extra>" }], { title: { text },
      yaxis: { type: "category" }, width: 900, height: 400, margin: { l: 400 } });
    window.Plotly.Fx.hover(picture, [{ curveNumber: 0, pointNumber: 0 }]);
    return [".gtitle", ".legendtext", ".ytick text", ".hovertext .nums"].map(
      selector => picture.querySelector(selector).textContent);
  });
  picture.remove();
  return found;
}"""
"""Script that returns texts as Plotly draws them: as a title, name, tick and hover text."""
signs = st.sampled_from(
    [*"*_`~$#|<>[]()!:&;=+-.@%{}\\/\"' a1é\u05d0\u202e\u2066\x9b", "www.", "https://", "&lt;", "<b>"]
)
texts = st.one_of(
    st.sampled_from([*hostile.MARKUP, *hostile.TITLE.split(), ":smile: -> <- -- >= ~=", "1. a", "    a", "+1", "a  b"]),
    st.lists(signs, min_size=1, max_size=12).map("".join),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20),
)


def pairs() -> list[tuple[str, str]]:
    """Return each word of the hostile texts, and the characters before it."""
    every = [*hostile.MARKUP, *hostile.TITLE.split(" ")]
    found = [(match[0], visible(text[: match.start()])) for text in every if (match := re.search("[QR]q[a-z]", text))]
    assert len(found) == len(hostile.MARKUP) + 9
    return found


@pytest.fixture(scope="module")
def made(make_home, tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """Return a home with hostile texts, and the names of what it has."""
    home = make_home()
    found = Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}")
    return home, hostile.fill(found, tmp_path_factory.mktemp("files"))


def read_back(page: Page) -> tuple[list[str], set[str]]:
    """Return what is not literal on a page, in each of its tabs, and the words that were seen."""
    wait_until_complete(page)
    wrong, seen = set(), set()
    page.locator("[data-testid='stExpander'] summary").evaluate_all("each => each.forEach(one => one.click())")
    tabs = page.locator("[role=tab]").all()
    for tab in tabs or [None]:
        if tab:
            tab.click()
        page.wait_for_timeout(500)  # the chart of a tab is drawn when it is shown
        found, words = page.evaluate(LITERAL, pairs())
        wrong |= set(found)
        seen |= set(words)
        for text in page.evaluate(HOVER):
            wrong |= {text for word, before in pairs() if word in text and f"{before}{word}" not in text}
    return sorted(wrong), seen


@pytest.mark.repeats(area="pages")
def test_names_notes_and_errors_are_literal_on_each_page(page, made):
    home, names = made
    small = f"?corpus={names['corpus']}&data_fraction=1&noise_multiplier=1&batch_size=8&hidden_size=8&epochs=2"
    shown = names["corpus"].removeprefix("my-")  # links to these two pages have titles
    addresses: dict[str, int] = {  # with the least number of words that the page shows
        small: 30,
        f"{small}&seed=9": 30,
        "runs": 0,  # a canvas
        "compare": 0,
        f"planner?corpus={shown}&types={hostile.MARKUP[5]}": 1,
        f"diagnose?run={names['federated']}": 30,
        f"assumptions?run={names['path']}": 8,
        f"audit?run={names['own']}": 0,
        f"report?run={names['federated']}": 30,
        f"budget?corpus={shown}": 0,
    }
    with serving(home, free_port()) as dashboard:
        for address, least in addresses.items():
            page.goto(dashboard + address)
            page.wait_for_selector("h3")
            wrong, seen = read_back(page)
            assert wrong == [], address
            assert len(seen) >= least, address
        check_charts(page, dashboard + small)
        check_markdown(page, dashboard)
        page.goto("about:blank")  # before the dashboard stops, which the page would report


def check_charts(page: Page, address: str) -> None:
    """Compare generated texts with what Plotly draws."""
    page.goto(address)
    page.wait_for_selector(".picture .main-svg")

    @settings(max_examples=4)
    @given(st.lists(texts, min_size=20, max_size=20))
    def draw(several: list[str]) -> None:
        drawn = page.evaluate(DRAWN, [literal(f"qq{text}") for text in several])
        for text, places in zip(several, drawn, strict=True):
            assert set(map(without_spaces, places)) == {without_spaces(visible(f"qq{text}"))}

    draw()


def check_markdown(page: Page, dashboard: str) -> None:
    """Compare generated texts with what the search of the glossary displays."""
    page.goto(dashboard + "glossary")
    search = page.get_by_label("Search")
    result = page.locator("[data-testid='stCaptionContainer']", has_text="No entry contains")

    @settings(max_examples=30, phases=[Phase.generate])  # each failure takes seconds
    @given(texts)
    def search_for(text: str) -> None:
        text = f"qq{text}"[:60]
        search.fill(text)
        search.press("Enter")
        expected = f"No entry contains {visible(search.input_value())}."
        wait_for(lambda: without_spaces(result.all_text_contents()) == without_spaces(expected), 20)
        assert result.locator("a, img, code, em, strong, del, .katex, [data-testid=stIconMaterial]").count() == 0

    search_for()


def without_spaces(text: str | list[str]) -> str:
    return "".join("".join(text).replace("\u2060", "").split())


def hostile_files() -> dict[str, tuple[bytes, str]]:
    """Return files by name, each with a part of the sentence that refuses it."""
    columns = "".join(f"word{number} O\nName{number} B-PER\n\n" for number in range(60)).encode()
    return {
        "bomb.zip": (archive({"train.conll": bytes(2 * 10**8), "test.conll": columns}), "more than 50,000,000 bytes"),
        "linked.zip": (archive({"test.conll": columns}, "train.conll"), "has 'train.conll', expected plain files"),
        "escaped.zip": (
            archive({"../../train.conll": columns, "/tmp/test.conll": columns}),
            "has '../../train.conll', expected plain files",
        ),
        "nul.conll": (columns + b"a\0b O\n", "binary byte 0x00"),
        "deep.conll": (b"[" * 10**6, "deep.conll has "),
        "line.conll": (b"a" * 49_000_000, "line.conll has "),
    }


@pytest.mark.repeats(area="pages")
def test_hostile_files_are_refused_with_a_sentence(page, dashboard, home, tmp_path):
    corpora = home / "corpora"
    before = sorted(corpora.glob("*"))
    page.goto(dashboard + "explore")
    page.get_by_text("Upload a corpus").click()
    for name, (content, message) in hostile_files().items():
        (tmp_path / name).write_bytes(content)
        page.set_input_files("input[type=file]", tmp_path / name)
        refusal = page.get_by_test_id("stAlert").filter(has_text=message)
        refusal.wait_for()
        assert answers(dashboard + "_stcore/health")
        assert sorted(corpora.glob("*")) == before
        page.get_by_role("button", name="Remove").click()
        refusal.wait_for(state="detached")
