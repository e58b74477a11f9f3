"""``tag`` and ``redact``: what other programs rely on, and what bad input gets."""

import io
import json
import sys
from dataclasses import replace

import pytest

from engine.command_line import texts
from engine.command_line.verbs import main
from engine.runs import Runs
from engine.settings import REPOSITORY, Settings
from engine.tagging import offered

LETTER = "Dear Germany,\r\nAnn met Rosa in Paris.\n"
PAPER = ("--epsilon", offered.PAPER)
"""The tagger that needs no language model."""


@pytest.fixture
def shell(trained_settings, monkeypatch, capsys):
    """Runs a command in this process, with something at its standard input."""
    here = replace(trained_settings, published=REPOSITORY / "cached_results")
    monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls: here))

    def run(*arguments: str, typed: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["engine", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
        code = main()
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def folder(tmp_path):
    """Two texts, one in a folder within, and a file that is none."""
    made = tmp_path / "letters"
    (made / "more").mkdir(parents=True)
    (made / "one.txt").write_bytes(LETTER.encode())
    (made / "more" / "two.txt").write_text("France beat Ann.", encoding="utf-8")
    (made / "picture.png").write_bytes(b"\x89PNG")
    return made


def test_tag_gives_places_in_the_text_as_it_was_typed(shell):
    code, out, _ = shell("tag", *PAPER, "--json", typed=LETTER.encode())
    found = json.loads(out)
    assert code == 0
    assert set(found) == {"text", "entities"}
    assert found["text"] == LETTER
    assert found["entities"]
    for each in found["entities"]:
        assert set(each) == {"start", "end", "type", "score"}
        assert LETTER[each["start"] : each["end"]].strip()
        assert each["type"] in ("PER", "LOC", "ORG", "MISC")
        assert 0 < each["score"] <= 1
    _, out, _ = shell("tag", *PAPER, typed=LETTER.encode())
    rows = [line.split("\t") for line in out.splitlines()]
    assert [(int(row[0]), int(row[1]), row[2]) for row in rows] == [
        (each["start"], each["end"], each["type"]) for each in found["entities"]
    ]


def test_files_and_folders_are_called_by_their_names(shell, folder):
    code, out, _ = shell("tag", str(folder), str(folder / "one.txt"), *PAPER, "--json")
    assert code == 0
    files = [json.loads(line)["file"] for line in out.splitlines()]
    assert files == [str(folder / "more" / "two.txt"), str(folder / "one.txt"), str(folder / "one.txt")]


def test_redact_writes_what_is_left(shell, folder, tmp_path):
    _, out, _ = shell("tag", *PAPER, "--json", typed=LETTER.encode())
    masked = LETTER
    for each in json.loads(out)["entities"]:
        masked = masked[: each["start"]] + "█" * (each["end"] - each["start"]) + masked[each["end"] :]
    assert shell("redact", *PAPER, "--replace", "mask", typed=LETTER.encode()) == (0, masked, "")
    code, out, _ = shell("redact", str(folder), *PAPER, "--replace", "mask", "--output", str(tmp_path / "new"))
    assert (code, out) == (0, "")
    assert (tmp_path / "new" / "one.txt").read_bytes().decode() == masked
    assert (tmp_path / "new" / "more" / "two.txt").is_file()
    assert (folder / "one.txt").read_bytes().decode() == LETTER
    code, out, _ = shell("redact", *PAPER, "--json", typed=LETTER.encode())
    fields = json.loads(out)
    assert "".join(each["replacement"] for each in fields["entities"]).startswith("[")
    for each in fields["entities"]:
        assert fields["text"][each["new_start"] : each["new_end"]] == each["replacement"]


def test_a_users_own_run(shell, trained_settings):
    from engine.cluster.worker import compute
    from engine.store.database import Store
    from tests.engine.runs_for_tests import SMALL

    runs = Runs(trained_settings)
    identity = runs.identity(SMALL)
    Store(trained_settings.store_url).submit(identity, SMALL, runs.corpus(SMALL).checksum)
    code, _, said = shell("tag", "--run", identity, typed=b"Dear Ann")
    assert (code, "has no tagger that was kept" in said) == (2, True)
    compute(identity, trained_settings, "here")
    code, out, _ = shell("tag", "--run", identity, "--json", typed=b"Dear Ann")
    assert (code, json.loads(out)["text"]) == (0, "Dear Ann")


@pytest.mark.parametrize(
    ("arguments", "typed", "said"),
    [
        (["tag"], b"", "standard input is empty"),
        (["tag"], b" \n", "standard input is empty"),
        (["tag"], b"caf\xe9", "standard input is no text in UTF-8: byte 3 cannot be read"),
        (["tag", "/nowhere/a.txt"], b"", "/nowhere/a.txt cannot be read: No such file or directory"),
        (["tag", "--epsilon", "2"], b"Ann", "epsilon='2', expected one of inf, 8, 3, 1, 0.76"),
        (["tag", "--run", "f" * 16], b"Ann", "f" * 16),
        (["tag", "--run", "f" * 16, "--epsilon", "1"], b"Ann", "expected one of them"),
        (["redact", "--replace", "hide"], b"Ann", "replace='hide', expected one of type, pseudonym, mask"),
        (["redact", "--output", "there"], b"Ann", "output='there', expected none for standard input"),
    ],
)
def test_bad_input_gets_a_sentence_and_code_2(shell, arguments, typed, said):
    code, out, error = shell(*arguments, typed=typed)
    assert (code, out) == (2, "")
    assert said in error
    assert len(error.splitlines()) == 1


def test_bad_files_get_a_sentence_and_code_2(shell, folder, tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"{empty} has no .txt file" in shell("tag", str(empty))[2]
    assert "several texts need a folder" in shell("redact", str(folder))[2]
    assert "would be written over" in shell("redact", str(folder), *PAPER, "--output", str(folder))[2]
    other = tmp_path / "one.txt"
    other.write_text("Ann")
    both = [str(folder / "one.txt"), str(other)]
    assert "one.txt would be written over" in shell("redact", *both, *PAPER, "--output", str(tmp_path / "new"))[2]
    assert not (tmp_path / "new").exists()
    assert "cannot be written" in shell("redact", both[0], *PAPER, "--output", str(other))[2]
    monkeypatch.setattr(texts, "MOST_BYTES", 5)
    assert shell("tag", both[0])[::2] == (2, f"{both[0]} has more than 5 bytes\n")
