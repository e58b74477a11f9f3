"""Each step of a tutorial can be done, and each picture of the docs shows what the page does.

This file comes first of those in this folder: the dashboard that all share has published runs alone as yet.
"""

import ast
import io
import re

import pytest
from PIL import Image, ImageDraw

from benchmarks import screenshots
from tests.browser.driving import answer, wait_for
from tests.modules import FILES

MOST_BYTES = 150_000
TEXTS = [*screenshots.DOCS.rglob("*.md"), screenshots.REPOSITORY / "README.md"]


def used() -> set[str]:
    """Pictures in the texts, by their place in ``docs/``."""
    named = {
        (text.parent / name).resolve()
        for text in TEXTS
        for name in re.findall(r"!\[.*\]\((.*\.png)\)", text.read_text())
    }
    return {path.relative_to(screenshots.DOCS).as_posix() for path in named}


def test_the_table_has_exactly_the_pictures_that_the_docs_show():
    names = [picture.file for picture in screenshots.PICTURES]
    assert sorted(used()) == sorted(names)
    assert {path.relative_to(screenshots.DOCS).as_posix() for path in screenshots.DOCS.rglob("*.png")} == set(names)


def test_a_tutorial_is_read_as_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(screenshots, "DOCS", tmp_path)
    (tmp_path / "tutorials").mkdir()
    text = "Open [it](http://localhost:8501/runs?a=1), see **two\nwords**. Press\n**Go**. [No](../metrics.md)\n"
    (tmp_path / "tutorials" / "one.md").write_text(text)
    assert list(screenshots.steps("one")) == [("open", "runs?a=1"), ("see", "two words"), ("press", "Go")]


def test_the_teacher_is_led_through_lessons_a_poll_and_a_redaction():
    done = list(screenshots.steps("teacher"))
    assert ("press", "Submit guess") in done
    assert ("press", "Open poll") in done
    assert done.index(("open", "try")) < done.index(("press", "black squares"))
    assert "EPSILON_POLL_ADDRESS=8600 make run" in (screenshots.DOCS / "tutorials" / "teacher.md").read_text(
        encoding="utf-8"
    )


def test_tutorials_quote_texts_of_the_product():
    """A renamed label would otherwise be found minutes later, by the browser."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES.values()]
    constants = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    texts = "\n".join({text for text in constants if isinstance(text, str)})
    quotes = {text for name in screenshots.TUTORIALS for verb, text in screenshots.steps(name) if verb != "open"}
    pieces = {piece.strip(". ") for quote in quotes for piece in re.split(r"\d+", quote) if piece.strip(". ")}
    assert len(pieces) > 25
    assert [piece for piece in sorted(pieces) if piece not in texts] == []


def drawn(left: int) -> bytes:
    image = Image.new("RGB", (1280, 800), "white")
    ImageDraw.Draw(image).rectangle((left, 100, left + 500, 700), fill="black")
    found = io.BytesIO()
    image.save(found, "PNG")
    return found.getvalue()


def test_pictures_are_held_against_each_other_from_afar():
    assert screenshots.apart(drawn(100), drawn(100)) == 0
    assert screenshots.apart(drawn(100), drawn(102)) < screenshots.APART < screenshots.apart(drawn(100), drawn(400))


@pytest.mark.browser
@pytest.mark.repeats(area="pages")
def test_the_first_link_to_a_page_opens_it_with_the_navigation(page, dashboard):
    """Before anything else was opened on this server, whose pages Streamlit would then take for an older kind."""
    page.goto(dashboard + "paper")
    page.wait_for_selector("h3")
    assert "Reported results" in answer(page)
    page.get_by_role("link", name="Home").first.click()
    wait_for(lambda: answer(page).startswith("See what privacy costs"))


@pytest.mark.repeats(area="pages")
@pytest.mark.browser
@pytest.mark.parametrize("tutorial", screenshots.TUTORIALS)
def test_every_step_of_a_tutorial_can_be_done(page, dashboard, tutorial):
    assert len(list(screenshots.steps(tutorial))) >= 8
    screenshots.follow(page, dashboard, tutorial)


@pytest.mark.browser
@pytest.mark.repeats(area="dashboard")
def test_a_step_that_no_longer_works_is_named(page, dashboard, monkeypatch):
    monkeypatch.setattr(screenshots, "steps", lambda tutorial: [("open", "glossary"), ("see", "No such name")])
    monkeypatch.setattr(screenshots, "STEP_MILLISECONDS", 1_000)
    with pytest.raises(AssertionError, match="No such name"):
        screenshots.follow(page, dashboard, "teacher")


@pytest.mark.browser
@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("picture", screenshots.PICTURES, ids=lambda picture: picture.file)
@pytest.mark.repeats(area="dashboard")
def test_a_picture_shows_what_the_page_does(page, dashboard, picture):
    """From afar: if the page has changed, ``python -m benchmarks.screenshots`` takes the picture again."""
    taken = screenshots.take(page, dashboard, picture)
    assert len(taken) < MOST_BYTES
    kept = (screenshots.DOCS / picture.file).read_bytes()
    assert Image.open(io.BytesIO(kept)).size == Image.open(io.BytesIO(taken)).size
    assert screenshots.apart(kept, taken) < screenshots.APART
