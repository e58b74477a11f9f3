"""What a hospital would do: processes on loopback, each client's own sentences, noise of the operating system."""

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

pytestmark = pytest.mark.nightly  # test_processes.py has the case of make test


@pytest.fixture(scope="module")
def ended(python, tmp_path_factory):
    """The parties of a run that has ended."""
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


def test_all_rounds_have_all_clients(ended):
    *rounds, test = json.loads((ended.folder / "server" / "rounds.json").read_text())
    assert [one["clients"] for one in rounds] == [3, 3]
    assert 0 <= test["f1"] <= 1


def test_each_clients_ledger_has_an_epsilon_of_its_own_noise(ended):
    """Of its share: the planned noise ÷ √2, so that it holds where one of three vanishes, or all others do. All that a
    client has may be replaced, which moves its clipped update by twice the clip norm."""
    share = 1 / math.sqrt(2) / 2
    for number in NUMBERS:
        first, second = Ledger(ended.folder / f"hospital-{number}").entries()
        assert [first.round, second.round] == [1, 2]
        assert gaussian_epsilon(share, first.delta) == pytest.approx(first.epsilon, rel=0.01)
        assert gaussian_epsilon(share / math.sqrt(2), second.delta) == pytest.approx(second.epsilon, rel=0.01)
        assert "∞" not in ended.verb("ledger", f"{number}.toml")
    assert math.isfinite(Model.load(ended.folder / "server" / "tagger.npz").epsilon)


def gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """Of one Gaussian mechanism of sensitivity 1, by its exact formula (Balle and Wang 2018, theorem 8)."""

    def above(epsilon: float) -> bool:
        half, shift = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
        return normal(half - shift) - math.exp(epsilon) * normal(-half - shift) > delta

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) else (low, middle)
    return high


def normal(value: float) -> float:
    return math.erfc(-value / math.sqrt(2)) / 2
