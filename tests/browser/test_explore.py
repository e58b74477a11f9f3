"""The dashboard from a user's view: `engine.serve`, a browser and real workers."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from engine import serve, setup_status
from engine.setup_status import Progress
from tests.browser.driving import (
    ROOT,
    address,
    answer,
    answers,
    free_port,
    move_slider,
    open_page,
    wait_for,
    wait_until_complete,
)

SMALL = "explore?corpus=synthetic&data_fraction=0.05&noise_multiplier=1&batch_size=8&hidden_size=8&epochs=8"
"""220 steps with 25 records, about ten seconds."""
LONG = "explore?corpus=synthetic&noise_multiplier=2&batch_size=8&hidden_size=8&epochs=2000"
"""A run of about 15 minutes, so that it does not end during a test; each test that starts it cancels it."""

NOISE = "Noise multiplier"
"""Label of the slider that the tests move; during a rerun the first slider of the page may be another one."""

pytestmark = pytest.mark.browser


def plotted(page: Page, name: str = "F1, this run") -> int:
    """Return the current number of points of a curve in the chart."""
    return page.evaluate(
        """name => { const plot = document.querySelector('.js-plotly-plot');
                     const trace = plot?.data?.find(item => item.name === name);
                     return trace ? trace.y.length : 0; }""",
        name,
    )


def shown_range(page: Page) -> list[float]:
    return page.evaluate("() => document.querySelector('.js-plotly-plot')?.layout?.yaxis?.range ?? []")


def zoom(page: Page) -> None:
    """Zoom the chart by dragging a box over its lower half."""
    area = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    left, top = area["x"] + 0.1 * area["width"], area["y"] + 0.4 * area["height"]
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(left + 0.7 * area["width"], top + 0.5 * area["height"], steps=5)
    page.mouse.up()


@pytest.mark.repeats(area="dashboard")
def test_explore_has_a_named_address(page, dashboard):
    page.goto(dashboard + "explore?noise_multiplier=2")
    wait_for(lambda: answer(page).startswith("At ε = 0.5"))
    expect(page.get_by_text("Page not found")).to_have_count(0)
    assert page.title() == "Explore · Epsilon Explorer"
    page.go_back()
    assert page.url == "about:blank"


@pytest.mark.parametrize("width", [1280, 390])
def test_navigation_reaches_every_page(page, dashboard, width):
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(dashboard + "glossary")
    page.wait_for_selector("h3")
    assert page.title() == "Glossary · Epsilon Explorer"
    if width == 390:
        page.get_by_test_id("stExpandSidebarButton").click()
    else:
        bar = page.get_by_test_id("stTopNavSection")
        assert bar.all_inner_texts() == ["Learn", "Experiment", "Assure"]

        def current_section_is_highlighted() -> bool:
            colors = [tab.evaluate("tab => getComputedStyle(tab).backgroundColor") for tab in bar.all()]
            return colors[0] not in colors[1:]

        wait_for(current_section_is_highlighted)
        bar.get_by_text("Experiment").click()
    role: Literal["link", "menuitem"] = "link" if width == 390 else "menuitem"
    expect(page.get_by_role("link", name="Home").first).to_be_visible()
    for name in (
        "Explore",
        "Runs",
        "Compare",
        "Pareto frontier",
        "Planner",
        "Recommended settings",
        "Training diagnostics",
    ):
        expect(page.get_by_role(role, name=name), name).to_be_visible()
    page.get_by_role(role, name="Pareto frontier").click()
    wait_for(lambda: address(page) == dashboard + "frontier")
    wait_for(lambda: "Highest measured F1" in answer(page))


@pytest.mark.repeats(area="pages")
def test_parallel_axis_brushes_filter_the_table(page, dashboard):
    page.set_viewport_size({"width": 1280, "height": 1400})
    page.goto(dashboard + "compare")
    caption = page.get_by_text("highest F1 first")
    wait_for(lambda: caption.count() and caption.inner_text().startswith("All "))
    f1 = page.locator(".parcoords .axis-brush").last
    f1.scroll_into_view_if_needed()
    box = f1.bounding_box()
    x, top, height = box["x"] + box["width"] / 2, box["y"], box["height"]
    page.mouse.move(x, top + 0.27 * height)
    page.mouse.down()
    page.mouse.move(x, top + 0.36 * height, steps=8)
    page.mouse.up()
    wait_for(lambda: re.match(r"[\d,]+ of [\d,]+ runs", caption.inner_text()))
    page.get_by_role("button", name="Clear ranges").click()
    wait_for(lambda: caption.inner_text().startswith("All "))


def test_runs_are_listed_and_search_filters_them(page, dashboard):
    page.goto(dashboard + "runs")
    page.wait_for_selector("h3")
    assert "published" in answer(page)
    assert page.get_by_role("button", name="Delete").is_disabled()
    page.get_by_label("Search runs").fill("nothing like this")
    page.keyboard.press("Enter")
    wait_for(lambda: "No matching runs." in page.inner_text("body"))


def choose_row(page: Page, row: int) -> None:
    """Select a row of the list of runs, which is a canvas with rows of 35 pixels.

    A list that has just been redrawn may ignore a click, so click again until the row is selected.
    """
    grid = page.locator("canvas table").first
    chosen = grid.locator("tbody tr").nth(row).and_(page.locator("[aria-selected=true]"))
    for _ in range(10):
        box = page.get_by_test_id("stDataFrame").first.bounding_box()
        page.mouse.click(box["x"] + 18, box["y"] + 35 + 17 + 35 * row)
        try:
            return chosen.wait_for(state="attached", timeout=5_000)
        except TimeoutError:
            continue
    raise AssertionError(f"row {row} could not be chosen")


@pytest.mark.repeats(area="pages")
def test_dialogs_survive_a_refresh_of_the_run_list(page, dashboard):
    page.goto(dashboard + LONG + "&seed=5")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Cancel").wait_for()
    sent: list[object] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))

    def wait_for_redraw() -> None:
        before = len(sent)
        wait_for(lambda: page.wait_for_timeout(100) or len(sent) >= before + 2)

    page.goto(dashboard + "runs")
    page.get_by_label("Search runs").fill("seed=5 σ=2")
    page.keyboard.press("Enter")
    grid = page.locator("canvas table").first
    wait_for(lambda: grid.count() and grid.get_attribute("aria-rowcount") == "2")  # with its heading
    choose_row(page, 0)
    dialog, delete = page.get_by_role("dialog"), page.get_by_role("button", name="Delete 1")
    for leave in (lambda: dialog.get_by_role("button", name="Cancel").click(), lambda: page.keyboard.press("Escape")):
        delete.click()
        dialog.wait_for()
        wait_for_redraw()
        leave()
        dialog.wait_for(state="detached")
        wait_for_redraw()
        assert delete.is_enabled(), "the row is not selected any more"
    page.get_by_role("button", name="Annotate 1").click()
    dialog.get_by_role("textbox").fill("look at this")
    wait_for_redraw()
    dialog.get_by_role("button", name="Save note").click()
    dialog.wait_for(state="detached")
    delete.wait_for(state="detached")  # after the action, no row is selected
    page.locator("canvas table [aria-selected=true]").wait_for(state="detached")  # nor in the browser
    choose_row(page, 0)
    page.get_by_role("button", name="Annotate 1").click()
    wait_for(lambda: dialog.get_by_role("textbox").input_value() == "look at this")
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.get_by_role("button", name="Cancel 1").click()
    wait_for(lambda: "■ cancelled" in (grid.text_content() or ""))


@pytest.mark.repeats(area="pages")
def test_compare_draws_its_charts_at_each_visit(page, dashboard):
    page.goto(dashboard + "explore")
    for _ in range(2):
        page.get_by_text("Experiment", exact=True).first.click()
        page.get_by_role("menuitem", name="Compare").click()
        wait_for(lambda: address(page) == dashboard + "compare" and "Compare configurations" in answer(page))
        wait_for(lambda: page.locator(".js-plotly-plot .main-svg").count() >= 2)
        page.locator(".parcoords .axis-brush").first.wait_for()
        page.get_by_role("link", name="Home").first.click()
        wait_for(lambda: address(page) == dashboard and answer(page).startswith("See what privacy costs"))


def test_explore_shows_a_published_run(page, dashboard):
    page.goto(dashboard + "explore")
    page.wait_for_selector("h3")
    assert answer(page).startswith("At ε = 1.51")
    wait_for(lambda: plotted(page) >= 20)
    assert plotted(page, "F1, finished") == 10
    fonts = page.evaluate("() => document.fonts.ready.then(() => [...document.fonts].map(font => font.status))")
    assert "loaded" in fonts


@pytest.mark.repeats(area="dashboard")
def test_run_is_shown_from_click_to_result(page, dashboard):
    open_page(page, dashboard + SMALL.replace("epochs=8", "epochs=60"))  # long enough for a slow page to show progress
    assert "privacy cost: ε" in answer(page)
    page.get_by_role("button", name="Run").click()
    seen: set[int] = set()
    zoomed: list[float] = []
    shares: list[int] = []

    def look() -> bool:
        seen.add(plotted(page))
        bar = page.get_by_test_id("stProgress")
        shares.extend(int(share) for text in bar.all_inner_texts() for share in re.findall(r"(\d+)%", text))
        if len(seen) == 3 and not zoomed:
            zoom(page)
            wait_for(lambda: max(shown_range(page), default=1) < 0.9)
            zoomed.extend(shown_range(page))
        return answer(page).startswith("At ε = ")

    wait_for(look, 300)
    assert len(seen - {0}) >= 2, "the curve did not move"
    assert zoomed, "the chart was never zoomed"
    wait_for(lambda: plotted(page) >= 20)
    assert shown_range(page) == pytest.approx(zoomed), "the zoom was lost"
    assert re.search(r"F1 \d", answer(page))
    wait_for(lambda: "Your run of" in page.inner_text("body"))
    assert not page.get_by_role("button", name="Run").is_visible()
    assert shares == sorted(shares), "progress went back"
    took = seconds_in(page, r"Your run of .*?: ")
    page.goto(dashboard + SMALL.replace("epochs=8", "epochs=60") + "&seed=1")
    page.get_by_role("button", name="Run").wait_for()
    estimated = seconds_in(page, "about ")
    # The estimate follows from the last run; the machine's load may differ, but not by a factor of ten.
    assert 1 / 3 < estimated / took < 3


def seconds_in(page: Page, before: str) -> float:
    """Return the duration on the page after a pattern, in seconds."""
    number, unit = re.search(before + r"(\d+) (s|min)\b", page.inner_text("body")).groups()
    return float(number) * {"s": 1, "min": 60}[unit]


@pytest.mark.repeats(area="dashboard")
def test_page_without_active_run_does_not_poll(page, dashboard):
    sent: list[object] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.goto(dashboard + "explore")
    page.wait_for_selector(".js-plotly-plot")
    wait_until_complete(page)

    def silent() -> bool:
        before = len(sent)
        page.wait_for_timeout(500)
        return len(sent) == before

    wait_for(silent)
    sent.clear()
    page.wait_for_timeout(2500)
    assert sent == []


@pytest.mark.repeats(area="pages")
def test_cancelled_run_is_shown_in_both_tabs(page, dashboard):
    page.goto(f"{dashboard}{LONG}&seed={time.time_ns() % 2**32}")  # a second attempt finds no run of the first one
    page.wait_for_selector("h3")
    page.get_by_role("button", name="Run").click()
    wait_for(lambda: plotted(page) >= 1)
    second = page.context.new_page()
    second.goto(address(page))
    second.wait_for_selector("h3")
    wait_for(lambda: answer(second).startswith("Training"))
    page.get_by_role("button", name="Cancel").click()
    for tab in (page, second):
        wait_for(lambda tab=tab: answer(tab).startswith("Stopped at"))
        wait_for(lambda tab=tab: plotted(tab) >= 1)
        assert tab.get_by_role("button", name="Continue").is_visible()


@pytest.mark.repeats(area="pages")
def test_copied_link_opens_the_same_view(page, dashboard, profile):
    open_page(page, dashboard + "explore")
    move_slider(page.get_by_role("slider", name=NOISE), "ArrowRight", "5")
    wait_for(lambda: answer(page).startswith("At ε = 0.177"))
    wait_for(lambda: "noise_multiplier=5" in address(page))
    second = profile().new_page()
    second.goto(address(page))
    second.wait_for_selector("h3")
    assert answer(second) == answer(page)
    second.reload()
    second.wait_for_selector("h3")
    assert answer(second) == answer(page)


@pytest.mark.repeats(area="pages")
def test_browser_back_undoes_a_setting(page, dashboard):
    open_page(page, dashboard + "explore")
    slider = page.get_by_role("slider", name=NOISE)
    move_slider(slider, "ArrowLeft", "0.7")
    wait_for(lambda: "noise_multiplier=0.7" in address(page))
    wait_for(lambda: not answer(page).startswith("At ε = 1.51"))
    wait_until_complete(page)
    page.go_back()
    wait_for(lambda: slider.get_attribute("aria-valuetext") == "1")
    wait_for(lambda: answer(page).startswith("At ε = 1.51"))
    assert address(page) == dashboard + "explore"


@pytest.mark.repeats(area="dashboard")
def test_results_can_be_downloaded(page, dashboard):
    page.goto(dashboard + "explore")
    page.get_by_role("tab", name="Download and repeat").click()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download CSV").click()
    text = Path(started.value.path()).read_text()
    assert text.startswith("part,round,step,epsilon,delta,precision,recall,f1")
    assert len(text.splitlines()) == 27
    with page.expect_download() as started:
        page.locator("[data-title^='Download plot']").first.click()
    assert Path(started.value.path()).read_bytes().startswith(b"\x89PNG")
    assert started.value.suggested_filename == "epsilon-explorer.png"


@pytest.mark.repeats(area="pages")
def test_uploaded_corpus_can_be_used_and_deleted(page, dashboard, tmp_path):
    bad, notes = tmp_path / "bad.conll", tmp_path / "case notes.conll"
    bad.write_text("word O\nName B-PER\nthree columns O\n")
    notes.write_text("token ner_tag\n" + "".join(f"word{i} O\nName{i} B-PER\n\n" for i in range(60)))
    open_page(page, dashboard + "explore")
    page.get_by_text("Upload a corpus").click()
    assert page.locator("strong", has_text="All users of this dashboard").is_visible()
    page.set_input_files("input[type=file]", bad)
    refused = page.get_by_text("bad.conll has 3 columns in line 3")
    wait_for(refused.is_visible)  # with the popover still open
    assert "corpus=my" not in address(page)
    page.set_input_files("input[type=file]", notes)
    types = page.get_by_role("textbox", name="Entity types, which become public")
    wait_for(types.is_visible)
    assert types.input_value() == "PER"
    page.get_by_role("button", name="Add corpus").click()
    wait_for(lambda: "corpus=my-case-notes" in address(page))
    wait_for(lambda: "privacy cost: ε" in answer(page))
    read = page.get_by_text(
        "Imported 60 sentences (48 for training, 6 for validation, 6 for testing). Entities: 60 PER."
    )
    wait_for(read.is_visible)
    page.keyboard.press("Escape")
    page.get_by_text("Rename or delete").click()
    delete = page.get_by_role("button", name="Delete corpus")
    assert delete.is_disabled()
    page.get_by_text("I understand that this cannot be undone").click()
    wait_for(delete.is_enabled)
    delete.click()
    wait_for(lambda: "corpus=synthetic" in address(page))
    page.goto(dashboard + "explore?corpus=my-case-notes")
    wait_for(lambda: "is not in the catalogue of this dashboard" in page.inner_text("body"))


@pytest.mark.nightly  # tests/pages/test_explore.py has the same without a browser
def test_several_seeds_are_shown_from_click_to_result(page, dashboard):
    page.goto(dashboard + SMALL.replace("epochs=8", "epochs=2").replace("multiplier=1", "multiplier=0.3"))
    page.wait_for_selector("h3")
    assert "privacy cost: ε" in answer(page)
    page.get_by_text("Vary seed or σ").click()
    page.get_by_role("button", name="Start missing runs of seeds").click()
    wait_for(lambda: "of 5 seeds (0, 1, 2, 3, 4) are done" in page.inner_text("body"))
    wait_for(lambda: "5 seeds (0, 1, 2, 3, 4): F1" in page.inner_text("body"), 300)
    wait_for(lambda: answer(page).startswith("At ε = "))


SERVER = """
import runpy, sys
from pathlib import Path
from typing import Literal
from engine import setup_status as readiness
readiness.FOLDER = Path(sys.argv.pop(1))
runpy.run_module("streamlit", run_name="__main__")
"""
"""Streamlit's server with the test's set-up status."""


@pytest.fixture
def dashboard_during_set_up(tmp_path, monkeypatch):
    """Yield the address of a dashboard during set-up."""
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    port = free_port()
    options = [
        "run",
        serve.SERVER,
        "--server.port",
        str(port),
        "--server.headless",
        "true",
        "--server.address",
        "localhost",
    ]
    with setup_status.alone(lambda: None):
        setup_status.tell(Progress(parts=("word vectors", "training step")))
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(tmp_path), *options],
            cwd=ROOT,
            env=os.environ | {"EPSILON_HOME": str(tmp_path / "home")},
        )
        wait_for(lambda: answers(f"http://localhost:{port}/_stcore/health"))
        yield f"http://localhost:{port}/"
    server.terminate()
    server.wait(30)


@pytest.mark.nightly  # tests/pages/test_setup_status.py has the same without a browser
def test_set_up_progress_is_shown_until_set_up_ends(dashboard_during_set_up, page):
    page.goto(dashboard_during_set_up)
    status = page.locator(".st-key-set_up")
    expect(status).to_contain_text("0 of 2 parts done, now: word vectors")
    setup_status.tell(Progress(parts=("word vectors", "training step"), over=1, step="5 of 62 functions"))
    expect(status).to_contain_text("1 of 2 parts done, now: training step (5 of 62 functions)")
    setup_status.all_is_there()
    expect(status).to_have_count(0)
