"""`report`: a file in each format, and a sentence for what it cannot be."""

import io
import json
import shutil
import sys

import pytest
from pypdf import PdfReader

from engine.command_line.verbs import main
from engine.reports.document.model import checksum
from engine.settings import Settings
from tests.engine.reports.runs_published import FEDERATED, PLAIN, PRIVATE, paths


@pytest.fixture
def shell(settings, monkeypatch, capsys, tmp_path):
    """Runs a command in this process, in a folder of its own."""
    for path in paths(PRIVATE, PLAIN, FEDERATED):
        shutil.copy(path, settings.published)
    monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls: settings))
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["engine", "report", *map(str, arguments)])
        code = main()
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_each_format_says_the_same(shell, tmp_path):
    code, out, _ = shell(PRIVATE)
    assert code == 0
    assert out.startswith("# Privacy report: CoNLL\\-2003 English news")
    code, out, _ = shell(PRIVATE, "--format", "json")
    assert code == 0
    fields = json.loads(out)
    assert fields.pop("sha256") == checksum(fields)
    assert fields["figures"]["runs"][0]["run_id"] == PRIVATE
    code, out, _ = shell(PRIVATE, "--format", "html")
    assert code == 0
    assert out.startswith("<!DOCTYPE html>")
    code, out, _ = shell(PRIVATE, "--format", "pdf")
    assert code == 0
    path = tmp_path / f"report-{PRIVATE}.pdf"
    assert out == f"{path.name}\n"
    text = PdfReader(io.BytesIO(path.read_bytes())).pages[0].extract_text()
    assert "Privacy label" in text
    assert "ε = 1, δ = 1e-5" in text


def test_two_side_by_side_into_a_file(shell, tmp_path):
    code, out, _ = shell(PRIVATE, PLAIN, "--format", "md", "--output", tmp_path / "two.md")
    assert code == 0
    assert out == f"{tmp_path / 'two.md'}\n"
    assert f"Run {PRIVATE} | Run {PLAIN}" in (tmp_path / "two.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("0000000000000000",), "No run has the identity '0000000000000000'"),
        ((PRIVATE, "0000000000000000"), "No run has the identity"),
        ((PRIVATE, "--format", "doc"), "format='doc', expected one of pdf, html, json, md"),
        ((PRIVATE, "--output", "no/such/folder.md"), "cannot be written: No such file or directory"),
    ],
)
def test_bad_input_is_exit_2_and_a_sentence(shell, arguments, sentence):
    code, out, told = shell(*arguments)
    assert (code, out) == (2, "")
    assert sentence in told
