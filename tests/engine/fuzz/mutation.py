"""Mutations of valid files: bytes, lines, JSON values and sizes; and the permitted reactions of a reader."""

import copy
import gc
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from engine.errors import EpsilonError

SECONDS = 1.0
"""Of processor time, that a reader may take for a file of some kilobytes. What takes longer at first is read twice more
without collections of garbage, and the quickest counts: the first use of a library, or a collection among the objects
of five thousand tests, takes a second by itself, and neither is the reader's."""
BYTES = 300_000_000
"""That the process may grow by meanwhile."""

EXAMPLE_SECONDS = 2
"""That a test has for each example, on a machine that is busy: the limit of all tests would end five thousand."""


def fuzzed(test: Callable[..., None]) -> Callable[..., None]:
    """A test of as many examples as the profile says, and with the time for them."""
    quiet = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    return pytest.mark.timeout(max(900, EXAMPLE_SECONDS * settings().max_examples))(quiet(test))


ODD_NUMBERS = (0, -1, 2**31, 2**63, 10**400, 1e308, float("inf"), -float("inf"), float("nan"), True)
ODD_TEXTS = ("", "\0", "../../x", "a" * 5000, "9" * 5000, "²", "١", "\ud800", "nan", "1e999", "0001-01-01", "{}")
ODD_VALUES = (*ODD_NUMBERS, *ODD_TEXTS, None, [], {}, [[]], {"a": 1})
ODD_BYTES = (b"\0", b"\n", b"\r", b"\t", b" ", b"|", b"\xff\xfe", b"\xef\xbb\xbf", b"-", b"9" * 5000, b"\xc2\xa0", b"")


@st.composite
def damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    """A file with some bytes changed, cut out, doubled, or put in."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        until = min(len(data), at + draw(st.integers(0, 40)))
        match draw(st.sampled_from(["change", "cut", "double", "end", "flip"])):
            case "change":
                data[at:until] = draw(st.sampled_from(ODD_BYTES) | st.binary(max_size=20))
            case "cut":
                del data[at:until]
            case "double":
                data[at:at] = data[at:until] * draw(st.integers(1, 50))
            case "end":
                del data[at:]
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case _:
                pass
    return bytes(data)


@st.composite
def altered(draw: st.DrawFn, valid: Any) -> Any:
    """A value of JSON or TOML of which some parts are of another kind, out of range, doubled or gone."""
    value = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        inside = value
        while True:
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(inside[key], dict | list) and inside[key] and draw(st.integers(0, 4)):
                inside = inside[key]
                continue
            if draw(st.integers(0, 5)):
                odd = st.sampled_from(ODD_VALUES) | st.integers() | st.floats() | st.text(max_size=5)
                inside[key] = copy.deepcopy(draw(odd))
            elif isinstance(inside, dict):
                del inside[key]
            else:
                inside.append(copy.deepcopy(inside[key]))
            break
    return value


def as_json(value: Any) -> bytes:
    """What Python writes, infinities and half characters included."""
    return json.dumps(value).encode()


def answered(read: Callable[[], Any]) -> Any:
    """What a reader gives, or the error that it says in a sentence; nothing else, soon, and in little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found, took = _timed(read)
    assert not isinstance(found, EpsilonError) or str(found).strip(), "an error without a sentence"
    if took >= SECONDS:
        took = min(took, _undisturbed(read), _undisturbed(read))
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert took < SECONDS, f"{took:.1f} s of processor time"
    assert grown < BYTES, f"{grown:,} bytes"
    return found


def _timed(read: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, or the error that it says, and the seconds of processor time that it took."""
    begun = time.process_time()
    found: Any
    try:
        found = read()
    except EpsilonError as error:
        found = error
    return found, time.process_time() - begun


def _undisturbed(read: Callable[[], Any]) -> float:
    """Seconds that it takes while no garbage is collected."""
    gc.collect()
    gc.disable()
    try:
        return _timed(read)[1]
    finally:
        gc.enable()


def refused(read: Callable[[], object], words: str) -> None:
    """It is refused, with these words."""
    found = answered(read)
    if not isinstance(found, EpsilonError) or words not in str(found):
        pytest.fail(f"{found!r}, expected {words!r}")
