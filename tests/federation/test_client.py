"""Clients and server of a real federation, called one after another: the same as the simulation, to the last digit."""

import dataclasses
import math

import numpy as np
import pytest

from engine.config import SimulationConfig
from engine.errors import BudgetExceeded, CorpusError, TrainingFailed
from engine.federated.client_update import clip
from engine.privacy import accounting
from engine.privacy.noise_check import critical_values
from engine.settings import Settings
from engine.simulation.setup import prepare
from federation import client as module
from federation.client import Client, own_epsilon, own_plan, split
from federation.configuration import Agreement
from federation.server import Server

FIELDS = {
    "corpus": "synthetic",
    "data_fraction": 0.06,
    "hidden_size": 8,
    "clients": 3,
    "rounds": 2,
    "epochs": 1.0,
    "batch_size": 16,
    "noise_multiplier": 0.5,
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return Settings(home=tmp_path_factory.mktemp("home"), data_dir=None, store_url="sqlite://")


def agreement(folder, number=1, data=None, **changed):
    (folder / "server").mkdir(exist_ok=True)
    return Agreement(
        name="a try",
        config=SimulationConfig.from_flat(FIELDS | changed),
        address="127.0.0.1:9400",
        seconds=60.0,
        server=folder / "server",
        number=number,
        client=folder / f"client-{number}",
        data=data,
        port=9094,
    )


def simulated(config, settings):
    """The common weights after each round of the simulation."""
    run = prepare(config, settings).run
    return [run.weights.copy() for progress in run.train() if progress.round is not None]


@pytest.mark.parametrize("mechanism", ["dp-sgd", "local", "secure-sum"])
def test_each_round_is_that_of_the_simulation(tmp_path, settings, mechanism):
    first = agreement(tmp_path, mechanism=mechanism)
    server = Server(first, settings)
    for round, expected in enumerate(simulated(first.config, settings)):
        sent = [
            Client(agreement(tmp_path, number, mechanism=mechanism), settings).train(server.weights.copy(), round)
            for number in (1, 2, 3)
        ]
        share = [1 if mechanism != "dp-sgd" else one.examples for one in sent]
        mean = sum(one.update * part for one, part in zip(sent, share, strict=True)) / sum(share)
        server.move(round + 1, mean, 3, max(one.epsilon for one in sent))
        np.testing.assert_allclose(server.weights, expected, rtol=0, atol=1e-6)


def test_a_file_of_its_own_is_trained_on_as_the_same_shard_of_a_corpus(tmp_path, settings):
    whole = {"data_fraction": 1.0, "epochs": 0.2}
    config = agreement(tmp_path, **whole).config
    start = prepare(config, settings).run.weights.copy()
    shard = split(config, settings)[1]
    data = tmp_path / "own.conll"
    data.write_text("\n".join("".join(f"{word}\t{tag}\n" for word, tag in zip(*one, strict=True)) for one in shard))
    (tmp_path / "own").mkdir()
    of_shard = Client(agreement(tmp_path, 2, **whole), settings).train(start, 0)
    of_file = Client(agreement(tmp_path / "own", 2, data, **whole), settings).train(start, 0)
    assert of_file.examples == of_shard.examples
    assert of_shard.epsilon < of_file.epsilon == math.inf, "all have the seed, and can subtract the noise"
    np.testing.assert_array_equal(of_file.update, of_shard.update)


def test_noise_of_the_system_on_own_sentences_is_worth_its_epsilon(tmp_path, settings):
    whole = {"data_fraction": 1.0, "epochs": 0.2, "noise_source": "system"}
    config = agreement(tmp_path, **whole).config
    data = tmp_path / "own.conll"
    data.write_text("Ada\tB-PER\nspoke\tO\n\n" * 100)
    client = Client(agreement(tmp_path, 2, data, **whole), settings)
    sent = client.train(prepare(config, settings).run.weights.copy(), 0)
    assert sent.epsilon == accounting.epsilon(own_plan(config, 100).parts[0], 1) < math.inf


def test_the_checks_of_all_clients_and_rounds_share_one_chance_of_a_false_alarm(tmp_path, settings):
    client = Client(agreement(tmp_path, rounds=200), settings)
    watch = client._monitor(client.holding.shared).watch
    assert watch.share(1) == critical_values.share(3)
    assert watch.verdicts == 200


def test_a_tag_that_the_others_do_not_have_is_said(tmp_path, settings):
    data = tmp_path / "own.conll"
    data.write_text("Oslo\tB-PLANET\n\n" * 20)
    with pytest.raises(CorpusError, match="B-PLANET"):
        Client(agreement(tmp_path, 2, data, data_fraction=1.0), settings)


def test_noise_of_the_system_is_new_in_each_round_and_client(tmp_path, settings):
    start = prepare(agreement(tmp_path).config, settings).run.weights.copy()
    updates = []
    for number in range(2):
        changed = dataclasses.replace(agreement(tmp_path, noise_source="system"), name=f"try {number}")
        updates.append(Client(changed, settings).train(start, 0).update)
    assert np.linalg.norm(updates[0] - updates[1]) > 0.1 * np.linalg.norm(updates[0])


def test_a_server_that_asks_for_a_round_again_gets_nothing(tmp_path, settings):
    client = Client(agreement(tmp_path), settings)
    start = np.zeros(client.holding.shared, dtype=np.float32)
    client.train(start, 0)
    with pytest.raises(BudgetExceeded, match="round=1"):
        client.train(start + 1, 0)
    with pytest.raises(TrainingFailed, match="round 3"):
        client.train(start, 2)


def test_what_is_spent_is_booked_before_it_is_spent(tmp_path, settings, monkeypatch):
    client = Client(agreement(tmp_path), settings)

    def dies(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.DPSGD, "step", dies)
    with pytest.raises(KeyboardInterrupt):
        client.train(np.zeros(client.holding.shared, dtype=np.float32), 0)
    (entry,) = client.ledger.entries()
    assert entry.epsilon == own_epsilon(client.plan, 1) > 0


def test_noise_that_is_missing_lets_nothing_out(tmp_path, settings, monkeypatch):
    from engine.training import dpsgd

    monkeypatch.setattr(dpsgd, "add_gaussian_noise", lambda total, random, std: None)
    client = Client(agreement(tmp_path), settings)
    with pytest.raises(TrainingFailed, match="noise check failed"):
        client.train(np.zeros(client.holding.shared, dtype=np.float32), 0)


@pytest.mark.parametrize("mechanism", ["local", "secure-sum"])
def test_a_ledger_counts_the_clients_own_noise_alone(mechanism):
    config = SimulationConfig.from_flat(FIELDS | {"mechanism": mechanism, "noise_multiplier": 4.0})
    # One message may turn into any other, 2C away; of three clients one may vanish, and shares are for the two left.
    sigma = 4.0 if mechanism == "local" else 4.0 / math.sqrt(2)
    for rounds in (1, 2):
        expected = accounting.gaussian_epsilon(2 * math.sqrt(rounds) / sigma, 1e-5)
        assert own_epsilon(own_plan(config, 80), rounds) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mechanism", ["local", "secure-sum"])
def test_no_digit_of_an_update_leaves_beside_its_noise(tmp_path, settings, mechanism, monkeypatch):
    """Whoever knows two updates, one of which was sent, takes each from the message: what is left is a number that the
    noise may have been for the one that was not sent as well."""
    updates, honest = [], module.message

    def watched(plan, common, trained, *more):
        updates.append(clip(trained.astype(np.float64) - common, plan.server.clip_norm))
        return honest(plan, common, trained, *more)

    monkeypatch.setattr(module, "message", watched)
    mine = Client(agreement(tmp_path, mechanism=mechanism, noise_source="system"), settings)
    common = prepare(mine.config, settings).run.weights
    sent = mine.train(common, 0).update
    (true,) = updates
    false = true + np.random.default_rng(0).normal(0, 0.01, true.size)
    secure = mine.plan.secure_round(0, common.size)
    scale = secure.scale if secure else 1.0
    off = []
    for update in (true, false):
        noise = (sent - update) * scale  # of all, as it is drawn in float32
        digit = np.spacing(np.abs(noise).astype(np.float32)).astype(np.float64)
        large = digit >= np.quantile(digit, 0.95)
        off.append(np.abs(noise / digit - np.rint(noise / digit))[large])
    assert np.mean(off[1]) == pytest.approx(0.25, abs=0.03)  # as any number lies between two others
    assert np.mean(off[0]) == pytest.approx(np.mean(off[1]), abs=0.03)
    assert (sent - true).std() * scale == pytest.approx(mine.plan.server.noise_std, rel=0.05)


def test_weights_that_do_not_fit_are_refused_before_anything_is_booked(tmp_path, settings):
    client = Client(agreement(tmp_path), settings)
    with pytest.raises(TrainingFailed, match="3 weights"):
        client.train(np.zeros(3, dtype=np.float32), 0)
    assert not client.ledger.entries()
