"""Gradient inversion by an honest-but-curious server on small federations of the built-in corpus."""

import pytest

from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import InvalidConfig
from engine.experiments import audits, gradient_inversion
from engine.reports.audits import audit_text, server_text
from engine.settings import Settings
from tests.conftest import share

TRAINING = TrainingConfig(epochs=1, batch_size=4)


def config_of(clients=400, rounds=1, training=TRAINING, **privacy):
    federation = FederationConfig(clients=clients, rounds=rounds, **privacy.pop("federation", {}))
    return SimulationConfig(training=training, federation=federation, privacy=PrivacyConfig(**privacy))


@pytest.fixture(scope="module")
def result(tmp_path_factory, encoded):
    home = tmp_path_factory.mktemp("home")
    share(encoded, home)
    settings = Settings(home=home, data_dir=None, store_url=f"sqlite:///{home / 'runs.sqlite'}", published=home)
    return gradient_inversion.measure(config_of(noise_multiplier=1.0), settings)


@pytest.mark.repeats
def test_without_noise_words_of_small_clients_are_reconstructed(result):
    first = result.readings[0]
    assert (result.clients, result.steps, result.sums) == (3, 3, False)
    assert 1 < result.claimed < 50
    assert first.noise_multiplier == 0
    assert first.by_message
    assert first.precision > 0.95
    # A quarter of the sentences, (1 - 4/11)^3, is in none of the three batches and so not in the message.
    assert first.recall == pytest.approx(0.75, abs=0.12)


@pytest.mark.repeats
def test_usual_noise_leaves_only_frequent_words(result):
    last = result.readings[-1]
    assert last.noise_multiplier == 1.0
    assert not last.by_message
    assert last.precision < result.readings[0].precision
    text = server_text(result, 1.0)
    assert all(part in text for part in ("first messages", "3 clients", "11 sentences each"))


def test_server_side_noise_does_not_stop_the_server(trained_settings):
    """DP-FedAvg: the server sees each update before it adds any noise."""
    result = gradient_inversion.measure(config_of(noise_multiplier=2.0, mechanism="dp-fedavg"), trained_settings)
    (reading,) = result.readings
    assert reading.noise_multiplier == 2.0
    assert reading.by_message
    assert reading.precision > 0.95


def test_client_level_noise_stops_the_server(trained_settings):
    result = gradient_inversion.measure(config_of(noise_multiplier=2.0, mechanism="local"), trained_settings)
    assert result.readings[0].by_message
    assert not result.readings[-1].by_message


def test_secure_aggregation_exposes_only_the_sum(trained_settings):
    result = gradient_inversion.measure(
        config_of(
            clients=20, noise_multiplier=2.0, mechanism="secure-sum", training=TrainingConfig(epochs=1, batch_size=64)
        ),
        trained_settings,
    )
    assert result.sums
    assert result.clients == 1
    assert not result.readings[-1].by_message, "of twenty clients with 220 sentences each"


@pytest.mark.repeats
def test_audit_of_a_federated_run_inverts_messages(trained_settings):
    result = audits.audit(config_of(clients=100, noise_multiplier=1.0), trained_settings, 0, command="")
    assert result.server
    assert audit_text(result).startswith("Honest-but-curious server")
    central = SimulationConfig(features="vectors", privacy=PrivacyConfig(noise_multiplier=1.0))
    assert audits.audit(central, trained_settings, 0, command="").server is None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (SimulationConfig(), "clients=1; gradient inversion expects more than 1"),
        (config_of(training=TrainingConfig(optimiser="adam", learning_rate=0.01)), "optimiser='adam'"),
        (SimulationConfig(features="contextual", federation=FederationConfig(clients=2)), "features='contextual'"),
    ],
)
def test_refuse_names_unsupported_settings(config, words):
    with pytest.raises(InvalidConfig, match=words):
        gradient_inversion.refuse(config)
