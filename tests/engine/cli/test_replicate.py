"""`replicate`: the tables of both papers with the published runs."""

import json

import pytest


def test_replicate_prints_each_cell_of_dp_fl_ner(shell, publish):
    publish("synthetic-*")
    code, out, _ = shell("replicate", "dp-fl-ner", "--corpus", "synthetic", "--seeds", "1", "--json")
    cells = json.loads(out)["cells"]
    assert code == 0
    assert len(cells) == 32
    first = cells[0]
    assert (first["table"], first["tagger"], first["published"]["f1"]) == ("table1", "bilstm-tddl", 0.916)
    assert first["measured"]["f1_sd"] == 0.0
    assert 0.4 < first["measured"]["f1_mean"] < first["measured"]["published_metric"]["f1_mean"]
    assert first["seeds"] == [0]
    assert all(cell["measured"] for cell in cells), "a cell has no published run on the embedded corpus"
    _, out, _ = shell("replicate", "--corpus", "synthetic", "--seeds", "1")
    for table in ("table1", "table2", "table3", "table4", "table5", "table6"):
        assert f"{table}: " in out
    _, out, _ = shell("replicate", "--corpus", "synthetic", "--seeds", "1", "--table", "table3")
    assert out.startswith("table3: ")
    assert "table4" not in out


def test_replicate_prints_each_cell_of_fedner(shell, publish):
    publish("*@0*", "bc5cdr-*")
    code, out, _ = shell("replicate", "fedner", "--json")
    cells = json.loads(out)["cells"]
    assert code == 0
    assert {cell["table"] for cell in cells} == {"table2", "figure3", "figure4", "figure5", "figure6", "private"}
    first = cells[0]
    assert (first["method"], first["platform"], first["setting"]) == ("cnn-crf", "ade", {"trained": "alone"})
    assert first["published"]["strict_f1"] == 0.6146
    assert cells[1]["published"] is None, "the paper has no PsyTAR"
    measured = [cell for cell in cells if cell["measured"]]
    assert {cell["table"] for cell in measured} == {cell["table"] for cell in cells}
    for cell in measured:
        assert 0 <= cell["measured"]["strict_f1_mean"] <= cell["measured"]["relaxed_f1_mean"] < 1
        assert len(cell["seeds"]) == len(cell["runs"]) > 0
    _, out, _ = shell("replicate", "fedner", "--table", "table2")
    assert out.startswith("table2: ")
    assert "figure3" not in out


@pytest.mark.parametrize("option", ["--submit", "--rerun"])
def test_replicate_submits_the_runs_of_a_table(shell, service, option):
    command = ("replicate", "--corpus", "synthetic", "--seeds", "2", "--table", "table1")
    code, out, err = shell(*command, option, "--json")
    assert code == 0
    assert [cell["measured"] for cell in json.loads(out)["cells"]] == [None, None]
    assert err.startswith("4 runs")
    stored = json.loads(shell("runs", "--json")[1])
    submitted = {(run["config"]["tagger"]["name"], run["config"]["seed"], run["state"]) for run in stored}
    assert submitted == {(tagger, seed, "queued") for tagger in ("bilstm-tddl", "bilstm-crf") for seed in (0, 1)}
