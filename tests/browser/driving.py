"""Helpers for browser tests: addresses and texts of pages, and waiting."""

import ast
import contextlib
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
MARKED = "() => [...(CSS.highlights.get('terms') ?? [])].map(range => range.toString())"
"""Script that returns the terms of the page with a glossary tooltip."""
UNEXPLAINED = """() => {
  const marked = new Set([...(CSS.highlights.get("terms") ?? [])].flatMap(range => [...range.toString()]));
  const walk = document.createTreeWalker(document.querySelector(".stMain"), NodeFilter.SHOW_TEXT);
  const left = [];
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (node.parentElement.closest("svg, canvas, button, a, summary, label:has(input), input, code, style")) continue;
    left.push(...(node.data.match(/[α-ωΑ-Ω]/g) ?? []).filter(letter => !marked.has(letter)).map(() => node.data));
  }
  return left;
}"""
"""Script that returns the texts with Greek letters without a tooltip."""


def page_addresses() -> list[str]:
    """Return the paths of the pages that ``app.py`` offers all users; the root has the empty path."""
    calls = (node for node in ast.walk(ast.parse((ROOT / "app.py").read_text())) if isinstance(node, ast.Call))
    names = (
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "_page"
        and isinstance(call.args[0], ast.Constant)
        and not any(keyword.arg == "visibility" for keyword in call.keywords)
    )
    return sorted({str(name) for name in names} - {"account"})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(address: str) -> bool:
    try:
        return urllib.request.urlopen(address, timeout=2).status == 200
    except (urllib.error.URLError, OSError):
        return False


def wait_for(condition: Callable[[], object], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "condition not met in time"
        time.sleep(0.1)


def answer(page: Page) -> str:
    """Return the first heading of the page, which states its result."""
    return page.locator("h3").first.inner_text().replace("\u00a0", " ")


def open_page(page: Page, address: str) -> None:
    """Open a page and wait until it is complete: before, a widget may ignore a key."""
    page.goto(address)
    wait_for(lambda: answer(page))
    wait_until_complete(page)


def wait_until_complete(page: Page) -> None:
    """Wait until the page's script has ended; on a busy machine, *Tag text* takes minutes to load NER taggers."""
    page.wait_for_selector("[data-test-script-state='notRunning']", timeout=400_000)


def move_slider(slider: Locator, key: str, value: str) -> None:
    """Press a key until a slider keeps a value: a slider that is drawn again may ignore the key or fall back."""

    def has_value() -> bool:
        before = slider.get_attribute("aria-valuetext")
        if before == value:
            slider.page.wait_for_timeout(500)
            return slider.get_attribute("aria-valuetext") == value
        slider.press(key)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: slider.get_attribute("aria-valuetext") != before, 3)
        return False

    wait_for(has_value)


def address(page: Page) -> str:
    """Return the current address of the page."""
    return page.evaluate("() => location.href")
