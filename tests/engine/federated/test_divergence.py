"""What a run costs a budget: Rényi divergences by dp_accounting and in closed form, and that a filter's total holds."""

import math
from dataclasses import replace

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.federated.accounting import divergence
from engine.privacy.mechanism_registry import DP_FEDAVG, LOCAL
from engine.privacy.plan import PrivacyPlan
from engine.privacy.rdp_filter import RdpFilter, best_order_filter, rdp_composition
from tests.engine.federated.test_costliest import PART, federation

ORDER = 8.0


def test_poisson_steps_cost_what_the_library_says():
    accountant = RdpAccountant([ORDER])
    accountant.compose(dp_accounting.PoissonSampledDpEvent(8 / 400, dp_accounting.GaussianDpEvent(2.0)), 50)
    assert divergence(federation([PART]), "sentence", ORDER) == pytest.approx(accountant.rdp[0])


def test_of_several_clients_the_dearest_counts():
    more = replace(PART, steps=80)
    both = divergence(federation([PART, more]), "sentence", ORDER)
    assert both == divergence(federation([more]), "sentence", ORDER) > divergence(federation([PART]), "sentence", ORDER)


def test_fixed_batches_are_one_gaussian_an_epoch():
    """α·s²/2 for shifts s = √5/σ; 50 batches an epoch, so 60 steps begin a second one."""
    plan = federation([replace(PART, sampling="shuffle", steps=60)])
    assert divergence(plan, "sentence", ORDER) == pytest.approx(2 * ORDER * 5 / 4 / 2)


SERVER = PrivacyPlan(
    examples=10, batch_size=5, steps=6, noise_multiplier=4.0, clip_norm=1.0, delta=1e-5, sampling="poisson"
)


def test_whole_clients_under_a_budget_of_clients_and_of_sentences():
    plan = federation([PART] * 10, rounds=6, server=SERVER, mechanism=DP_FEDAVG)
    assert divergence(plan, "client", ORDER) == pytest.approx(RdpFilter(1, 1e-5, ORDER).cost(SERVER))
    # A sentence more changes its client's update by up to 2C, in any of the rounds.
    assert divergence(plan, "sentence", ORDER) == pytest.approx(6 * ORDER * (2 / 4) ** 2 / 2)


def test_messages_are_paid_for_each():
    server = replace(SERVER, sampling="all", steps=60)
    plan = federation([PART] * 10, rounds=6, server=server, mechanism=LOCAL)
    for unit in ("client", "sentence"):
        assert divergence(plan, unit, ORDER) == pytest.approx(6 * ORDER * (2 / 4) ** 2 / 2)


def test_without_noise_or_to_another_unit_nothing_is_promised():
    assert math.isinf(divergence(federation([replace(PART, noise_multiplier=0.0)]), "sentence", ORDER))
    assert math.isinf(divergence(federation([PART]), "client", ORDER))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(0.8, 8), st.integers(1, 60), st.integers(4, 100)), min_size=1, max_size=6))
def test_what_is_admitted_never_costs_more_than_the_total(runs):
    """Against privacy loss distributions of all that was admitted, exact but for rounding up."""
    filtered, booked, admitted = best_order_filter(2.0, 1e-5, PART), 0.0, []
    for sigma, steps, batch in runs:
        plan = replace(PART, noise_multiplier=sigma, steps=steps, batch_size=batch)
        cost = divergence(federation([plan]), "sentence", filtered.order)
        if filtered.admits(booked, cost):
            booked += cost
            admitted.append((plan, 1))
    assert rdp_composition(admitted, 1e-5) <= 2.0 + 1e-3
