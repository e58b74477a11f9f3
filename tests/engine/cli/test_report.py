"""`report`: a file in each format, and the errors for bad input."""

import io
import json

import pytest
from pypdf import PdfReader

from engine.reports.document.model import checksum
from tests.engine.reports.runs_published import PLAIN, PRIVATE


@pytest.fixture
def report(shell, publish, monkeypatch, tmp_path):
    """Return a function that writes a report in an empty folder; two runs are published."""
    publish(f"*{PRIVATE}.json", f"*{PLAIN}.json")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: shell("report", *arguments)


def test_report_has_the_same_content_in_each_format(report, tmp_path):
    code, out, _ = report(PRIVATE)
    assert code == 0
    assert out.startswith("# ")
    assert "CoNLL\\-2003" in out.splitlines()[0]
    code, out, _ = report(PRIVATE, "--format", "json")
    assert code == 0
    fields = json.loads(out)
    assert fields.pop("sha256") == checksum(fields)
    assert fields["figures"]["runs"][0]["run_id"] == PRIVATE
    code, out, _ = report(PRIVATE, "--format", "html")
    assert code == 0
    assert out.startswith("<!DOCTYPE html>")
    assert PRIVATE in out
    code, out, _ = report(PRIVATE, "--format", "pdf")
    assert code == 0
    path = tmp_path / f"report-{PRIVATE}.pdf"
    assert out == f"{path.name}\n"
    text = PdfReader(io.BytesIO(path.read_bytes())).pages[0].extract_text()
    assert "ε = 1, δ = 1e-5" in text


def test_report_of_two_runs_is_written_to_a_file(report, tmp_path):
    path = tmp_path / "two.md"
    code, out, _ = report(PRIVATE, PLAIN, "--format", "md", "--output", path)
    assert code == 0
    assert out == f"{path}\n"
    assert f"Run {PRIVATE} | Run {PLAIN}" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0000000000000000",), "'0000000000000000'"),
        ((PRIVATE, "0000000000000000"), "'0000000000000000'"),
        ((PRIVATE, "--format", "doc"), "format='doc' … pdf, html, json, md"),
        ((PRIVATE, "--output", "no/such/folder.md"), "output='no/such/folder.md' … No such file or directory"),
    ],
)
def test_report_refuses_bad_input_with_exit_code_2(report, arguments, message):
    code, out, err = report(*arguments)
    assert (code, out) == (2, "")
    assert all(part in err for part in message.split(" … ")), err
