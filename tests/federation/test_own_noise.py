"""A federation as in production: processes on loopback, each client's own data, noise of the operating system."""

import json
import math
import time

import pytest

from engine.training.model import Model
from federation.ledger import Ledger
from tests.federation.parties import NUMBERS, Parties

FIELDS = {
    "corpus": "synthetic",
    "hidden_size": 8,
    "clients": 3,
    "rounds": 2,
    "epochs": 2.0,
    "batch_size": 64,
    "mechanism": "secure-sum",
    "noise_multiplier": 1.0,
    "noise_source": "system",
}

pytestmark = pytest.mark.nightly  # `make test` runs test_processes.py


@pytest.fixture(scope="module")
def finished(python, tmp_path_factory):
    """Yield the server and clients of a finished run."""
    parties = Parties(python, tmp_path_factory.mktemp("own"), FIELDS)
    try:
        parties.agree()
        parties.begin()
        until = time.monotonic() + 600
        while parties.running["server"].poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        assert parties.running["server"].poll() == 0, parties.logs()
        yield parties
    finally:
        parties.end_all()


def test_all_clients_take_part_in_all_rounds(finished):
    *rounds, test = json.loads((finished.folder / "server" / "rounds.json").read_text())
    assert [record["clients"] for record in rounds] == [3, 3]
    assert 0 <= test["f1"] <= 1


def test_each_ledger_has_the_epsilon_of_the_clients_own_noise(finished):
    """Check ε for the client's share of the noise, which is the planned noise ÷ √2, since one client may drop out.

    ε holds even if all other clients drop out. Replacing all data of a client moves its clipped update by at most
    twice the clip norm.
    """
    share = 1 / math.sqrt(2) / 2
    for number in NUMBERS:
        first, second = Ledger(finished.folder / f"hospital-{number}").entries()
        assert [first.round, second.round] == [1, 2]
        assert gaussian_epsilon(share, first.delta) == pytest.approx(first.epsilon, rel=0.01)
        assert gaussian_epsilon(share / math.sqrt(2), second.delta) == pytest.approx(second.epsilon, rel=0.01)
        assert "∞" not in finished.verb("ledger", f"{number}.toml")
    assert math.isfinite(Model.load(finished.folder / "server" / "tagger.npz").epsilon)


def gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """Return ε of one Gaussian mechanism of sensitivity 1 (Balle and Wang 2018, theorem 8)."""

    def exceeds_delta(epsilon: float) -> bool:
        half, shift = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
        return normal(half - shift) - math.exp(epsilon) * normal(-half - shift) > delta

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds_delta(middle) else (low, middle)
    return high


def normal(value: float) -> float:
    return math.erfc(-value / math.sqrt(2)) / 2
