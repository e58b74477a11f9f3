"""`train` and `crosscheck` with a fake service: the trained configuration and the output."""

import json
import math
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from engine import corpus
from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.embeddings import contamination
from engine.experiments import recommended_settings
from engine.experiments.tf_privacy_crosscheck import Opinion
from engine.records import FederatedRound, PlatformRecord
from engine.reports.cli_command import command_line
from tests.engine.factories import record, scores

TRAIN = ("train", "--corpus", "synthetic")


def test_train_prints_one_json_object_per_record(shell, service):
    code, out, _ = shell(*TRAIN, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(line["round"], line["step"], line["final"]) for line in lines] == [
        (0, 1, False),
        (1, 2, False),
        (2, 3, True),
    ]
    assert [line["epsilon"] for line in lines] == [each.privacy.epsilon for each in service.records]
    last, expected = lines[-1], service.records[-1]
    for name in ("precision", "recall", "f1"):
        assert last[name] == getattr(expected.scores, name)
        assert last["test"][name] == getattr(expected.test, name)
    for name in ("loss", "seconds", "clipped_fraction", "examples_seen", "steps_total"):
        assert last[name] == getattr(expected, name)
    assert (last["delta"], last["rdp_epsilon"]) == (expected.privacy.delta, expected.privacy.rdp_epsilon)
    assert last["assumptions"] == list(expected.privacy.assumptions)
    assert last["noise_check"]["noise_std"] == expected.noise_check.noise_std
    assert last["noise_check"]["failed"] is False


def test_train_prints_null_as_epsilon_without_noise(shell, service):
    service.records = tuple(
        replace(each, privacy=replace(each.privacy, epsilon=math.inf), noise_check=None) for each in service.records
    )
    _, out, _ = shell(*TRAIN, "--noise-multiplier", "0", "--json")
    assert [json.loads(line)["epsilon"] for line in out.splitlines()] == [None] * 3


def test_train_prints_a_line_per_record_then_test_scores_and_noise_check(shell, service):
    code, out, _ = shell(*TRAIN)
    first, second, third, *rest = out.splitlines()
    assert code == 0
    for number, line in enumerate((first, second, third)):
        assert f"step {number + 1:>6} of 3" in line
        assert f"F1 {service.records[number].scores.f1:.3f}" in line
    text = "\n".join(rest)
    assert "Test scores" in text
    assert "entities, strict" in text
    assert "Noise check passed" in text


@pytest.mark.parametrize("adjacency", ["add or remove one", "zero out one"])
def test_train_states_unit_and_adjacency_of_its_epsilon(shell, service, adjacency):
    service.records = tuple(
        replace(each, privacy=replace(each.privacy, neighbouring=adjacency, assumptions=("x",)))
        for each in service.records
    )
    last = json.loads(shell(*TRAIN, "--json")[1].splitlines()[-1])
    assert (last["unit"], last["neighbouring"]) == ("one labelled sentence", adjacency)
    (line,) = (line for line in shell(*TRAIN)[1].splitlines() if line.endswith("assumes:"))
    assert f"for one labelled sentence (adjacency: {adjacency})" in line
    assert "δ = 1e-5" in line


def test_train_prints_a_failed_noise_check(shell, service):
    service.records = (record(0, 1, faults=("noise_std=0.1",)),)
    assert json.loads(shell(*TRAIN, "--json")[1])["noise_check"]["failed"] is True
    _, out, _ = shell(*TRAIN)
    assert "Noise check failed" in out
    assert "noise_std=0.1" in out


def test_train_prints_the_round_and_the_clients_of_a_federation(shell, service):
    done = FederatedRound(
        round=1, rounds=1, clients=(0, 1, 2), failed=(), drift=0.1, update_norms=(1.0,) * 3, bytes_down=1, bytes_up=2
    )
    service.records = (replace(record(0, 1), federation=done),)
    command = (*TRAIN, "--clients", "3")
    assert json.loads(shell(*command, "--json")[1])["federation"]["bytes_up"] == 2
    assert "round 1 of 1, 3 clients" in shell(*command)[1]
    assert [config.federation.clients for config in service.trained] == [3, 3]


def test_train_prints_each_silo_with_its_epsilon(shell, service):
    last = record(0, 1)
    platforms = tuple(
        PlatformRecord(
            name=name, privacy=replace(last.privacy, epsilon=epsilon), scores=scores(), test=scores(4), noise_check=None
        )
        for name, epsilon in (("synthetic", 1.25), ("btc", 2.25))
    )
    service.records = (replace(last, platforms=platforms),)
    command = ("train", "--platform", "synthetic", "--platform", "btc")
    printed = json.loads(shell(*command, "--json")[1])["platforms"]
    assert [(each["name"], each["epsilon"]) for each in printed] == [("synthetic", 1.25), ("btc", 2.25)]
    assert printed[1]["test"]["f1"] == scores(4).f1
    out = shell(*command)[1]
    assert "synthetic: ε 1.25" in out
    assert "btc: ε 2.25" in out


CONFIGS = [
    SimulationConfig(),
    SimulationConfig(corpus="a b's", seed=3, privacy=PrivacyConfig(noise_multiplier=0.123456789, delta=1e-7)),
    SimulationConfig(privacy=PrivacyConfig(noise_multiplier=0, clip_norm=1.5), training=TrainingConfig(epochs=0.5)),
    SimulationConfig(privacy=PrivacyConfig(clip_norm=0.3, sampling="shuffle"), data_fraction=1 / 3),
    SimulationConfig.from_flat(
        {"clients": 9, "participants": 3, "rounds": 4, "partition": "label-skew", "skew": 0.1, "weighting": "equal"}
    ),
    SimulationConfig.from_flat({"clients": 4, "mechanism": "dp-fedavg", "clipping": "per-layer"}),
    SimulationConfig.from_flat({"clients": 2, "rounds": 3, "schedule": "incremental"}),
    SimulationConfig.from_flat({"clients": 2, "data_fraction": 0.5, "partition": "independent"}),
    recommended_settings.with_minilm("conll2003", 14_041, 1.0),
    SimulationConfig.from_flat({"corpus": "synthetic + b's + btc", "rounds": 3}),
    SimulationConfig.from_flat(
        {
            "tagger": "bilstm-crf",
            "hidden_size": 7,
            "batch_size": 8,
            "loss": "sum",
            "scheme": "bioes",
            "embeddings": "en_core_web_lg",
            "language_model": "bert-3x128-0123456789abcdef",
            "features": "contextual",
            "noise_source": "system",
        }
    ),
    SimulationConfig.from_flat(
        {
            "corpus": "synthetic + btc",
            "tagger": "cnn-lstm-crf",
            "dropout": 0.5,
            "noise_multiplier": 0.0,
            "schedule": "gradients",
            "rounds": 1,
            "shared": "convolution,lstm",
            "masked": 0.5,
            "together": 0.25,
        }
    ),
    SimulationConfig.from_flat({"tagger": "linear-crf", "features": "layer-names", "window": 1, "pretrained": True}),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_train_parses_the_output_of_command_line(shell, service, config):
    code, _, err = shell(*shlex.split(command_line(config))[3:], "--json")
    assert code == 0, err
    assert service.trained == [config]


def test_new_runs_assign_sentences_independently(shell, service):
    for options, partition in (((), "independent"), (("--partition", "random"), "random")):
        assert shell("train", "--corpus", "synthetic", "--clients", "5", *options, "--json")[0] == 0
        assert service.trained[-1].federation.partition == partition


def test_configs_change_each_field_of_the_default():
    usual = SimulationConfig().flat()
    changed = {name for config in CONFIGS for name, value in config.flat().items() if value != usual[name]}
    assert changed == set(usual)


@pytest.mark.parametrize(
    ("options", "mechanism"),
    [
        (("--privacy-unit", "sentence"), "dp-sgd"),
        (("--privacy-unit", "client", "--clients", "3"), "secure-sum"),
        (("--privacy-unit", "client", "--mechanism", "secure-sum", "--clients", "3"), "secure-sum"),
    ],
)
def test_privacy_unit_chooses_the_mechanism(shell, service, options, mechanism):
    assert shell(*TRAIN, *options)[0] == 0
    assert [config.privacy.mechanism for config in service.trained] == [mechanism]


def test_a_corpus_path_is_made_absolute(shell, service, tmp_path, monkeypatch):
    (tmp_path / "own.conll").write_text("Rosa B-PER\nsings O\n\n" * 40)
    monkeypatch.chdir(tmp_path)
    for name in ("own.conll", Path("..") / tmp_path.name / "own.conll", tmp_path / "own.conll"):
        assert shell("train", "--corpus", name)[0] == 0
    assert [config.corpus for config in service.trained] == [str(tmp_path / "own.conll")] * 3


def test_language_model_own_becomes_the_label_of_the_custom_model(shell, monkeypatch, tmp_path):
    command = (*TRAIN, "--features", "contextual", "--language-model")
    code, _, err = shell(*command, "own")
    assert code == 2
    assert "language_model='own'" in err
    assert "EPSILON_LANGUAGE_MODEL" in err
    monkeypatch.setenv("EPSILON_LANGUAGE_MODEL", str(tmp_path))
    code, _, err = shell(*command, "own")
    assert code == 2
    assert "config.json" in err
    monkeypatch.delenv("EPSILON_LANGUAGE_MODEL")
    label = "bert-3x128-0123456789abcdef"
    monkeypatch.setattr("engine.embeddings.custom_model.installed", lambda settings: ["all-MiniLM-L6-v2", label])
    for name in ("own", label):
        code, _, err = shell(*command, name)
        assert code == 2
        assert f"language_model='{label}'" in err
        assert "EPSILON_LANGUAGE_MODEL" in err


def test_train_warns_of_overlap_with_fitted_sentences(shell, service, trained_settings, monkeypatch):
    sentences = corpus.resolve("synthetic", trained_settings).load()
    fitted = [sentence.tokens for sentence in (*sentences.train[:44], *sentences.test[:500])]
    monkeypatch.setattr(contamination, "fitted_on", lambda part: contamination.checksums(fitted))
    line = next(line for line in shell("corpora")[1].splitlines() if line.startswith("synthetic"))
    assert "no ε is valid" in line
    rows = {row["name"]: row for row in json.loads(shell("corpora", "--json")[1])}
    fitted_on = rows["synthetic"]["fitted_on"]
    assert 0.01 <= fitted_on["train"]["share"] < 0.02
    assert 0.5 <= fitted_on["test"]["share"] < 0.6
    _, out, err = shell(*TRAIN, "--features", "contextual")
    assert out.startswith("  0  step")
    assert "of 4,400 training sentences (1." in err
    assert "of 1,000 test sentences (5" in err
    assert shell(*TRAIN)[2] == ""


OPINION = Opinion(
    step=0,
    sentences=2,
    difference=1e-7,
    our_noise=1.5,
    their_noise=1.49,
    planned=1.5,
    tolerance=0.05,
    ours_ms=1.0,
    theirs_ms=70.0,
)


CROSSCHECK = ("crosscheck", "--corpus", "synthetic", "--batch-size", "2", "--steps", "2")


def test_crosscheck_prints_the_results_of_each_step(shell, service):
    service.second_opinions.side_effect = lambda *_: iter([OPINION, replace(OPINION, step=1)])
    code, out, _ = shell(*CROSSCHECK, "--json")
    printed = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [each.pop("agrees") for each in printed] == [True, True]
    assert [Opinion(**each) for each in printed] == [OPINION, replace(OPINION, step=1)]
    config, _, steps = service.second_opinions.call_args.args
    assert (config.training.batch_size, steps) == (2, 2)
    code, out, _ = shell(*CROSSCHECK)
    assert code == 0
    assert [("agreed" in line, "NOT AGREED" in line) for line in out.splitlines()] == [(True, False)] * 2


def test_a_crosscheck_that_disagrees_is_exit_code_1(shell, service):
    service.second_opinions.side_effect = lambda *_: iter([OPINION, replace(OPINION, step=1, their_noise=1.0)])
    code, out, _ = shell(*CROSSCHECK, "--json")
    assert [json.loads(line)["agrees"] for line in out.splitlines()] == [True, False]
    assert "NOT AGREED" in shell(*CROSSCHECK)[1]
    assert code == 1


def test_crosscheck_refuses_runs_without_noise(shell):
    code, _, err = shell(*CROSSCHECK, "--noise-multiplier", "0")
    assert code == 2
    assert "noise_multiplier=0" in err
