"""The tests that a change touches are found by imports, the nearest first."""

from pathlib import Path

import pytest

from tests import touched
from tests.modules import ROOT


def names(*files: str) -> dict[str, int]:
    found = touched.distances(ROOT / file for file in files)
    return {path.relative_to(ROOT).as_posix(): distance for path, distance in found.items()}


def test_a_test_that_imports_a_module_is_nearer_than_one_that_imports_its_user() -> None:
    found = names("engine/privacy/noise_check/critical_values.py")
    assert found["tests/engine/privacy/noise_check/test_critical_values.py"] == 1
    assert found["tests/engine/simulation/test_run.py"] > 1
    assert "tests/engine/corpus/test_conll.py" not in found


def test_a_page_touches_the_tests_that_open_the_app() -> None:
    assert "tests/pages/test_frontier.py" in names("pages/frontier/page.py")


def test_a_conftest_touches_the_tests_below_its_folder() -> None:
    found = names("tests/engine/lessons/conftest.py")
    assert found
    assert all(name.startswith("tests/engine/lessons/") for name in found)


def test_data_touches_the_tests_of_the_modules_that_name_it() -> None:
    assert "tests/engine/test_fingerprint.py" in names("tests/engine/fingerprint.json")


def test_a_file_that_nothing_imports_touches_nothing() -> None:
    assert names("engine/" + "x" * 40) == {}


@pytest.mark.parametrize("name", touched.SLOW)
def test_folders_that_are_left_out_are_there(name: str) -> None:
    assert (Path(ROOT) / name).is_dir()
