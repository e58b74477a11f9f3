"""Rényi divergences of runs, against dp_accounting and closed forms, and the total of a Rényi filter."""

import math
from dataclasses import replace

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.mechanism_registry import DP_FEDAVG, LOCAL
from engine.federated.accounting import divergence
from engine.privacy.plan import PrivacyPlan
from engine.privacy.rdp_filter import RdpFilter, best_order_filter, pld_composition
from tests.engine.federated.test_costliest import PART, federation

ORDER = 8.0


def test_poisson_steps_equal_dp_accounting():
    accountant = RdpAccountant([ORDER])
    accountant.compose(dp_accounting.PoissonSampledDpEvent(8 / 400, dp_accounting.GaussianDpEvent(2.0)), 50)
    assert divergence(federation([PART]), "sentence", ORDER) == pytest.approx(accountant.rdp[0])


def test_divergence_is_the_maximum_over_clients():
    more = replace(PART, steps=80)
    both = divergence(federation([PART, more]), "sentence", ORDER)
    assert both == divergence(federation([more]), "sentence", ORDER) > divergence(federation([PART]), "sentence", ORDER)


def test_shuffled_batches_are_one_gaussian_per_epoch():
    """α·s²/2 per epoch with shift s = √5/σ; an epoch has 50 batches, so 60 steps begin a second epoch."""
    plan = federation([replace(PART, sampling="shuffle", steps=60)])
    assert divergence(plan, "sentence", ORDER) == pytest.approx(2 * ORDER * 5 / 4 / 2)


SERVER = PrivacyPlan(
    examples=10, batch_size=5, steps=6, noise_multiplier=4.0, clip_norm=1.0, delta=1e-5, sampling="poisson"
)


def test_client_level_runs_with_client_and_sentence_budgets():
    plan = federation([PART] * 10, rounds=6, server=SERVER, mechanism=DP_FEDAVG)
    assert divergence(plan, "client", ORDER) == pytest.approx(RdpFilter(1, 1e-5, ORDER).cost(SERVER))
    # One more sentence changes its client's update by up to 2C, in each round.
    assert divergence(plan, "sentence", ORDER) == pytest.approx(6 * ORDER * (2 / 4) ** 2 / 2)


def test_local_noise_charges_each_message():
    server = replace(SERVER, sampling="all", steps=60)
    plan = federation([PART] * 10, rounds=6, server=server, mechanism=LOCAL)
    for unit in ("client", "sentence"):
        assert divergence(plan, unit, ORDER) == pytest.approx(6 * ORDER * (2 / 4) ** 2 / 2)


def test_divergence_is_infinite_without_noise_or_for_a_smaller_unit():
    assert math.isinf(divergence(federation([replace(PART, noise_multiplier=0.0)]), "sentence", ORDER))
    assert math.isinf(divergence(federation([PART]), "client", ORDER))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(0.8, 8), st.integers(1, 60), st.integers(4, 100)), min_size=1, max_size=6))
def test_admitted_runs_stay_within_the_total(runs):
    """The reference is the privacy loss distribution of all admitted runs, exact except for rounding up."""
    rdp_filter, charged, admitted = best_order_filter(2.0, 1e-5, PART), 0.0, []
    for sigma, steps, batch in runs:
        plan = replace(PART, noise_multiplier=sigma, steps=steps, batch_size=batch)
        cost = divergence(federation([plan]), "sentence", rdp_filter.order)
        if rdp_filter.admits(charged, cost):
            charged += cost
            admitted.append((plan, 1))
    assert pld_composition(admitted, 1e-5) <= 2.0 + 1e-3
