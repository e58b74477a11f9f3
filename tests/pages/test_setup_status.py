"""Notices of running, finished, failed and interrupted set-up."""

import re
from contextlib import nullcontext

import pytest
from streamlit.testing.v1 import AppTest

from engine import setup_status
from engine.setup_status import LANGUAGE_MODEL, TRAINING, VECTORS, Progress
from tests.pages.reading import figures

IN_PROGRESS = Progress(parts=(VECTORS, TRAINING, LANGUAGE_MODEL), over=1, step="5 of 62 functions")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)


def progress_bars(page: AppTest) -> list[tuple[str, int]]:
    """Return the text and the percentage of each progress bar."""
    bars = [bar.proto for bar in page.get("progress")]
    return [(re.sub(r"\\(.)", r"\1", bar.text), bar.value) for bar in bars]


def warnings(page: AppTest) -> list[str]:
    return [re.sub(r"\\(.)", r"\1", warning.value) for warning in page.warning]


@pytest.mark.parametrize("name", ["explore", "runs", "compare"])
def test_pages_show_progress_until_set_up_ends(open_page, name):
    with setup_status.alone(lambda: None):
        setup_status.tell(IN_PROGRESS)
        page = open_page(name)
        ((text, per_cent),) = progress_bars(page)
        assert figures(text) == ["1", "3", "5", "62"]
        assert "training step (5 of 62 functions)" in text
        assert per_cent == 33
        setup_status.all_is_there()
    page.run()
    assert progress_bars(page) == []
    assert warnings(page) == []


@pytest.mark.parametrize("context", [nullcontext, lambda: setup_status.alone(lambda: None)])
def test_finished_set_up_has_no_notice(open_page, context):
    with context():
        page = open_page("runs")
    assert progress_bars(page) == []
    assert warnings(page) == []


def test_failed_part_shows_a_warning_with_the_fix(open_page):
    sentence = "The training step could not be made (ValueError: [LLVM]): `make setup` tries again."
    setup_status.tell(Progress(parts=(VECTORS, TRAINING), over=2, failed={TRAINING: sentence}))
    page = open_page("runs")
    assert progress_bars(page) == []
    assert warnings(page) == [sentence]


def test_interrupted_set_up_lists_missing_parts(open_page):
    setup_status.tell(IN_PROGRESS)
    page = open_page("runs")
    assert progress_bars(page) == []
    (text,) = warnings(page)
    assert "training step, language model" in text
    assert "word vectors" not in text
