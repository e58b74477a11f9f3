"""Retake the screenshots of the docs: ``python -m benchmarks.screenshots`` (one: ``--only explore``).

Starts a dashboard with a home of its own, so that only published runs are shown, and drives it in Chromium. The browser
tests follow the same steps. They fail if a step of a tutorial no longer works, or if a screenshot no longer matches its
page.
"""

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from PIL import Image, ImageChops, ImageStat
from playwright.sync_api import Locator, Page, expect, sync_playwright

from engine.settings import REPOSITORY
from tests.browser import chromium
from tests.browser.driving import FLAGS, free_port

DOCS = REPOSITORY / "docs"
TUTORIALS = ("compliance", "engineer", "teacher")
HOME = "http://localhost:8501/"
"""Address of the dashboard in the tutorials."""
PATIENCE = 400_000
"""Timeout of a page in milliseconds: *Tag text* first loads taggers, on a machine with other work."""
STEP_MILLISECONDS = 20_000
"""Longest wait for one step of a tutorial, whose page is complete by then."""
_COLOURS = 256
"""Number of colours of a screenshot: the pages have few, and files stay small."""
_COARSE = (64, 40)
"""Resolution at which two screenshots are compared: words may change, the layout may not."""
APART = 4.0
"""Mean pixel difference, of 255, above which a screenshot is outdated.

Another position of a slider differs by 1, the same page with another open section by 6, another page by 8 or more.
"""


def _nothing(page: Page) -> None:
    """Leave the page as it opens."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One screenshot.

    Attributes:
        file: Path in ``docs/``.
        link: Link, after the address of the dashboard.
        then: Actions on the page before the screenshot.
    """

    file: str
    link: str = ""
    then: Callable[[Page], None] = _nothing


PICTURES = (
    Picture(file="explore.png", link="explore"),
    Picture(file="tutorials/noise.png", link="explore?corpus=synthetic&noise_multiplier=5"),
    Picture(file="tutorials/word.png", link="explore", then=lambda page: word(page, "δ")),
    Picture(file="tutorials/practice.png", link="practice"),
    Picture(file="tutorials/lesson.png", link="learn?lesson=promise&guess=90", then=lambda page: drawn(page)),
    Picture(file="tutorials/compare.png", link="compare", then=lambda page: to(page, "All finished runs")),
    Picture(file="tutorials/promise.png", link="explore", then=lambda page: to(press(page, "What does this ε mean?"))),
    Picture(file="tutorials/check.png", link="explore", then=lambda page: to(press(page, "Noise check passed"))),
)
"""All screenshots."""


def step(page: Page, address: str) -> None:
    """Open an address and wait until the page is complete: its answer, its charts, and no running script."""
    page.goto(address)
    page.wait_for_selector(".stMain h3", timeout=PATIENCE)
    at_rest(page)


def at_rest(page: Page) -> None:
    """Wait until the script of the page has ended and its charts are drawn."""
    page.wait_for_selector("[data-test-script-state='notRunning']", timeout=PATIENCE)
    expect(page.locator(".stMain [data-testid=stSkeleton], .stSpinner")).to_have_count(0, timeout=PATIENCE)
    page.evaluate("() => document.fonts.ready")


def shown(page: Page, text: str | re.Pattern[str]) -> Locator:
    """Return the first visible element with this text."""
    return page.locator(".stApp").get_by_text(text).locator("visible=true").first


def press(page: Page, text: str) -> Locator:
    """Click on the element whose text starts with this one, and return it."""
    element = shown(page, re.compile(rf"^\s*{re.escape(text)}"))
    element.click(timeout=STEP_MILLISECONDS)
    at_rest(page)
    return element


def to(page: Page | Locator, text: str | None = None) -> None:
    """Scroll an element to the top of the window."""
    element = shown(page, text) if isinstance(page, Page) and text else page
    if isinstance(element, Locator):
        element.evaluate("element => element.scrollIntoView({ block: 'start' })")
        element.page.evaluate("() => document.querySelector('.stMain').scrollBy(0, -80)")


def drawn(page: Page) -> None:
    """Wait for the first chart of the page, whose script loads after the page."""
    page.locator(".stMain .js-plotly-plot .main-svg").first.wait_for(timeout=PATIENCE)


def word(page: Page, form: str) -> None:
    """Open the glossary entry of a marked term in the answer."""
    centre = """form => {
      const marked = [...(CSS.highlights.get("terms") ?? [])];
      const range = marked.find(each => each.toString() === form && each.startContainer.parentElement.closest("h3"));
      const box = range?.getBoundingClientRect();
      return box && [box.left + box.width / 2, box.top + box.height / 2];
    }"""
    found = page.wait_for_function(centre, arg=form).json_value()
    page.mouse.click(*found)
    expect(page.locator(".card")).to_be_visible()


def take(page: Page, dashboard: str, picture: Picture) -> bytes:
    """Return the screenshot as a PNG of 1280 × 800 pixels."""
    step(page, dashboard + picture.link)
    picture.then(page)
    at_rest(page)
    page.mouse.move(2, 2)
    _still(page)
    shot = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    small = io.BytesIO()
    shot.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE).save(small, "PNG", optimize=True)
    return small.getvalue()


def _still(page: Page) -> None:
    """Wait until two screenshots, half a second apart, are equal, since charts are drawn after the page."""
    before = page.screenshot()
    for _ in range(20):
        page.wait_for_timeout(500)
        after = page.screenshot()
        if after == before:
            return
        before = after


def apart(one: bytes, other: bytes) -> float:
    """Return the mean difference of two screenshots at low resolution, from 0 to 255."""
    images = [
        Image.open(io.BytesIO(image)).convert("RGB").resize(_COARSE, Image.Resampling.BOX) for image in (one, other)
    ]
    means = ImageStat.Stat(ImageChops.difference(*images)).mean
    return sum(means) / len(means)


STEP = re.compile(r"\]\((?P<link>http://localhost:8501/[^)]*)\)|(?P<press>Press\s)?\*\*(?P<name>[^*]+)\*\*")
"""Actions in a tutorial: a link is opened, *Press* **name** clicks, **name** alone must be visible."""


def steps(tutorial: str) -> Iterator[tuple[str, str]]:
    """Yield the actions of a tutorial, in order: "open", "press" or "see", and the address or the name."""
    for found in STEP.finditer((DOCS / "tutorials" / f"{tutorial}.md").read_text(encoding="utf-8")):
        if found["link"]:
            yield "open", found["link"].removeprefix(HOME)
        else:
            yield ("press" if found["press"] else "see"), " ".join(found["name"].split())


def follow(page: Page, dashboard: str, tutorial: str) -> None:
    """Follow the actions of a tutorial. Raises AssertionError or TimeoutError with the name of a missing element."""
    for kind, what in steps(tutorial):
        if kind == "open":
            step(page, dashboard + what)
        elif kind == "press":
            press(page, what)
        else:
            expect(shown(page, what), f"“{what}” in the tutorial of the {tutorial}").to_be_visible(
                timeout=STEP_MILLISECONDS
            )


@contextmanager
def a_dashboard() -> Iterator[str]:
    """Start a dashboard without runs of a user, and yield its address."""
    with tempfile.TemporaryDirectory() as home:
        port = free_port()
        environment = os.environ | {"EPSILON_HOME": home, "PORT": str(port), "CI": "true"}
        server = subprocess.Popen([sys.executable, "-m", "engine.serve"], cwd=REPOSITORY, env=environment)
        try:
            for _ in range(600):
                with suppress(OSError), urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=2):
                    break
                time.sleep(0.2)
            yield f"http://localhost:{port}/"
        finally:
            server.terminate()
            server.wait(60)


def main() -> None:
    """Write the screenshots into ``docs/``."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", help="part of a screenshot's name")
    only = options.parse_args().only or ""
    program = chromium.find()
    with a_dashboard() as dashboard, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        for picture in PICTURES:
            if only in picture.file:
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                file = DOCS / picture.file
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(take(page, dashboard, picture))
                sys.stdout.write(f"{file.relative_to(REPOSITORY)}: {file.stat().st_size / 1000:.0f} kB\n")
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
