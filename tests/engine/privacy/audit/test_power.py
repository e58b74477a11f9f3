"""Power of audits: the committed calibration runs, and their use."""

import re

import pytest

from engine.privacy.audit import power
from engine.reports.audits import power_of, power_text
from tests.engine.store.test_audits import CANARIES

EPSILONS = (1.0, 3.0, 8.0)


def test_every_size_was_calibrated_at_three_epsilons_with_coverage() -> None:
    sizes = {(cell["kind"], cell["method"], cell["seeds"], cell["canaries"]) for cell in power.cells()}
    for kind, method, seeds, canaries in sizes:
        found = power.power(kind, canaries, method=method, seeds=seeds)
        assert (found.canaries, found.seeds, tuple(found.medians)) == (canaries, seeds, EPSILONS)
    assert all(cell["coverage"] >= 0.85 for cell in power.cells()), "40 bounds at 95 %, less three standard deviations"


def test_white_box_audit_with_8000_canaries_reaches_six_tenths_of_epsilon() -> None:
    found = power.power("directions", 8000, method=power.COUNT)
    assert min(found.medians.values()) >= 0.6


def test_power_is_that_of_the_largest_calibration_run_that_is_not_larger() -> None:
    assert power.power("directions", 1999, method=power.COUNT).canaries == 1000
    assert power.power("directions", 10**6, method=power.COUNT).canaries == 8000
    assert power.power("directions", 1000, method=power.COUNT, seeds=4).seeds == 1
    assert power.power("directions", 1000, method=power.COUNT, seeds=6).seeds == 5
    assert power.power("directions", 10, method=power.COUNT) is None
    assert "not known" in power_text(power.power("directions", 10, method=power.COUNT))


@pytest.mark.parametrize("method", [power.COUNT, power.RATES])
def test_text_states_the_claims_that_half_of_the_audits_contradict(method: str) -> None:
    audit = CANARIES.__class__(**{**vars(CANARIES), "canaries": 1000, "trials": (500, 900)})
    if method == power.RATES:
        audit = CANARIES.__class__(**{**vars(audit), "trials": None})
    medians = power.power("directions", 1000, method=method).medians
    text = power_text(power_of(audit))
    claims = {f"{epsilon:g}": f"{ratio * epsilon:.2g}" for epsilon, ratio in medians.items()}
    found = re.findall(r"(?:if the true ε is|If it is) (\d+),[^.]*? below (\d+(?:\.\d+)?)\.", text)
    assert dict(found) == claims


def test_text_of_the_black_box_attacker_does_not_claim_power_that_it_lacks() -> None:
    found = power.power("sentences", 1000, method=power.GUESSES)
    assert max(found.medians.values()) < 0.01
    assert "hardly have contradicted any claim" in power_text(found)
