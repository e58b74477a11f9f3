"""`score`: the printed scores of predicted tags, and refused files."""

import json

import pytest


def test_score_prints_each_level_and_average(shell, tmp_path):
    (tmp_path / "gold").write_text("a B-PER\nb I-PER\nc O\n\nd B-LOC\ne O\n")
    (tmp_path / "predicted").write_text("a B-PER\nb O\nc O\n\nd B-LOC\ne O\n")
    code, out, _ = shell("score", tmp_path / "gold", tmp_path / "predicted", "--json")
    fields = json.loads(out)
    assert code == 0
    assert fields["strict"]["f1"] == 0.5
    assert fields["relaxed"]["f1"] == fields["many_to_many"]["f1"] == 1.0
    assert fields["many_to_many"]["per_type"]["PER"]["found"] == 1
    assert fields["strict"]["per_type"]["LOC"]["f1"] == 1.0
    assert {"precision", "recall", "f1", "macro_f1", "weighted_f1"} <= set(fields["strict"])
    assert fields["token"]["with_o"]["f1"] == pytest.approx(0.8)


def test_score_does_not_repair_ill_formed_predictions(shell, tmp_path):
    """In its default mode, seqeval counts this prediction as correct."""
    (tmp_path / "gold").write_text("a B-PER\nb I-PER\nc B-LOC\n")
    (tmp_path / "predicted").write_text("a I-PER\nb I-PER\nc B-LOC\n")
    _, out, _ = shell("score", tmp_path / "gold", tmp_path / "predicted", "--json")
    assert json.loads(out)["strict"]["per_type"]["PER"]["f1"] == 0


def test_score_reads_iob1_tags(shell, tmp_path):
    (tmp_path / "gold").write_text("a I-PER\nb I-PER\nc O\nd I-LOC\n")
    (tmp_path / "predicted").write_text("a I-PER\nb I-PER\nc O\nd I-LOC\n")
    _, out, _ = shell("score", tmp_path / "gold", tmp_path / "predicted", "--json")
    assert json.loads(out)["strict"]["f1"] == 1.0


def test_score_refuses_files_of_other_sentences(shell, tmp_path):
    (tmp_path / "gold").write_text("a B-PER\n\nb O\n")
    (tmp_path / "fewer").write_text("a B-PER\n")
    (tmp_path / "other").write_text("a B-PER\n\nc O\n")
    for name, message in (("fewer", "expected 2"), ("other", "sentence 2")):
        code, _, err = shell("score", tmp_path / "gold", tmp_path / name)
        assert code == 2
        assert message in err
        assert name in err
