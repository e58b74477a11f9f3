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
"""Maximum processor time of a reader for a file of some kilobytes, in seconds.

A slower file is read twice more without garbage collection, and the shortest time counts. The first use of a library,
or a garbage collection among the objects of five thousand tests, takes a second by itself.
"""
BYTES = 300_000_000
"""Maximum growth of the process while it reads a file, in bytes."""

EXAMPLE_SECONDS = 2
"""Timeout per example in seconds, for a busy machine; the common timeout is too short for five thousand examples."""


def fuzzed(test: Callable[..., None]) -> Callable[..., None]:
    """Decorate a test to run the examples of the Hypothesis profile with a sufficient timeout."""
    quiet = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    return pytest.mark.timeout(max(900, EXAMPLE_SECONDS * settings().max_examples))(quiet(test))


ODD_NUMBERS = (0, -1, 2**31, 2**63, 10**400, 1e308, float("inf"), -float("inf"), float("nan"), True)
ODD_TEXTS = ("", "\0", "../../x", "a" * 5000, "9" * 5000, "²", "١", "\ud800", "nan", "1e999", "0001-01-01", "{}")
ODD_VALUES = (*ODD_NUMBERS, *ODD_TEXTS, None, [], {}, [[]], {"a": 1})
ODD_BYTES = (b"\0", b"\n", b"\r", b"\t", b" ", b"|", b"\xff\xfe", b"\xef\xbb\xbf", b"-", b"9" * 5000, b"\xc2\xa0", b"")


@st.composite
def damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    """Draw a file with some bytes changed, removed, repeated or inserted."""
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
    """Draw a JSON or TOML value with some items of another type, out of range, repeated or removed."""
    value = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        container = value
        while True:
            keys = list(container) if isinstance(container, dict) else list(range(len(container)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(container[key], dict | list) and container[key] and draw(st.integers(0, 4)):
                container = container[key]
                continue
            if draw(st.integers(0, 5)):
                odd = st.sampled_from(ODD_VALUES) | st.integers() | st.floats() | st.text(max_size=5)
                container[key] = copy.deepcopy(draw(odd))
            elif isinstance(container, dict):
                del container[key]
            else:
                container.append(copy.deepcopy(container[key]))
            break
    return value


def as_json(value: Any) -> bytes:
    """Return Python's JSON of a value, including infinities and lone surrogates."""
    return json.dumps(value).encode()


def answered(read: Callable[[], Any]) -> Any:
    """Return the result of a reader or its EpsilonError; check time, memory, and that the error has a message."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result, seconds = _timed(read)
    assert not isinstance(result, EpsilonError) or str(result).strip(), "an error without a message"
    if seconds >= SECONDS:
        seconds = min(seconds, _undisturbed(read), _undisturbed(read))
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert seconds < SECONDS, f"{seconds:.1f} s of processor time"
    assert grown < BYTES, f"{grown:,} bytes"
    return result


def _timed(read: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a reader or its EpsilonError, and its processor time in seconds."""
    start = time.process_time()
    result: Any
    try:
        result = read()
    except EpsilonError as error:
        result = error
    return result, time.process_time() - start


def _undisturbed(read: Callable[[], Any]) -> float:
    """Return the processor time of a reader in seconds, without garbage collection."""
    gc.collect()
    gc.disable()
    try:
        return _timed(read)[1]
    finally:
        gc.enable()


def refused(read: Callable[[], object], words: str) -> None:
    """Check that a reader refuses its file with a message that contains ``words``."""
    result = answered(read)
    if not isinstance(result, EpsilonError) or words not in str(result):
        pytest.fail(f"{result!r}, expected {words!r}")
