"""A server and three clients as processes on loopback, with TLS, keys, SecAgg+ and a killed client.

The tests need the environment of `make federation`; without it they are skipped, and fail in CI.
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
from tests.conftest import share
from tests.engine.test_file_access import accessible
from tests.federation.parties import ROOT, Parties, free_ports

whole_run = pytest.mark.repeats(area="federation")
"""Marks tests of a whole federation: a server and three clients, over a minute."""

FIELDS = {
    "corpus": "synthetic",
    "hidden_size": 16,
    "clients": 3,
    "batch_size": 16,
    "noise_multiplier": 0.3,
    "learning_rate": 1.0,
}
KILLED = 2
"""Index of the client that is killed at the start of its training in the last round."""
ROUNDS = [1, pytest.param(2, marks=pytest.mark.nightly)]
"""Numbers of rounds; all clients take part in the first of two. Each round starts a dozen processes."""


def fields(rounds):
    """Return the settings of a run with so many rounds."""
    return FIELDS | {"rounds": rounds, "epochs": 3.0 * rounds}


class _WithKilledClient(Federation):
    """A simulation in which the training of that client fails in the last round."""

    rounds: int

    def learner(self, visit):
        learner = super().learner(visit)
        if visit.client == KILLED and (visit.first or self.rounds == 1):

            def fail(step):
                raise TrainingFailed("killed")

            killed: Any = learner
            killed.step = fail
        return learner


def simulated(home, rounds):
    """Return validation F1 after each round, and test F1 at the end."""
    config = SimulationConfig.from_flat(fields(rounds))
    prepared = prepare(config, Settings(home=home, data_dir=None, store_url="sqlite://"))
    run: Any = prepared.run
    (side,) = prepared.sides
    run.__class__ = _WithKilledClient
    run.rounds = rounds
    f1_by_round = [
        side.scores("validation", run.average.weights, lambda: None).f1
        for progress in run.train()
        if progress.round is not None
    ]
    return f1_by_round, side.scores("test", run.average.weights, lambda: None).f1


@pytest.fixture(scope="module", params=ROUNDS)
def rounds(request):
    return request.param


@pytest.fixture(scope="module")
def finished(python, tmp_path_factory, rounds):
    """Yield the server and clients of a finished run, whose client was killed after the charge of its last round."""
    parties = Parties(python, tmp_path_factory.mktemp("federation"), fields(rounds))
    try:
        parties.agree(without={KILLED + 1})
        parties.begin()
        ledger = Ledger(parties.folder / f"hospital-{KILLED + 1}")
        until = time.monotonic() + 600
        while parties.running["server"].poll() is None and time.monotonic() < until:
            if str(KILLED + 1) in parties.running and len(ledger.entries()) == rounds:
                parties.end(str(KILLED + 1))
            time.sleep(0.02)
        assert parties.running["server"].poll() == 0, parties.logs()
        yield parties
    finally:
        parties.end_all()


@whole_run
def test_scores_equal_the_simulation_with_a_dropped_client(finished, rounds, tmp_path, encoded):
    share(encoded, tmp_path)
    *records, test = json.loads((finished.folder / "server" / "rounds.json").read_text())
    expected, expected_test = simulated(tmp_path, rounds)
    assert [record["clients"] for record in records] == [3, 2][-rounds:]
    assert [record["f1"] for record in records] == pytest.approx(expected, abs=0.002)
    assert test["f1"] == pytest.approx(expected_test, abs=0.002)
    assert expected_test > 0.1, "F1 is too low for a comparison"


@whole_run
def test_each_client_including_the_killed_one_has_its_charges(finished, rounds):
    for number in (1, 2, 3):
        entries = Ledger(finished.folder / f"hospital-{number}").entries()
        assert [entry.round for entry in entries] == list(range(1, rounds + 1))
        own = number != KILLED + 1  # others have sentences of the public corpus, by their positions
        assert {entry.neighbouring for entry in entries} == {"add or remove one" if own else "zero out one"}
        if number == KILLED + 1:  # it has sentences of the public corpus
            spent = [entry.epsilon for entry in entries]
            assert spent == sorted({*spent}), "ε grows with each round"
            assert 0 < spent[0] <= spent[-1] < math.inf
        else:  # all clients know the seed of the noise
            assert entries[0].epsilon == math.inf
    output = finished.verb("ledger", "1.toml")
    assert "All runs together: ε = ∞" in output
    assert "(adjacency: add or remove one)" in output


@whole_run
def test_saved_model_has_its_epsilon(finished):
    from engine.training.model import Model

    model = Model.load(finished.folder / "server" / "tagger.npz")
    assert model.epsilon == math.inf


@whole_run
def test_files_of_each_party_belong_to_their_owner(finished):
    for name in ("server", "hospital-1", "hospital-2", "hospital-3"):
        assert not accessible(finished.folder / name)


@whole_run
def test_clients_install_no_code_from_the_server(finished):
    for number in (1, 2, 3):
        assert not list((finished.folder / f"hospital-{number}" / "flower").rglob("*.py"))


def _first_request_byte(context, connection):
    """Return the first byte of the client's request; with TLS 1.3, its alert arrives here."""
    with context.wrap_socket(connection, server_side=True) as tls:
        return tls.recv(1)


@whole_run
def test_client_rejects_another_server_certificate(finished):
    """A server on loopback with another certificate receives no request."""
    folder = finished.folder
    (port, own) = free_ports(2)
    other = folder / "other"
    make_server_keys(other, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(other / "certificate.pem", other / "key.pem")
    lines = (folder / "1.toml").read_text().splitlines()
    lines = [f'address = "127.0.0.1:{port}"' if line.startswith("address") else line for line in lines]
    lines = [f"port = {own}" if line.startswith("port") else line for line in lines]
    (folder / "redirected.toml").write_text("\n".join(lines))
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(60)
        finished.start("redirected", "client", "redirected.toml")
        try:
            connection, _ = server.accept()
            connection.settimeout(60)
            with pytest.raises(ssl.SSLError, match=r"ALERT|CERTIFICATE"):
                _first_request_byte(context, connection)
        finally:
            finished.end("redirected")


MASKS = """
import numpy as np
from federation.flower.aggregation import MODULUS, levels, masks
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
folded = bytes(28) + b"abcd", b"abcd" + bytes(28)  # equal once folded to 32 bits
shapes = [(1,), (100_000,)]
flower = [pseudo_rand_gen(seed, MODULUS, shapes)[1] for seed in folded]
own = [masks(seed, MODULUS, shapes)[1] for seed in folded]
print((flower[0] == flower[1]).all(), (own[0] == own[1]).mean() < 1e-3, abs(own[0].mean() / 2**31 - 1) < 0.01)
print(all(n * levels(n) < MODULUS and 4 * n * levels(n) >= MODULUS for n in range(3, 1000)))
"""


def test_masks_depend_on_the_whole_key(python):
    made = subprocess.run([python, "-c", MASKS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert made.split() == ["True"] * 4


VALIDATION = """
from types import SimpleNamespace
from flwr.app import ConfigRecord, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from engine.errors import SecAggFailed
from federation.flower.aggregation import MODULUS, levels
from federation.flower.server_validation import Guard
def check(kind="train", **values):
    content = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord(values)} if values else {})
    message = SimpleNamespace(content=content, metadata=SimpleNamespace(message_type=kind))
    try:
        Guard(3, 8.0)(message, None, lambda message, context: None)
        return "passed"
    except SecAggFailed:
        return "refused"
setup = {Key.STAGE: Stage.SETUP, Key.THRESHOLD: 2, Key.CLIPPING_RANGE: 8.0, Key.TARGET_RANGE: levels(3),
    Key.MOD_RANGE: MODULUS, Key.SHARE_NUMBER: 3, Key.SAMPLE_NUMBER: 3}
def shares(active, dropped):
    return check(**{Key.STAGE: Stage.UNMASK, Key.ACTIVE_NODE_ID_LIST: active, Key.DEAD_NODE_ID_LIST: dropped})
print(check(**setup), shares([1, 2], [3]))
print(check(), check("train.more", **setup), check(**setup | {Key.THRESHOLD: 1}))
print(shares([1, 2, 3], [3]), shares([1], [2, 3]))
"""


def test_invalid_server_messages_are_refused(python):
    made = subprocess.run([python, "-c", VALIDATION], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert made.splitlines() == ["passed passed", "refused refused refused", "refused refused"]


FAILURE = """
from types import SimpleNamespace
from flwr.common import FitIns, ndarrays_to_parameters
import numpy as np
from engine.errors import CorpusError
from federation import client
from federation.flower.client_app import _TrainingClient
def fail(agreement, settings):
    raise CorpusError("data has the unknown tag B-PLANET")
client.Client = fail
try:
    _TrainingClient(SimpleNamespace(config=None)).fit(FitIns(ndarrays_to_parameters([np.zeros(3)]), {"round": 0}))
except Exception as error:
    print(type(error).__name__, "B-PLANET" in str(error), "B-PLANET" in str(error.__cause__))
"""


@pytest.mark.repeats(area="federation")
def test_server_gets_no_reason_of_a_failure(python):
    """Flower sends the text of an exception to the server; the client's log has its cause too."""
    made = subprocess.run([python, "-c", FAILURE], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert made.split() == ["TrainingFailed", "False", "True"]
