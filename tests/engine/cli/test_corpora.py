"""`corpora` and `download`: the catalogue, the statistics of one corpus, and downloads."""

import functools
import json

import pytest

from engine.records.assumption_texts import UNDECLARED_TYPES
from engine.service import corpus_statistics


def test_corpora_lists_available_and_downloadable_corpora(shell):
    code, out, _ = shell("corpora", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert list(rows) == "synthetic conll2003 wnut17 btc wikigold ade psytar bc5cdr ncbi_disease".split()
    assert [name for name, row in rows.items() if row["available"]] == ["synthetic"]
    assert not rows["conll2003"]["fetchable"]
    assert rows["wnut17"]["fetchable"]
    assert rows["conll2003"]["fitted_on"] is None
    no_overlap = {"shared": 0, "short": 0, "share": 0.0}
    assert rows["synthetic"]["fitted_on"]["train"] == {"sentences": 4_400, **no_overlap}
    code, out, _ = shell("corpora")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(rows)
    for line, row in zip(out.splitlines(), rows.values(), strict=True):
        assert f"({row['licence']})" in line
        assert ("can be downloaded" in line) == (row["fetchable"] and not row["available"])


SENTENCES = "".join(f"{name} B-PER\nlives O\nin O\nUlm B-LOC\n\n" for name in ("Rosa", "Ada", "Max", "Ida") * 5)


def test_upload_takes_the_entity_types_of_the_corpus(shell, tmp_path):
    file = tmp_path / "notes.conll"
    file.write_text(SENTENCES)
    code, out, _ = shell("upload", file, "--types", "PER, LOC,MISC", "--json")
    printed = json.loads(out)
    assert code == 0
    assert printed["name"] == "my-notes"
    assert printed["declared"] == ["LOC", "MISC", "PER"]
    assert printed["names"] == {"LOC": 20, "PER": 20}
    code, out, _ = shell("upload", file, "--types", "PER", "--undeclared", "O")
    assert code == 0
    assert "my-notes-2" in out
    assert "20 mentions of entity types that are not declared" in out
    rows = {row["name"]: row for row in json.loads(shell("corpora", "--json")[1])}
    assert rows["my-notes"]["entity_types"] == ["LOC", "MISC", "PER"]
    assert rows["my-notes-2"]["entity_types"] == ["PER"]
    file.write_text("# entity types: LOC PER\n" + SENTENCES)
    assert shell("upload", file)[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "declares no entity types"),
        (("--types", "PER"), "the entity types LOC (20), which it does not declare"),
        (("--types", ""), "0 entity types"),
        (("--types", "PER", "--undeclared", "drop"), "undeclared='drop'"),
    ],
)
def test_upload_without_all_types_is_refused_with_exit_code_2(shell, tmp_path, options, message):
    file = tmp_path / "notes.conll"
    file.write_text(SENTENCES)
    code, out, err = shell("upload", file, *options)
    assert (code, out) == (2, "")
    assert message in err


def test_train_warns_of_undeclared_types(shell, service, tmp_path):
    file = tmp_path / "notes.conll"
    file.write_text(SENTENCES)
    command = ("train", "--corpus", file, "--batch-size", "4", "--epochs", "1")
    assert UNDECLARED_TYPES in shell(*command)[2]
    file.write_text("# entity types: LOC PER\n" + SENTENCES)
    assert UNDECLARED_TYPES not in shell(*command)[2]


@pytest.mark.repeats(area="processes")
def test_corpora_prints_the_statistics_of_one_corpus(shell, data_dir, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for name in ("ade_corpus_v2", "bc5cdr"):
        (tmp_path / "data" / name).symlink_to(data_dir / name)
    monkeypatch.setattr(corpus_statistics, "compute_statistics", functools.cache(corpus_statistics.compute_statistics))
    code, out, _ = shell("corpora", "ade", "--json")
    printed = json.loads(out)
    assert code == 0
    assert printed["name"] == "ade"
    assert [part["sentences"] for part in printed["parts"].values()] == [3418, 427, 427]
    assert sum(sum(part["names"].values()) for part in printed["parts"].values()) == 10_948
    assert list(printed["left_out"].values()) == [121]
    assert list(printed["shared"]) == ["bc5cdr"]
    assert printed["shared"]["bc5cdr"] > 50
    code, out, _ = shell("corpora", "ade")
    assert code == 0
    assert "3,418" in out
    assert "121 mentions" in out
    assert f"bc5cdr: {printed['shared']['bc5cdr']:,} sentences" in out


def test_corpora_refuses_an_unknown_name(shell):
    code, _, err = shell("corpora", "nowhere")
    assert code == 2
    assert "nowhere" in err


def test_download_fetches_the_named_corpus(shell, service):
    code, out, _ = shell("download", "wnut17")
    assert code == 0
    assert "wnut17" in out
    (call,) = service.fetch.call_args_list
    assert call.args[0] == "wnut17"
