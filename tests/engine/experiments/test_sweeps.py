"""Sweep files: all combinations of their values, and errors that name file and field."""

from pathlib import Path

import pytest

from engine.config import FLAT, SimulationConfig
from engine.errors import InvalidConfig
from engine.experiments import sweeps


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return path


def test_combinations_are_ordered_by_seed(tmp_path: Path) -> None:
    configs = sweeps.read(
        write(
            tmp_path,
            """
            seeds = 2
            [base]
            tagger = "bilstm-crf"
            epochs = 3
            [grid]
            noise_multiplier = [0, 1.5]
            clients = [1, 5, 20]
            """,
        )
    )
    assert len(configs) == 12
    assert [config.seed for config in configs] == [0] * 6 + [1] * 6
    assert {config.tagger.name for config in configs} == {"bilstm-crf"}
    assert [(c.privacy.noise_multiplier, c.federation.clients) for c in configs[:3]] == [(0, 1), (0, 5), (0, 20)]
    assert configs[0].training.epochs == 3


def test_a_sweep_of_silos_has_a_corpus_for_each(tmp_path: Path) -> None:
    configs = sweeps.read(
        write(
            tmp_path,
            """
            [base]
            corpus = "ade@0 + bc5cdr"
            tagger = "mlp-crf"
            schedule = "gradients"
            [grid]
            shared = ["nothing", "hidden"]
            noise_multiplier = [0, 2.0]
            """,
        )
    )
    assert len(configs) == 4
    assert {config.platforms for config in configs} == {("ade@0", "bc5cdr")}
    assert {config.federation.clients for config in configs} == {2}
    assert [config.federation.shared_parts for config in configs] == [(), (), ("hidden",), ("hidden",)]
    with pytest.raises(InvalidConfig, match=r"corpus='ade@0 \+ ade@0',.* a different corpus"):
        sweeps.read(write(tmp_path, '[base]\ncorpus = "ade@0 + ade@0"'))


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert sweeps.read(write(tmp_path, "")) == [SimulationConfig()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "is not a valid TOML file"),
        ("surprise = 1", "unknown key 'surprise', expected only base, grid and seeds"),
        ("[base]\nsigma = 1", "unknown field 'sigma', expected one of averaging, batch_size"),
        ("[base]\nepochs = -1", "epochs=-1, expected a number"),
        ("[grid]\nclients = 5", "clients=5 in the grid, expected a list"),
        ("[grid]\nclients = []", "expected a list of values"),
        ("[base]\nclients = 5\n[grid]\nclients = [5]", "clients is in the grid and in another table"),
        ("[grid]\nseed = [5]", "seed is in the grid and in another table"),
        ("seeds = 0", "seeds=0, expected a number of seeds"),
        ('seeds = ["a"]', "seed='a'"),
        ("base = 3", "base=3, expected a table"),
        ("seeds = 10000\n[grid]\nclients = [1, 2]", "20,000 runs, expected at most 10,000"),
    ],
)
def test_errors_name_the_file_and_the_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        sweeps.read(write(tmp_path, text))
    assert message in str(error.value)
    assert "sweep.toml" in str(error.value)


def test_a_missing_or_too_large_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot be read"):
        sweeps.read(tmp_path / "none.toml")
    with pytest.raises(InvalidConfig, match="more than 1,000,000 bytes"):
        sweeps.read(write(tmp_path, "#" * 1_000_001))


def test_sentences_are_assigned_independently_unless_the_file_says_otherwise() -> None:
    base = {"clients": 5}
    assert [config.federation.partition for config in sweeps.configurations({"base": base})] == ["independent"]
    (named,) = sweeps.configurations({"base": base | {"partition": "random"}})
    assert named.federation.partition == "random"
    assert sweeps.configurations({}) == [SimulationConfig()]


def test_flat_configurations_round_trip() -> None:
    config = SimulationConfig.from_flat({"tagger": "bilstm-crf", "clients": 5, "clip_norm": 2, "seed": 3})
    assert (config.tagger.name, config.federation.clients, config.privacy.clip_norm) == ("bilstm-crf", 5, 2.0)
    assert SimulationConfig.from_flat(config.flat()) == config
    assert config.flat().keys() == FLAT.keys()
