"""Clients and server of a federation, called in turn: results equal the simulation's."""

import dataclasses
import json
import math
import os
import re
import time

import numpy as np
import pytest

from engine.config import SimulationConfig
from engine.errors import BudgetExceeded, CorpusError, StoreError, TrainingFailed
from engine.federated.client_update import clip
from engine.privacy import accounting
from engine.privacy.noise_check import critical_values
from engine.settings import Settings
from engine.simulation.setup import prepare
from federation import __main__ as cli
from federation import check_files
from federation import client as client_module
from federation.client import Client, own_epsilon, own_plan, split
from federation.configuration import Agreement
from federation.error_log import cause
from federation.flower import processes
from federation.server import Server
from tests.conftest import share
from tests.engine.privacy.noise_check.test_older_state import of_version_0_6

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
def settings(tmp_path_factory, encoded):
    home = tmp_path_factory.mktemp("home")
    share(encoded, home)
    return Settings(home=home, data_dir=None, store_url="sqlite://")


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
    """Return the shared weights after each round of the simulation."""
    run = prepare(config, settings).run
    return [run.weights.copy() for progress in run.train() if progress.round is not None]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "zero out one"),
        ({"partition": "independent"}, "add or remove one"),
        ({"mechanism": "local"}, "replace all that one client has"),
    ],
)
@pytest.mark.repeats(area="federation", after=1)
def test_ledger_has_the_adjacency_of_the_clients_sentences(tmp_path, settings, fields, expected):
    """A client's own file is not assigned by the program, so that one more sentence moves no other."""
    client = Client(agreement(tmp_path, **fields), settings)
    assert client._entry(0, 1.0).neighbouring == expected
    sentences = split(client.config, settings)[0]
    own = tmp_path / "own.conll"
    own.write_text("\n".join("".join(f"{t}\t{g}\n" for t, g in zip(*each, strict=True)) for each in sentences))
    fields = fields | {"data_fraction": 1.0}
    moved = Client(agreement(tmp_path, data=own, **fields), settings)._entry(0, 1.0).neighbouring
    assert moved == ("add or remove one" if "mechanism" not in fields else expected)


@pytest.mark.repeats(area="federation", after=2)
@pytest.mark.parametrize("mechanism", ["dp-sgd", "secure-sum", "local"])
def test_each_round_equals_the_simulation(tmp_path, settings, mechanism):
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


@pytest.mark.repeats(area="federation")
def test_own_data_gives_the_update_of_the_same_corpus_shard(tmp_path, settings):
    fields = {"data_fraction": 1.0, "epochs": 0.2}
    config = agreement(tmp_path, **fields).config
    start = prepare(config, settings).run.weights.copy()
    shard = split(config, settings)[1]
    data = tmp_path / "own.conll"
    data.write_text("\n".join("".join(f"{word}\t{tag}\n" for word, tag in zip(*one, strict=True)) for one in shard))
    (tmp_path / "own").mkdir()
    of_shard = Client(agreement(tmp_path, 2, **fields), settings).train(start, 0)
    of_file = Client(agreement(tmp_path / "own", 2, data, **fields), settings).train(start, 0)
    assert of_file.examples == of_shard.examples
    assert of_shard.epsilon < of_file.epsilon == math.inf, "all clients know the seed and can subtract the noise"
    np.testing.assert_array_equal(of_file.update, of_shard.update)


@pytest.mark.repeats(area="federation")
def test_system_noise_on_own_data_has_the_planned_epsilon(tmp_path, settings):
    fields = {"data_fraction": 1.0, "epochs": 0.2, "noise_source": "system"}
    config = agreement(tmp_path, **fields).config
    data = tmp_path / "own.conll"
    data.write_text("Ada\tB-PER\nspoke\tO\n\n" * 100)
    client = Client(agreement(tmp_path, 2, data, **fields), settings)
    sent = client.train(prepare(config, settings).run.weights.copy(), 0)
    assert sent.epsilon == accounting.epsilon(own_plan(config, 100).parts[0], 1) < math.inf


def test_noise_checks_of_all_clients_and_rounds_share_one_false_alarm_rate(tmp_path, settings):
    client = Client(agreement(tmp_path, rounds=200), settings)
    watch = client._monitor(client.holding.shared).watch
    assert watch.share(1) == critical_values.share(3)
    assert watch.verdicts == 200


def test_measurements_are_sealed_until_the_run_ends_and_then_destroyed(tmp_path, settings):
    client = Client(agreement(tmp_path, noise_source="system"), settings)
    start = prepare(client.config, settings).run.weights.copy()
    client.train(start, 0)
    folder = client.agreement.client / client.run
    saved, key = folder / "check.npz", folder / "check.key"
    state = client._monitor(client.holding.shared).state
    assert state["steps"][0] == client.plan.rounds[0][0].steps
    for name in ("squares", "times"):
        assert state[name][:8].tobytes() not in saved.read_bytes()
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    content = saved.read_bytes()
    for broken in (content[:-1] + bytes([content[-1] ^ 1]), content.replace(client.run.encode(), b"0" * 16)):
        saved.write_bytes(broken)
        with pytest.raises(StoreError, match="cannot be read"):
            client._monitor(client.holding.shared)
    np.savez(saved, **state)  # in the clear, by an earlier version
    assert client._monitor(client.holding.shared).state["steps"] == state["steps"]
    client.train(start, 1)
    assert not saved.exists()
    assert not key.exists()
    assert json.loads((folder / "check.json").read_bytes()) == {"faults": []}


def test_unknown_tag_in_own_data_is_rejected(tmp_path, settings):
    data = tmp_path / "own.conll"
    data.write_text("Oslo\tB-PLANET\n\n" * 20)
    with pytest.raises(CorpusError, match="B-PLANET"):
        Client(agreement(tmp_path, 2, data, data_fraction=1.0), settings)


def test_system_noise_differs_between_runs(tmp_path, settings):
    start = prepare(agreement(tmp_path).config, settings).run.weights.copy()
    updates = []
    for number in range(2):
        changed = dataclasses.replace(agreement(tmp_path, noise_source="system"), name=f"try {number}")
        updates.append(Client(changed, settings).train(start, 0).update)
    assert np.linalg.norm(updates[0] - updates[1]) > 0.1 * np.linalg.norm(updates[0])


def test_repeated_or_skipped_round_is_refused(tmp_path, settings):
    client = Client(agreement(tmp_path), settings)
    start = np.zeros(client.holding.shared, dtype=np.float32)
    client.train(start, 0)
    with pytest.raises(BudgetExceeded, match="round=1"):
        client.train(start + 1, 0)
    with pytest.raises(TrainingFailed, match="round 3"):
        client.train(start, 2)


def test_epsilon_is_charged_before_training(tmp_path, settings, monkeypatch):
    client = Client(agreement(tmp_path), settings)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(client_module.DPSGD, "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.train(np.zeros(client.holding.shared, dtype=np.float32), 0)
    (entry,) = client.ledger.entries()
    assert entry.epsilon == own_epsilon(client.plan, 1) > 0


def test_missing_noise_blocks_the_update(tmp_path, settings, monkeypatch):
    from engine.training import dpsgd

    monkeypatch.setattr(dpsgd, "add_gaussian_noise", lambda total, random, std: None)
    client = Client(agreement(tmp_path), settings)
    weights = np.zeros(client.holding.shared, dtype=np.float32)
    with pytest.raises(TrainingFailed, match="noise check failed") as refused:
        client.train(weights, 0)
    assert not re.search(r"\d", str(refused.value).partition("nothing is sent")[2]), "the log has no measured value"
    assert [path.name for path in (client.agreement.client / client.run).iterdir()] == ["check.json"]
    monkeypatch.undo()
    with pytest.raises(TrainingFailed, match="failed before"):
        Client(agreement(tmp_path), settings).train(weights, 1)


def test_log_quotes_no_error_of_the_program(tmp_path, caplog):
    config = agreement(tmp_path, noise_source="system").config
    with pytest.raises(KeyError) as raised:
        raise KeyError("Ada Lovelace")
    assert cause(raised.value, config) is None
    assert cause(raised.value, agreement(tmp_path).config) is raised.value
    assert "KeyError" in caplog.text
    assert "Lovelace" not in caplog.text.replace('raise KeyError("Ada Lovelace")', "")
    refused = TrainingFailed("round=1: nothing is sent")
    assert cause(refused, config) is refused


@pytest.mark.parametrize("mechanism", ["local", "secure-sum"])
def test_ledger_counts_only_the_clients_own_noise(mechanism):
    config = SimulationConfig.from_flat(FIELDS | {"mechanism": mechanism, "noise_multiplier": 4.0})
    # Replacing a message moves it by at most 2C; one of three clients may drop out, so shares suffice for two.
    sigma = 4.0 if mechanism == "local" else 4.0 / math.sqrt(2)
    for rounds in (1, 2):
        expected = accounting.gaussian_epsilon(2 * math.sqrt(rounds) / sigma, 1e-5)
        assert own_epsilon(own_plan(config, 80), rounds) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mechanism", ["local", "secure-sum"])
def test_low_order_bits_do_not_reveal_the_update(tmp_path, settings, mechanism, monkeypatch):
    """Check the low-order bits of a message.

    An attacker with two candidate updates, one of them sent, subtracts each from the message. The remainder must be a
    possible noise value for the update that was not sent, too.
    """
    updates, original = [], client_module.message

    def recorded_message(plan, common, trained, *more):
        updates.append(clip(trained.astype(np.float64) - common, plan.server.clip_norm))
        return original(plan, common, trained, *more)

    monkeypatch.setattr(client_module, "message", recorded_message)
    mine = Client(agreement(tmp_path, mechanism=mechanism, noise_source="system"), settings)
    common = prepare(mine.config, settings).run.weights
    sent = mine.train(common, 0).update
    (sent_update,) = updates
    other_update = sent_update + np.random.default_rng(0).normal(0, 0.01, sent_update.size)
    secure = mine.plan.secure_round(0, common.size)
    scale = secure.scale if secure else 1.0
    distances = []
    for update in (sent_update, other_update):
        noise = (sent - update) * scale  # of all weights, drawn in float32
        digit = np.spacing(np.abs(noise).astype(np.float32)).astype(np.float64)
        large = digit >= np.quantile(digit, 0.95)
        distances.append(np.abs(noise / digit - np.rint(noise / digit))[large])
    # 0.25 is the mean distance of a uniformly distributed number to the nearest integer.
    assert np.mean(distances[1]) == pytest.approx(0.25, abs=0.03)
    assert np.mean(distances[0]) == pytest.approx(np.mean(distances[1]), abs=0.03)
    assert (sent - sent_update).std() * scale == pytest.approx(mine.plan.server.noise_std, rel=0.05)


def test_wrong_weight_count_is_refused_without_a_charge(tmp_path, settings):
    client = Client(agreement(tmp_path), settings)
    with pytest.raises(TrainingFailed, match="3 weights"):
        client.train(np.zeros(3, dtype=np.float32), 0)
    assert not client.ledger.entries()


class TestEndOfMeasurements:
    """A client that never sees its last round destroys its measurements too."""

    @pytest.fixture
    def begun(self, tmp_path, settings):
        """Return a client after the first of two rounds, with the folder of its run."""
        client = Client(agreement(tmp_path, noise_source="system"), settings)
        client.train(prepare(client.config, settings).run.weights.copy(), 0)
        return client, client.agreement.client / client.run

    def test_measurements_without_a_further_round_are_destroyed(self, begun, tmp_path):
        client, folder = begun
        limit = check_files.lifetime(client.agreement.seconds)
        assert check_files.destroy_all(client.agreement.client, limit) == []
        for name in ("check.key", "check.npz"):
            os.utime(folder / name, (1, time.time() - limit - 1))
        twin = tmp_path / "twin"
        os.link(folder / "check.key", twin)
        processes._destroy_old_measurements(client.agreement)
        assert sorted(path.name for path in folder.iterdir()) == ["check.json"]
        assert twin.read_bytes() == bytes(32), "the key is overwritten, not only unlinked"
        assert client.ledger.entries()
        with pytest.raises(BudgetExceeded):
            client.train(np.zeros(client.holding.shared, np.float32), 0)

    def test_a_last_round_that_diverges_destroys_them(self, begun, settings, monkeypatch):
        client, folder = begun
        monkeypatch.setattr(Client, "_trained", lambda *_: None)
        with pytest.raises(TrainingFailed, match="no longer finite"):
            client.train(prepare(client.config, settings).run.weights.copy(), 1)
        assert sorted(path.name for path in folder.iterdir()) == ["check.json"]

    def test_a_round_in_progress_keeps_its_measurements(self, begun):
        client, folder = begun
        for name in ("check.key", "check.npz"):
            os.utime(folder / name, (1, 1))
        client._monitor(client.holding.shared)  # a round begins
        processes._destroy_old_measurements(client.agreement)
        assert (folder / "check.npz").exists()

    def test_run_continues_after_its_measurements_were_destroyed(self, begun, settings):
        client, folder = begun
        check_files.destroy(folder)
        start = prepare(client.config, settings).run.weights.copy()
        assert client.train(start, 1).epsilon > 0
        assert not (folder / "check.key").exists()

    def test_forget_destroys_all_and_keeps_the_ledger(self, begun, monkeypatch, capsys):
        client, folder = begun
        monkeypatch.setattr(cli.configuration, "read", lambda _: client.agreement)
        assert cli.main(["forget", str(client.agreement.client / "agreement.toml")]) == 0
        assert "1 runs" in capsys.readouterr().out
        assert not (folder / "check.key").exists()
        assert (client.agreement.client / "ledger.jsonl").exists()

    def test_unreadable_measurements_cost_no_round(self, begun, settings):
        client, folder = begun
        start = prepare(client.config, settings).run.weights.copy()
        saved = (folder / "check.npz").read_bytes()
        for broken in (b"PK\x03\x04 no archive", saved[:-1], b"federation check 0, run x, step 1\n"):
            (folder / "check.npz").write_bytes(broken)
            with pytest.raises(StoreError, match="No round was charged"):
                client.train(start, 1)
            assert len(client.ledger.entries()) == 1
            assert (folder / "check.npz").read_bytes() == broken
        (folder / "check.npz").write_bytes(saved)
        client.train(start, 1)

    def test_measurements_of_an_older_version_are_continued(self, begun, settings):
        client, folder = begun
        state = of_version_0_6(client._monitor(client.holding.shared).state)
        np.savez(folder / "check.npz", **state)
        client.train(prepare(client.config, settings).run.weights.copy(), 1)
        assert json.loads((folder / "check.json").read_bytes()) == {"faults": []}
