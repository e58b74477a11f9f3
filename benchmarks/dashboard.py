"""Waiting times of a dashboard user: ``python -m benchmarks.dashboard [--corpus NAME] [--whole] [--json]``.

Starts the dashboard as `make run` does, with a home of its own, and drives it in Chromium: start to first answer of the
server, a fresh profile to the answer sentence on a warm server, and the click on *Run* to the first point. The last is
measured twice: at the corpus's first use, and with another seed. ``--whole`` waits for the second run's final answer.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.dashboard_process import dashboard
from engine.hardware import machine_class
from tests.browser import chromium

FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
POINTS = "() => document.querySelector('.js-plotly-plot')?.data?.find(c => c.name === 'F1, this run')?.y.length ?? 0"
SEEDS = (1001, 1002)
"""Seeds without published runs."""


def seconds_until(condition: Callable[[], object], limit: float = 900) -> float:
    """Return the seconds until ``condition`` holds, polled every 50 ms. Raises TimeoutError after ``limit`` s."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > limit:
            raise TimeoutError(f"not within {limit:g} s")
        time.sleep(0.05)
    return time.monotonic() - start


def open_page(browser: Browser, address: str) -> tuple[Page, float]:
    """Open ``address`` in a fresh profile; return the page and the seconds to its answer sentence."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    start = time.monotonic()
    page.goto(address)
    page.wait_for_selector("h3")
    return page, time.monotonic() - start


def click_to_point(page: Page) -> float:
    """Return the seconds from the click on *Run* to the first point."""
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Run").click()
    return seconds_until(lambda: page.evaluate(POINTS))


def measure(address: str, corpus: str, whole: bool) -> dict[str, float]:
    """Return the waiting times in seconds by name."""
    path = chromium.find()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS.split())
        open_page(browser, address)
        page, seconds = open_page(browser, address)
        paint = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")
        measured = {"first_paint": paint, "fresh_profile_to_answer": seconds}
        start = time.monotonic()
        page.reload()
        page.wait_for_selector("h3")
        measured["visit_again_to_answer"] = time.monotonic() - start
        for name, seed in zip(("first_use", "warm"), SEEDS, strict=True):
            page, _ = open_page(browser, f"{address}?corpus={corpus}&noise_multiplier=1&seed={seed}")
            measured[f"click_to_point_{name}"] = click_to_point(page)
            if name == "warm" and whole:
                start = time.monotonic()
                seconds_until(lambda page=page: page.locator("h3").first.inner_text().startswith("At "))  # type: ignore[misc]
                measured["click_to_final_answer"] = measured["click_to_point_warm"] + time.monotonic() - start
            else:
                click = time.monotonic()
                page.get_by_role("button", name="Cancel").click()
                page.get_by_text("Stopped at").wait_for()
                measured[f"cancel_to_stopped_{name}"] = time.monotonic() - click
        browser.close()
    return measured


def main() -> None:
    """Start a dashboard, measure, stop it, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="synthetic")
    parser.add_argument("--whole", action="store_true", help="wait for the final answer of a run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, dashboard(Path(home)) as started:
        time.sleep(15)  # workers warm up in the background after the first paint
        explore = f"{started.address}/explore"
        measured = {"start": started.start_seconds, **measure(explore, chosen.corpus, chosen.whole)}
    if chosen.json:
        sys.stdout.write(json.dumps(measured | {"machine": machine_class()}) + "\n")
    else:
        sys.stdout.write("".join(f"{name.replace('_', ' '):28}{value:7.2f} s\n" for name, value in measured.items()))
        sys.stdout.write(f"On {machine_class()}.\n")


if __name__ == "__main__":
    main()
