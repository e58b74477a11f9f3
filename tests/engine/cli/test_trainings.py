"""Five real trainings, from the command to its output; the other tests of the command line use a fake service."""

import json

import pytest

from engine.service import Application

SMALL = ("--corpus", "synthetic", "--data-fraction", "0.05", "--batch-size", "8", "--epochs", "1", "--hidden-size", "8")


def lines_of(printed: str) -> list[dict]:
    return [json.loads(line) for line in printed.splitlines()]


def test_private_training_prints_one_json_object_per_record(shell):
    code, out, err = shell("train", *SMALL, "--noise-multiplier", "1", "--json")
    lines = lines_of(out)
    assert (code, err) == (0, "")
    assert len(lines) >= 20
    for line in lines:
        assert {"round", "epsilon", "delta", "precision", "recall", "f1", "loss", "seconds"} <= set(line)
    assert [line["final"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert {"precision", "recall", "f1", "strict", "relaxed", "token"} <= set(lines[-1]["test"])
    assert lines[-1]["epsilon"] > lines[0]["epsilon"] > 0
    check = lines[-1]["noise_check"]
    assert check["failed"] is False
    assert check["unit"] == "sentence"
    assert check["noise_std"] == pytest.approx(1.5, abs=check["noise_tolerance"])


def test_train_protects_clients_of_a_federation(shell):
    federation = ("--clients", "3", "--rounds", "2", "--privacy-unit", "client", "--noise-multiplier", "3")
    code, out, _ = shell("train", *SMALL, *federation, "--json")
    lines = lines_of(out)
    assert code == 0
    assert [line["federation"]["round"] for line in lines] == [1, 2]
    assert lines[-1]["federation"]["bytes_up"] == 2 * lines[0]["federation"]["bytes_up"] > 0
    assert any("server" in each and "sum" in each for each in lines[-1]["assumptions"])
    assert lines[-1]["noise_check"]["unit"] == "client"
    assert lines[-1]["noise_check"]["failed"] is False


def test_train_trains_two_silos_with_their_own_corpora(shell, tmp_path):
    file = tmp_path / "drugs.conll"
    file.write_text("Take O\nAspirin B-Drug\n\n" * 40)
    platforms = ("--platform", "synthetic", "--platform", str(file), "--tag-scheme", "bio2,bioes", "--rounds", "2")
    command = ("train", *platforms, "--data-fraction", "0.05", "--epochs", "1", "--hidden-size", "8")
    code, out, _ = shell(*command, "--json")
    last = lines_of(out)[-1]
    assert code == 0
    assert [platform["name"] for platform in last["platforms"]] == ["synthetic", str(file)]
    assert list(last["platforms"][1]["test"]["strict"]["per_type"]) == ["Drug"]
    assert last["epsilon"] == max(platform["epsilon"] for platform in last["platforms"])


def test_train_trains_on_a_folder_with_constrained_bioes_tags_and_summed_losses(shell, tmp_path):
    sentences = "".join(f"word{number} O\nName{number} B-PER\n\n" for number in range(60))
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_text(sentences)
    options = (
        "--tagger",
        "bilstm-crf",
        "--constrained-decoding",
        "--tag-scheme",
        "bioes",
        "--loss",
        "sum",
        "--hidden-size",
        "8",
    )
    free = ("--noise-multiplier", "0", "--batch-size", "8", "--epochs", "1")
    code, out, _ = shell("train", "--corpus", str(tmp_path), *options, *free, "--json")
    last = lines_of(out)[-1]
    assert code == 0
    assert last["final"]
    assert last["epsilon"] is None
    assert list(last["test"]["strict"]["per_type"]) == ["PER"]


def test_audit_attacks_a_training_and_stores_its_results(shell, settings):
    training = ("--corpus", "synthetic", "--tagger", "linear-crf", "--batch-size", "64", "--epochs", "2")
    code, out, _ = shell("audit", *training, "--canaries", "200", "--json")
    printed = json.loads(out)
    assert code == 0
    for kind in ("white", "black"):
        assert printed[kind]["canaries"] == 200
        assert printed[kind]["contradicted"] is False
        assert printed[kind]["check_failed"] is False
        assert printed[kind]["bound"] <= printed[kind]["claimed"]
    assert printed["membership"] is None
    (stored,) = Application(settings).audits.all().values()
    assert (stored.run_id, stored.command) == (printed["run_id"], printed["command"])
