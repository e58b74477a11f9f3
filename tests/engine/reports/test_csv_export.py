"""No cell of an exported table is a formula."""

import csv
import io

import pandas as pd
import pytest

from engine.reports.csv_export import csv_text, neutral


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", " =", "\n=", ";=", "\ufeff=", "＝", "＠"])
def test_text_that_could_be_a_formula_gets_an_apostrophe(start):
    assert neutral(f"{start}cmd|' /C calc'!A0") == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize("value", ["-1.5", "+2e-3", "-inf", "notes.conll", "", "–", "a=b", -1.5, None, True])
def test_numbers_and_other_cells_stay(value):
    assert neutral(value) == value


@pytest.mark.parametrize("end", [";", "; ", "\n", "\r\n", "\t", ";;"])
def test_formula_behind_a_possible_end_of_the_cell_gets_an_apostrophe(end):
    """A program that separates cells by semicolons ignores quotation marks within a line of ours."""
    assert neutral(f"a{end}=1+1") == f"a{end}'=1+1"
    assert neutral(f"a{end}b") == f"a{end}b"


def test_csv_has_neutral_cells_and_column_names():
    table = pd.DataFrame([{"=name": "=1+1", "f1": -0.5, "note": 'a "quoted", cell'}])
    assert list(csv.reader(io.StringIO(csv_text(table)))) == [
        ["'=name", "f1", "note"],
        ["'=1+1", "-0.5", 'a "quoted", cell'],
    ]


def test_csv_keeps_infinity_and_missing_values():
    table = pd.DataFrame([{"epsilon": float("inf"), "f1": None}, {"epsilon": 1.0, "f1": 0.5}])
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(csv_text(table))), table)
