"""A poll counts one valid answer per phone."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lessons.poll import MOST_PHONES, Poll, Question, Refused, Tally
from engine.lessons.poll.rounds import MOST_BINS

QUESTION = Question(name="one", text="How many?", label="Of a hundred", low=0, high=100, step=1, unit=" %")


@pytest.fixture
def poll():
    opened = Poll()
    opened.open(QUESTION)
    return opened


def token(poll: Poll) -> str:
    return poll.current().token


def test_later_answer_replaces_earlier_one(poll):
    poll.answer(token(poll), "a", "10")
    poll.answer(token(poll), "b", "40")
    poll.answer(token(poll), "a", " 25,5 ")
    assert poll.current().values == (25.5, 40.0)
    assert poll.answered("a") == 25.5
    assert poll.answered("c") is None


@pytest.mark.parametrize(
    "text", ["-0.001", "100.1", "nan", "inf", "-inf", "1e400", "", "ten", "1.2.3", "0x10", "٣ %", "<b>"]
)
def test_invalid_number_is_rejected(poll, text):
    with pytest.raises(Refused, match=r"no number .*\b0 to 100\b"):
        poll.answer(token(poll), "a", text)
    assert poll.current().values == ()


def test_each_opening_starts_a_new_round(poll):
    before = token(poll)
    poll.answer(before, "a", "10")
    poll.open(QUESTION)
    assert poll.current().values == ()
    with pytest.raises(Refused, match="closed"):
        poll.answer(before, "a", "10")
    other = replace(QUESTION, name="two")
    poll.open(other)
    assert not poll.of("one").is_open
    assert poll.current().question == other


def test_closed_round_keeps_answers_and_accepts_no_more(poll):
    opened = token(poll)
    poll.answer(opened, "a", "10")
    poll.close()
    poll.close()
    assert poll.current() is None
    assert poll.answered("a") is None
    assert poll.of("one").values == (10.0,)
    with pytest.raises(Refused, match="closed"):
        poll.answer(opened, "b", "10")


def test_clear_deletes_answers_of_one_lesson(poll):
    poll.answer(token(poll), "a", "10")
    poll.clear("two")
    assert poll.current().values == (10.0,)
    poll.clear("one")
    assert poll.current().values == ()
    poll.answer(token(poll), "a", "20")
    poll.close()
    poll.clear("one")
    assert poll.of("one") is None


def test_number_of_phones_is_limited_but_they_may_change_answers(poll):
    for phone in range(MOST_PHONES):
        poll.answer(token(poll), str(phone), "1")
    with pytest.raises(Refused, match=f"{MOST_PHONES} phones have answered"):
        poll.answer(token(poll), "late", "1")
    poll.answer(token(poll), "0", "2")
    assert len(poll.current().values) == MOST_PHONES
    assert poll.current().values[-1] == 2


def test_answers_from_many_threads_are_counted(poll):
    opened = token(poll)
    threads = [
        threading.Thread(target=lambda first=first: [poll.answer(opened, f"{first}-{k}", str(k)) for k in range(50)])
        for first in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(poll.current().values) == 400


def tally(values, low=0.0, high=100.0, step=1.0) -> Tally:
    question = replace(QUESTION, low=low, high=high, step=step)
    return Tally(question=question, token="t", is_open=True, values=tuple(sorted(values)))


@given(
    st.sampled_from([(0, 100, 1), (0, 1, 0.05), (-5, 5, 0.5), (1, 8, 1), (0, 10_000, 100)]),
    st.lists(st.floats(0, 1), max_size=60),
)
def test_bins_equal_numpy_histogram(ends, shares):
    low, high, step = ends
    values = [low + share * (high - low) for share in shares]
    found = tally(values, low, high, step)
    edges, counts = found.bins()
    assert len(counts) <= MOST_BINS
    assert np.allclose(np.diff(edges), edges[1] - edges[0])
    assert edges[0] < low
    assert edges[-1] > high
    assert sum(counts) == len(values)
    near = [value for value in values if np.min(np.abs(np.array(edges) - value)) < 1e-9 * max(1, high)]
    if not near:  # on an edge, rounding decides
        assert counts == np.histogram(values, edges)[0].tolist()


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40))
def test_median_equals_numpy(values):
    assert tally(values).median == pytest.approx(np.median(values))


def test_median_of_no_answers_is_nan():
    assert math.isnan(tally([]).median)
