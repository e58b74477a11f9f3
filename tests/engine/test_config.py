"""Configurations are validated on construction, and equal ones have equal run identities."""

import dataclasses
import json
import math
from typing import Any

import pytest

from engine.config import (
    DEFAULT_CLIP_NORM,
    FederationConfig,
    PrivacyConfig,
    SimulationConfig,
    TaggerConfig,
    TrainingConfig,
    engine_version,
    run_id,
    run_key,
    with_noise,
)
from engine.errors import InvalidConfig

INVALID: list[tuple[type, str, list[Any]]] = [
    (PrivacyConfig, "noise_multiplier", [-1, math.nan, math.inf, "1", None, True, 1e9]),
    (PrivacyConfig, "clip_norm", [0, -1, math.nan, math.inf, "1"]),
    (PrivacyConfig, "delta", [0, 1, -1, 2, math.nan, "1e-5"]),
    (PrivacyConfig, "sampling", ["", "random", None]),
    (TrainingConfig, "optimiser", ["", "adamw"]),
    (TrainingConfig, "learning_rate", [0, -1, math.nan, math.inf]),
    (TrainingConfig, "batch_size", [0, -1, 1.5, "32", True]),
    (TrainingConfig, "epochs", [0, -1, math.nan, math.inf]),
    (TaggerConfig, "hidden_size", [0, 100_000, 1.5]),
    (TaggerConfig, "well_formed", [None, 1, "yes"]),
    (TaggerConfig, "pretrained", [None, 1, "yes"]),
    (TaggerConfig, "scheme", ["", None, 2, ["bio2"], "iob1", "BIOES", "bio2,", "bio2,iob1", "bio2;bioes"]),
    (TrainingConfig, "loss", ["", "max", None]),
    (SimulationConfig, "data_fraction", [0, 1.5, -1, math.nan, "1"]),
    (SimulationConfig, "corpus", ["", "  ", None, "a\0b", "x" * 2000]),
    (FederationConfig, "clients", [0, -1, 1.0, 10**6, True]),
    (FederationConfig, "participants", [0, -1, 1.5, "2"]),
    (FederationConfig, "rounds", [0, -1, 1.5]),
    (FederationConfig, "schedule", ["", "often", None]),
    (FederationConfig, "partition", ["", "fair", None]),
    (FederationConfig, "skew", [0, -1, math.nan, "1"]),
    (FederationConfig, "weighting", ["", "size"]),
    (PrivacyConfig, "mechanism", ["", "dpsgd", None]),
    (PrivacyConfig, "noise_source", ["", "os", None]),
    (SimulationConfig, "seed", [-1, 2**32, 1.5]),
]


@pytest.mark.parametrize(("part", "field", "value"), [(part, field, v) for part, field, vs in INVALID for v in vs])
def test_invalid_value_is_named_with_its_field(part, field, value):
    with pytest.raises(InvalidConfig) as error:
        part(**{field: value})
    assert str(error.value).startswith(f"{field}={value!r}, expected ")


def test_defaults_equal_paper_settings():
    config = SimulationConfig()
    assert (config.training.optimiser, config.training.learning_rate) == ("sgd", 0.15)
    assert (config.training.batch_size, config.training.epochs) == (32, 10)
    assert config.privacy.clip_norm == 1.5


def test_default_clip_norm_depends_on_noise():
    assert PrivacyConfig(noise_multiplier=2).clip_norm == DEFAULT_CLIP_NORM
    assert PrivacyConfig(noise_multiplier=0).clip_norm is None
    assert PrivacyConfig(noise_multiplier=0, clip_norm=3).clip_norm == 3
    with pytest.raises(InvalidConfig, match="clip_norm=None"):
        PrivacyConfig(noise_multiplier=1, clip_norm=None)


def test_json_round_trip():
    config = SimulationConfig(
        corpus="btc", data_fraction=0.3, seed=7, privacy=PrivacyConfig(noise_multiplier=0, clip_norm=2)
    )
    assert SimulationConfig.from_dict(json.loads(config.canonical_json())) == config


@pytest.mark.parametrize("values", [None, [], "x", {"surprise": 1}, {"privacy": {"epsilon": 1}}, {"training": 3}])
def test_from_dict_rejects_other_tables(values):
    with pytest.raises(InvalidConfig):
        SimulationConfig.from_dict(values)


def test_integers_and_floats_give_equal_run_ids():
    whole = SimulationConfig(privacy=PrivacyConfig(noise_multiplier=1), training=TrainingConfig(epochs=10))
    decimal = SimulationConfig(privacy=PrivacyConfig(noise_multiplier=1.0), training=TrainingConfig(epochs=10.0))
    assert run_id(whole, "c") == run_id(decimal, "c")


def test_run_id_depends_on_config_corpus_and_version():
    config = SimulationConfig()
    others = [
        dataclasses.replace(config, seed=1),
        dataclasses.replace(config, privacy=PrivacyConfig(noise_multiplier=1.0001)),
        dataclasses.replace(config, tagger=TaggerConfig(hidden_size=99)),
    ]
    identities = {run_id(each, "c") for each in (config, *others)} | {run_id(config, "d"), run_id(config, "c", "0")}
    assert len(identities) == 6
    assert all(len(each) == 16 for each in identities)


@pytest.mark.parametrize(
    ("federation", "privacy", "words"),
    [
        ({"clients": 1}, {"mechanism": "local"}, "clients=1, expected at least 2"),
        ({"clients": 3, "weighting": "examples"}, {"mechanism": "dp-fedavg"}, "weighting='examples', expected 'equal'"),
        ({"clients": 3}, {"mechanism": "dp-fedavg", "sampling": "shuffle"}, "sampling='shuffle', expected 'poisson'"),
    ],
)
def test_incompatible_fields_are_rejected(federation, privacy, words):
    with pytest.raises(InvalidConfig, match=words):
        SimulationConfig(federation=FederationConfig(**federation), privacy=PrivacyConfig(**privacy))


class TestTagSchemes:
    TWO = "synthetic + btc"

    @staticmethod
    def config(scheme: str, corpus: str = TWO, **federation: Any) -> SimulationConfig:
        tagger = TaggerConfig(name="cnn-crf", scheme=scheme)
        return SimulationConfig(corpus=corpus, tagger=tagger, federation=FederationConfig(**federation))

    def test_scheme_applies_to_all_clients_or_to_each(self):
        assert self.config("bioes", "btc").schemes == ("bioes",)
        assert self.config("bioes").schemes == ("bioes", "bioes")
        assert self.config("bio2, bioes").schemes == ("bio2", "bioes")
        assert SimulationConfig().schemes == ("bio2",)

    def test_run_id_depends_on_normalized_schemes(self):
        said = [self.config(scheme) for scheme in ("bio2", "bioes", "bio2,bioes", "bioes,bio2")]
        assert len({run_id(config, "c") for config in said}) == 4
        for config in said:
            assert SimulationConfig.from_flat(config.flat()) == config
        assert self.config(" bioes , bioes ") == self.config("bioes")
        assert self.config("bio2,bio2") == self.config(TaggerConfig().scheme)

    @pytest.mark.parametrize(
        ("scheme", "corpus", "words"),
        [
            ("bio2,bioes", "btc", "scheme='bio2,bioes', expected one for the one corpus"),
            ("bio2,bio2", "btc", "scheme='bio2,bio2', expected one for the one corpus"),
            ("bio2,bio2,bio2", TWO, "scheme='bio2,bio2,bio2', expected one, or 2: one for each client"),
        ],
    )
    def test_number_of_schemes_must_equal_number_of_clients(self, scheme, corpus, words):
        with pytest.raises(InvalidConfig, match=words):
            self.config(scheme, corpus)

    def test_shared_scores_require_equal_schemes(self):
        shared = "characters,convolution,scores"
        assert self.config("bioes", shared=shared).schemes == ("bioes", "bioes")
        assert self.config("bio2,bioes", shared="characters").schemes == ("bio2", "bioes")
        with pytest.raises(InvalidConfig, match=r"scheme='bio2,bioes', expected one for all .*shared='char"):
            self.config("bio2,bioes", shared=shared)


def test_more_participants_than_clients_are_rejected():
    with pytest.raises(InvalidConfig, match=r"participants=4,.* at most clients=3"):
        FederationConfig(clients=3, participants=4)


def test_equivalent_federations_are_equal():
    assert FederationConfig(clients=3, participants=3) == FederationConfig(clients=3)
    for mechanism, weighting in (("dp-sgd", "examples"), ("local", "equal")):
        said, left = (
            SimulationConfig(
                federation=FederationConfig(clients=3, weighting=choice), privacy=PrivacyConfig(mechanism=mechanism)
            )
            for choice in (weighting, None)
        )
        assert said.canonical_json() == left.canonical_json()


def test_run_id_depends_on_engine_version(monkeypatch):
    private, plain = SimulationConfig(), SimulationConfig(privacy=PrivacyConfig(noise_multiplier=0))
    before = {config: run_id(config, "0" * 64) for config in (private, plain)}
    assert before[private] == run_id(private, "0" * 64, engine_version(private)) != run_id(private, "0" * 64, "5")
    monkeypatch.setattr("engine.config.PRIVATE_VERSION", "next")
    assert run_id(private, "0" * 64) != before[private]
    assert run_id(plain, "0" * 64) == before[plain], "a change of the noise leaves runs without it what they were"


def test_run_key_extends_run_id():
    key = run_key(SimulationConfig(), "0" * 64)
    assert len(key) == 64
    assert key.startswith(run_id(SimulationConfig(), "0" * 64))


def test_noise_source_is_part_of_run_id_and_seeded_by_default():
    drawn = SimulationConfig(privacy=PrivacyConfig(noise_source="system"))
    assert run_id(drawn, "0" * 64) != run_id(SimulationConfig(), "0" * 64)
    assert SimulationConfig.from_dict(drawn.to_dict()) == drawn
    assert SimulationConfig().privacy.noise_source == "seeded"
    without = PrivacyConfig(noise_multiplier=0, noise_source="system")
    assert without.noise_source == "seeded"
    assert with_noise(drawn, 2.0).privacy.noise_source == "system"
    assert with_noise(drawn, 0.0).privacy.noise_source == "seeded"
