"""The list of planted faults fits the sources, and a fault that no test detects is reported."""

import dataclasses
from collections import Counter

import pytest

from benchmarks import mutants, planted_faults
from benchmarks.planted_faults import Fault

FAULT = Fault(
    name="a sum is a difference",
    area="store",
    file="adding.py",
    before="a + b",
    after="a - b",
    tests=("test_adding.py",),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # importing the plugins takes longer than the tests
    (tmp_path / "adding.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "test_adding.py").write_text(
        "from adding import add\n\n\ndef test_zero():\n    assert add(2, 0) == 2\n\n\n"
        "def test_one():\n    assert add(1, 1) == 2\n"
    )
    return tmp_path


def test_each_fault_fits_its_source_and_its_tests_exist():
    assert planted_faults.problems(planted_faults.read()) == []


def test_fault_names_are_unique_and_cover_each_area():
    faults = planted_faults.read()
    assert len(faults) >= 40
    assert len({fault.name for fault in faults}) == len(faults)
    by_area = Counter(fault.area for fault in faults)
    assert by_area.keys() == set(planted_faults.AREAS)
    assert min(by_area.values()) >= 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"before": "a * b"}, "occurs 0 times in adding.py"),
        ({"before": "a"}, "occurs 3 times in adding.py"),
        ({"file": "gone.py"}, "occurs 0 times in gone.py"),
        ({"after": "a + b"}, "the text after equals the text before"),
        ({"tests": ("test_gone.py",)}, "test_gone.py does not exist"),
        ({"tests": ("test_adding.py::test_two",)}, "test_adding.py::test_two does not exist"),
    ],
)
def test_fault_that_does_not_fit_is_reported(folder, changes, words):
    assert planted_faults.problems([FAULT], folder) == []
    (problem,) = planted_faults.problems([dataclasses.replace(FAULT, **changes)], folder)
    assert words in problem


@pytest.mark.parametrize(
    ("tests", "failed"), [("test_adding.py", "test_adding.py::test_one"), ("test_adding.py::test_zero", "")]
)
def test_first_failing_test_finds_the_fault_which_is_then_removed(folder, tests, failed):
    source = folder / "adding.py"
    before = source.read_bytes(), source.stat().st_mtime_ns
    with planted_faults.planted(FAULT, folder):
        assert "a - b" in source.read_text()
        result = planted_faults.run_tests(folder, [tests], 60.0, folder / "pytest.txt", keep_code=False)
    assert (result.found, result.test) == (bool(failed), failed)
    assert (source.read_bytes(), source.stat().st_mtime_ns) == before


def test_failures_exclude_logged_errors():
    log, error = "ERROR    engine.worker:worker.py:108 Run failed.", "ERROR tests/a.py - ValueError: x"
    text = f"{log}\n{error}\nFAILED tests/b.py::c - d - e\n"
    assert mutants.failures(text) == ["tests/a.py", "tests/b.py::c"]


def test_timeout_counts_as_found(folder):
    (folder / "test_adding.py").write_text("import time\n\ntime.sleep(600)\n")
    result = planted_faults.run_tests(folder, FAULT.tests, 0.2, folder / "pytest.txt", keep_code=False)
    assert result.found
    assert "timeout after" in result.test


def test_run_without_tests_raises(folder):
    with pytest.raises(SystemExit, match="pytest ended with 5"):
        planted_faults.run_tests(folder, ["adding.py"], 60.0, folder / "pytest.txt", keep_code=False)
