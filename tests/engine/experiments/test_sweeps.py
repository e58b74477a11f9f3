"""A sweep file is all combinations of its values, or a sentence that names what is wrong with it."""

from pathlib import Path

import pytest

from engine.config import FLAT, SimulationConfig
from engine.errors import InvalidConfig
from engine.experiments import sweeps


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return path


def test_all_combinations_of_one_seed_come_together(tmp_path: Path) -> None:
    found = sweeps.read(
        written(
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
    assert len(found) == 12
    assert [config.seed for config in found] == [0] * 6 + [1] * 6
    assert {config.tagger.name for config in found} == {"bilstm-crf"}
    assert [(c.privacy.noise_multiplier, c.federation.clients) for c in found[:3]] == [(0, 1), (0, 5), (0, 20)]
    assert found[0].training.epochs == 3


def test_platforms_are_a_corpus_each(tmp_path: Path) -> None:
    found = sweeps.read(
        written(
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
    assert len(found) == 4
    assert {config.platforms for config in found} == {("ade@0", "bc5cdr")}
    assert {config.federation.clients for config in found} == {2}
    assert [config.federation.shared_parts for config in found] == [(), (), ("hidden",), ("hidden",)]
    with pytest.raises(InvalidConfig, match=r"corpus='ade@0 \+ ade@0',.* a different corpus"):
        sweeps.read(written(tmp_path, '[base]\ncorpus = "ade@0 + ade@0"'))


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert sweeps.read(written(tmp_path, "")) == [SimulationConfig()]


@pytest.mark.parametrize(
    ("text", "words"),
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
def test_errors_name_the_file_and_the_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        sweeps.read(written(tmp_path, text))
    assert words in str(error.value)
    assert "sweep.toml" in str(error.value)


def test_a_file_that_is_not_there_or_too_large_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot be read"):
        sweeps.read(tmp_path / "none.toml")
    with pytest.raises(InvalidConfig, match="more than 1,000,000 bytes"):
        sweeps.read(written(tmp_path, "#" * 1_000_001))


def test_a_flat_configuration_there_and_back() -> None:
    config = SimulationConfig.from_flat({"tagger": "bilstm-crf", "clients": 5, "clip_norm": 2, "seed": 3})
    assert (config.tagger.name, config.federation.clients, config.privacy.clip_norm) == ("bilstm-crf", 5, 2.0)
    assert SimulationConfig.from_flat(config.flat()) == config
    assert config.flat().keys() == FLAT.keys()
