"""`corpora` and `download`: the catalogue, what one corpus holds, and downloads."""

import functools
import json

from engine.service import corpus_statistics


def test_corpora_lists_what_is_here_and_what_can_be_fetched(shell):
    code, out, _ = shell("corpora", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert list(rows) == "synthetic conll2003 wnut17 btc wikigold ade psytar bc5cdr ncbi_disease".split()
    assert [name for name, row in rows.items() if row["available"]] == ["synthetic"]
    assert not rows["conll2003"]["fetchable"]
    assert rows["wnut17"]["fetchable"]
    assert rows["conll2003"]["fitted_on"] is None
    nothing = {"shared": 0, "short": 0, "share": 0.0}
    assert rows["synthetic"]["fitted_on"]["train"] == {"sentences": 4_400, **nothing}
    code, out, _ = shell("corpora")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(rows)
    for line, row in zip(out.splitlines(), rows.values(), strict=True):
        assert f"({row['licence']})" in line
        assert ("can be downloaded" in line) == (row["fetchable"] and not row["available"])


def test_corpora_prints_what_one_corpus_holds(shell, data_dir, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for name in ("ade_corpus_v2", "bc5cdr"):
        (tmp_path / "data" / name).symlink_to(data_dir / name)
    monkeypatch.setattr(corpus_statistics, "compute_statistics", functools.cache(corpus_statistics.compute_statistics))
    code, out, _ = shell("corpora", "ade", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["name"] == "ade"
    assert [part["sentences"] for part in found["parts"].values()] == [3418, 427, 427]
    assert sum(sum(part["names"].values()) for part in found["parts"].values()) == 10_948
    assert list(found["left_out"].values()) == [121]
    assert list(found["shared"]) == ["bc5cdr"]
    assert found["shared"]["bc5cdr"] > 50
    code, out, _ = shell("corpora", "ade")
    assert code == 0
    assert "3,418" in out
    assert "121 mentions" in out
    assert f"bc5cdr: {found['shared']['bc5cdr']:,} sentences" in out


def test_corpora_refuses_a_name_that_it_does_not_know(shell):
    code, _, err = shell("corpora", "nowhere")
    assert code == 2
    assert "nowhere" in err


def test_download_downloads_the_corpus_of_that_name(shell, service):
    code, out, _ = shell("download", "wnut17")
    assert code == 0
    assert "wnut17" in out
    (call,) = service.fetch.call_args_list
    assert call.args[0] == "wnut17"
