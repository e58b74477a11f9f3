"""Configuration files of a federation."""

import pytest

from engine.errors import InvalidConfig
from federation import configuration

FILE = """
name = "a try"
[settings]
corpus = "synthetic"
clients = 3
{settings}
[server]
address = "127.0.0.1:9400"
[client]
number = {number}
folder = "hospital"
{client}
"""


def agreement(folder, settings="", number=1, client=""):
    path = folder / "federation.toml"
    path.write_text(FILE.format(settings=settings, number=number, client=client), encoding="utf-8")
    return configuration.read(path)


def test_settings_are_those_of_a_simulation(tmp_path):
    result = agreement(
        tmp_path, "rounds = 4\nnoise_multiplier = 2\nnoise_source = 'system'", client="data = 'own.conll'"
    )
    assert (result.config.federation.rounds, result.config.privacy.noise_source) == (4, "system")
    assert result.data == tmp_path / "own.conll"
    assert result.client == tmp_path / "hospital"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("participants = 2", "participants=2"),
        ("mechanism = 'dp-fedavg'", "mechanism='dp-fedavg'"),
        ("features = 'contextual'", "features='contextual'"),
        ("schedule = 'incremental'", "schedule='incremental'"),
        ("colour = 'red'", "unknown field 'colour'"),
    ],
)
def test_unsupported_settings_are_rejected(tmp_path, settings, message):
    with pytest.raises(InvalidConfig, match=message):
        agreement(tmp_path, settings)


def test_two_clients_are_rejected(tmp_path):
    """With two clients, each could compute the other's update from the sum."""
    path = tmp_path / "federation.toml"
    path.write_text(FILE.replace("clients = 3", "clients = 2").format(settings="", number=1, client=""))
    with pytest.raises(InvalidConfig, match="clients=2"):
        configuration.read(path)


@pytest.mark.parametrize("number", [0, 4])
def test_client_number_is_in_range(tmp_path, number):
    with pytest.raises(InvalidConfig, match=f"number={number}"):
        agreement(tmp_path, number=number)


def test_unknown_field_is_rejected(tmp_path):
    with pytest.raises(InvalidConfig, match="unknown field 'dta'"):
        agreement(tmp_path, client="dta = 'own.conll'")


def test_own_data_requires_data_fraction_one(tmp_path):
    with pytest.raises(InvalidConfig, match=r"data_fraction=0\.5"):
        agreement(tmp_path, "data_fraction = 0.5", client="data = 'own.conll'")
