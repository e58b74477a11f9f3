"""Response times of the lessons: ``python -m benchmarks.lessons [--turns N] [--json] [--save]``.

Starts a dashboard with a home of its own and drives it in Chromium. In each lesson an arrow key moves one control step
by step, and back. Measured are the seconds from the key press to the new sentence above the chart, at first and at
later visits of a position. Lesson 5 computes neighbouring positions while the control rests. Its live run is timed from
opening the page to the first point, each time with another setting.
"""

import argparse
import statistics
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.report import finish, lessons_table
from benchmarks.screenshots import a_dashboard, step
from pages.learn.lessons import LESSONS
from tests.browser import chromium
from tests.browser.driving import FLAGS

CONTROLS = {
    "names": "Known ratings",
    "promise": "Prior belief, %",
    "noise": "Letters counted per family",
    "trust": "Respondents",
    "federated": "Sentences in a batch",
    "step": "Noise multiplier σ",
    "price": "Largest acceptable ε",
}
"""The control of each lesson; the sentence differs at each of its positions."""
MOVES = 4
"""Number of new positions; lesson 5's control has no more."""
ROADS = (0, 5, 10)
"""Settings of lesson 5's live run (travelling owners, of 100) that nothing else computes."""
_WATCH = """() => { window.answered = new Promise((done, missed) => {
  setTimeout(() => missed(new Error("no other sentence within two minutes")), 120000);
  const heading = () => document.querySelector(".stMain h4")?.innerText;
  const before = heading();
  let begun = 0;
  document.addEventListener("keydown", () => { begun = performance.now(); }, { capture: true, once: true });
  const watch = new MutationObserver(() => {
    if (!begun || !heading() || heading() === before) return;
    watch.disconnect();
    done((performance.now() - begun) / 1000);
  });
  watch.observe(document.body, { childList: true, subtree: true, characterData: true });
}); }"""
_DRAWN = "() => document.querySelector('.js-plotly-plot')?.data?.some(each => each.name === 'at home' && each.y.length)"
_SECONDS = 300_000


def moved(page: Page, label: str, key: str) -> float:
    """Return the seconds from a key press on a control to the new sentence."""
    page.get_by_role("slider", name=label).focus()
    page.evaluate(_WATCH)
    page.keyboard.press(key)
    took = float(page.evaluate("() => window.answered"))
    page.wait_for_selector("[data-test-script-state='notRunning']", timeout=_SECONDS)
    page.wait_for_timeout(300)
    return took


def lesson(page: Page, dashboard: str, name: str, turns: int) -> dict[str, float]:
    """Return the median seconds at first and later visits of a position, starting from the control's left end."""
    step(page, f"{dashboard}learn?lesson={name}&guess=none")
    page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=_SECONDS)
    page.get_by_role("slider", name=CONTROLS[name]).focus()
    before = page.locator(".stMain h4").first.inner_text()
    page.keyboard.press("Home")
    page.wait_for_function("before => document.querySelector('.stMain h4').innerText !== before", arg=before)
    page.wait_for_selector("[data-test-script-state='notRunning']", timeout=_SECONDS)
    page.wait_for_timeout(1000)
    first = [moved(page, CONTROLS[name], "ArrowRight") for _ in range(MOVES)]
    again = []
    for _ in range(turns):
        again += [moved(page, CONTROLS[name], key) for key in ("ArrowLeft",) * MOVES + ("ArrowRight",) * MOVES]
    return {"first": round(statistics.median(first), 2), "again": round(statistics.median(again), 2)}


def first_points(browser: Browser, dashboard: str) -> float:
    """Return the median seconds from opening lesson 5's live run to its first point, with a new setting each time."""
    times = []
    for road in ROADS:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto("about:blank")
        link = f"{dashboard}learn?lesson=federated&guess=none&l5_view=Federated+averaging&l5_road={road}"
        page.goto(link, wait_until="commit")
        page.wait_for_function(_DRAWN, timeout=_SECONDS)
        times.append(float(page.evaluate("() => performance.now() / 1000")))
        page.close()
    return round(statistics.median(times), 2)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--turns", type=int, default=3, metavar="N", help="rounds over the visited positions; default: 3"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    values: dict[str, Any] = {"lessons": []}
    with a_dashboard() as dashboard, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=FLAGS)
        for number, entry in enumerate(LESSONS, start=1):
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(_SECONDS)
            about = {"lesson": f"{number}. {entry.title}", "moved": CONTROLS[entry.name]}
            values["lessons"].append(about | lesson(page, dashboard, entry.name, options.turns))
            page.close()
        values["first_point"] = first_points(browser, dashboard)
        browser.close()
    finish("lessons", values, lessons_table(values), as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
