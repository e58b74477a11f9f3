"""The real thing: a server and three clients as processes on loopback, TLS, keys, SecAgg+, a client that is killed.

Needs the environment of `make federation`. Skipped where it is not there; in CI that is a failure.
"""

import json
import math
import socket
import ssl
import subprocess
import time
from typing import Any

import pytest

from engine.config import SimulationConfig
from engine.errors import TrainingFailed
from engine.federated.fedavg import Federation
from engine.settings import Settings
from engine.simulation.setup import prepare
from federation.keys import make_server_keys
from federation.ledger import Ledger
from tests.federation.parties import ROOT, Parties, free_ports

FIELDS = {
    "corpus": "synthetic",
    "hidden_size": 16,
    "clients": 3,
    "rounds": 2,
    "epochs": 6.0,
    "batch_size": 16,
    "noise_multiplier": 0.3,
    "learning_rate": 1.0,
}
KILLED = 2
"""Index of the client that is killed when it begins to train in the second, and last, round."""


class _Killed(Federation):
    """The simulation of that: the client's training does not come back."""

    def learner(self, visit):
        learner = super().learner(visit)
        if visit.client == KILLED and visit.first:

            def dies(step):
                raise TrainingFailed("killed")

            killed: Any = learner
            killed.step = dies
        return learner


def simulated(home):
    """Validation F1 after each round, and test F1 at the end."""
    prepared = prepare(SimulationConfig.from_flat(FIELDS), Settings(home=home, data_dir=None, store_url="sqlite://"))
    run, (side,) = prepared.run, prepared.sides
    run.__class__ = _Killed
    found = [
        side.scores("validation", run.average.weights, lambda: None).f1
        for progress in run.train()
        if progress.round is not None
    ]
    return found, side.scores("test", run.average.weights, lambda: None).f1


@pytest.fixture(scope="module")
def ended(python, tmp_path_factory):
    """A run to its end, whose last client was killed when its second round was booked: its parties."""
    parties = Parties(python, tmp_path_factory.mktemp("federation"), FIELDS)
    try:
        parties.agree(without={KILLED + 1})
        parties.begin()
        ledger = Ledger(parties.folder / f"hospital-{KILLED + 1}")
        until = time.monotonic() + 600
        while parties.running["server"].poll() is None and time.monotonic() < until:
            if str(KILLED + 1) in parties.running and len(ledger.entries()) == 2:
                parties.end(str(KILLED + 1))
            time.sleep(0.02)
        assert parties.running["server"].poll() == 0, parties.logs()
        yield parties
    finally:
        parties.end_all()


def test_its_scores_are_those_of_the_simulation_and_who_vanishes_costs_the_round_itself_alone(ended, tmp_path):
    *rounds, test = json.loads((ended.folder / "server" / "rounds.json").read_text())
    expected, expected_test = simulated(tmp_path)
    assert [one["clients"] for one in rounds] == [3, 2]
    assert [one["f1"] for one in rounds] == pytest.approx(expected, abs=0.002)
    assert test["f1"] == pytest.approx(expected_test, abs=0.002)
    assert expected_test > 0.1, "too little is learned to compare"


def test_each_client_has_booked_its_own_rounds_the_killed_one_too(ended):
    for number in (1, 2, 3):
        entries = Ledger(ended.folder / f"hospital-{number}").entries()
        assert [entry.round for entry in entries] == [1, 2]
        if number == KILLED + 1:  # its sentences are the public corpus's
            assert 0 < entries[0].epsilon < entries[1].epsilon < math.inf
        else:  # all know the seed of the noise
            assert entries[0].epsilon == math.inf
    shown = ended.verb("ledger", "1.toml")
    assert "All runs together: ε = ∞" in shown


def test_the_tagger_can_be_read_and_says_what_it_cost(ended):
    from engine.training.model import Model

    model = Model.load(ended.folder / "server" / "tagger.npz")
    assert model.epsilon == math.inf


def test_clients_have_installed_nothing_that_the_server_sent(ended):
    for number in (1, 2, 3):
        assert not list((ended.folder / f"hospital-{number}" / "flower").rglob("*.py"))


def _asked(context, connection):
    """The first bytes of what the other side asks; with TLS 1.3 its alert comes here."""
    with context.wrap_socket(connection, server_side=True) as talk:
        return talk.recv(1)


def test_a_client_talks_to_no_server_with_another_certificate(ended):
    """A server on loopback with a certificate of its own is asked for nothing."""
    folder = ended.folder
    (port, own) = free_ports(2)
    other = folder / "other"
    make_server_keys(other, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(other / "certificate.pem", other / "key.pem")
    lured = (folder / "1.toml").read_text().splitlines()
    lured = [f'address = "127.0.0.1:{port}"' if line.startswith("address") else line for line in lured]
    lured = [f"port = {own}" if line.startswith("port") else line for line in lured]
    (folder / "lured.toml").write_text("\n".join(lured))
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(60)
        ended.start("lured", "client", "lured.toml")
        try:
            connection, _ = server.accept()
            connection.settimeout(60)
            with pytest.raises(ssl.SSLError, match=r"ALERT|CERTIFICATE"):
                _asked(context, connection)
        finally:
            ended.end("lured")


MASKS = """
import numpy as np
from federation.flower.aggregation import MODULUS, levels, masks
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
folded = bytes(28) + b"abcd", b"abcd" + bytes(28)  # equal once folded to 32 bits
shapes = [(1,), (100_000,)]
theirs = [pseudo_rand_gen(seed, MODULUS, shapes)[1] for seed in folded]
ours = [masks(seed, MODULUS, shapes)[1] for seed in folded]
print((theirs[0] == theirs[1]).all(), (ours[0] == ours[1]).mean() < 1e-3, abs(ours[0].mean() / 2**31 - 1) < 0.01)
print(all(n * levels(n) < MODULUS and 4 * n * levels(n) >= MODULUS for n in range(3, 1000)))
"""


def test_masks_are_made_from_all_of_a_key(python):
    made = subprocess.run([python, "-c", MASKS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert made.split() == ["True"] * 4


GUARD = """
from types import SimpleNamespace
from flwr.app import ConfigRecord, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from engine.errors import SecAggFailed
from federation.flower.aggregation import MODULUS, levels
from federation.flower.server_validation import Guard
def asks(kind="train", **values):
    content = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord(values)} if values else {})
    message = SimpleNamespace(content=content, metadata=SimpleNamespace(message_type=kind))
    try:
        Guard(3, 8.0)(message, None, lambda message, context: None)
        return "passed"
    except SecAggFailed:
        return "refused"
setup = {Key.STAGE: Stage.SETUP, Key.THRESHOLD: 2, Key.CLIPPING_RANGE: 8.0, Key.TARGET_RANGE: levels(3),
    Key.MOD_RANGE: MODULUS, Key.SHARE_NUMBER: 3, Key.SAMPLE_NUMBER: 3}
def shares(there, gone):
    return asks(**{Key.STAGE: Stage.UNMASK, Key.ACTIVE_NODE_ID_LIST: there, Key.DEAD_NODE_ID_LIST: gone})
print(asks(**setup), shares([1, 2], [3]))
print(asks(), asks("train.more", **setup), asks(**setup | {Key.THRESHOLD: 1}))
print(shares([1, 2, 3], [3]), shares([1], [2, 3]))
"""


def test_a_server_that_lies_is_refused(python):
    made = subprocess.run([python, "-c", GUARD], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert made.splitlines() == ["passed passed", "refused refused refused", "refused refused"]
