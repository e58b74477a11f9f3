"""Tests of a change are selected by imports, the nearest first."""

from pathlib import Path

import pytest

from tests import touched
from tests.modules import ROOT


def distances(*files: str) -> dict[str, int]:
    selected = touched.distances(ROOT / file for file in files)
    return {path.relative_to(ROOT).as_posix(): distance for path, distance in selected.items()}


def test_direct_import_is_nearer_than_an_indirect_one() -> None:
    selected = distances("engine/privacy/noise_check/critical_values.py")
    assert selected["tests/engine/privacy/noise_check/test_critical_values.py"] == 1
    assert selected["tests/engine/simulation/test_run.py"] > 1
    assert "tests/engine/corpus/test_conll.py" not in selected


def test_page_selects_tests_that_open_the_app() -> None:
    assert "tests/pages/test_frontier.py" in distances("pages/frontier/page.py")


def test_conftest_selects_tests_below_its_folder() -> None:
    selected = distances("tests/engine/lessons/conftest.py")
    assert selected
    assert all(name.startswith("tests/engine/lessons/") for name in selected)


def test_data_file_selects_tests_of_modules_that_name_it() -> None:
    assert "tests/engine/test_fingerprint.py" in distances("tests/engine/fingerprint.json")


def test_unused_file_selects_no_test() -> None:
    assert distances("engine/" + "x" * 40) == {}


@pytest.mark.parametrize("name", touched.SLOW)
def test_excluded_folders_exist(name: str) -> None:
    assert (Path(ROOT) / name).is_dir()
