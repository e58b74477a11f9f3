"""What pages say of set-up while it goes on behind them, and where it could not do something."""

import re
from contextlib import nullcontext

import pytest
from streamlit.testing.v1 import AppTest

from engine import setup_status
from engine.setup_status import LANGUAGE_MODEL, TRAINING, VECTORS, Progress
from tests.pages.reading import figures

UNDER_WAY = Progress(parts=(VECTORS, TRAINING, LANGUAGE_MODEL), over=1, step="5 of 62 functions")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)


def going_on(page: AppTest) -> list[tuple[str, int]]:
    """Sentences beside a bar, as they are read, and how far the bar is, in per cent."""
    bars = [bar.proto for bar in page.get("progress")]
    return [(re.sub(r"\\(.)", r"\1", bar.text), bar.value) for bar in bars]


def warnings(page: AppTest) -> list[str]:
    return [re.sub(r"\\(.)", r"\1", warning.value) for warning in page.warning]


@pytest.mark.parametrize("name", ["explore", "runs", "compare"])
def test_while_it_goes_on_each_page_says_so_and_no_longer_when_it_is_done(open_page, name):
    with setup_status.alone(lambda: None):
        setup_status.tell(UNDER_WAY)
        page = open_page(name)
        ((said, per_cent),) = going_on(page)
        assert figures(said) == ["1", "3", "5", "62"]
        assert "training step (5 of 62 functions)" in said
        assert per_cent == 33
        setup_status.all_is_there()
    page.run()
    assert going_on(page) == []
    assert warnings(page) == []


@pytest.mark.parametrize("known", [nullcontext, lambda: setup_status.alone(lambda: None)])
def test_where_nothing_is_missing_nothing_is_said(open_page, known):
    with known():
        page = open_page("runs")
    assert going_on(page) == []
    assert warnings(page) == []


def test_what_failed_is_said_with_what_to_do(open_page):
    sentence = "The training step could not be made (ValueError: [LLVM]): `make setup` tries again."
    setup_status.tell(Progress(parts=(VECTORS, TRAINING), over=2, failed={TRAINING: sentence}))
    page = open_page("runs")
    assert going_on(page) == []
    assert warnings(page) == [sentence]


def test_a_set_up_that_was_ended_says_what_is_missing(open_page):
    setup_status.tell(UNDER_WAY)
    page = open_page("runs")
    assert going_on(page) == []
    (said,) = warnings(page)
    assert "training step, language model" in said
    assert "word vectors" not in said
