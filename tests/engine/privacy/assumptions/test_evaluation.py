"""Privacy costs and derived values on plans with fast accounting: closed forms, limits, grids. ``test_accounting.py``
and ``test_second_accountant.py`` compare with published values and other accountants."""

import dataclasses
import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant

from engine.errors import InvalidConfig
from engine.privacy import accounting, pld
from engine.privacy.accounting import (
    epsilon,
    event_epsilon,
    gaussian_epsilon,
    noise_multiplier_for,
    privacy_spent,
    rdp_composition,
)
from engine.privacy.plan import PrivacyPlan
from engine.records import PrivacySpent
from engine.records.assumption_texts import FLOATING, POISSON, PUBLIC, SECRET_SAMPLE, SEEDED, SHUFFLE, SYSTEM, WITHHELD
from tests.engine.privacy.prv import gaussian_by_mpmath

DELTA = 1e-5


def plan_of(examples: int, batch_size: int, sigma: float, steps: int, **more: Any) -> PrivacyPlan:
    known: dict = {"clip_norm": 1.0, "delta": DELTA, "sampling": "poisson"}
    return PrivacyPlan(examples=examples, batch_size=batch_size, steps=steps, noise_multiplier=sigma, **(known | more))


WHOLE, SAMPLED = plan_of(10, 10, 6.0, 4), plan_of(100, 20, 3.0, 5)
SILENT = dataclasses.replace(WHOLE, noise_multiplier=0.0)


class TestSpent:
    @pytest.mark.parametrize(
        ("source", "said", "kept"),
        [("seeded", SEEDED, SECRET_SAMPLE), ("system", SYSTEM, WITHHELD)],
        ids=["seeded", "system"],
    )
    def test_poisson_samples(self, source: str, said: str, kept: str) -> None:
        plan = dataclasses.replace(SAMPLED, noise_source=source)
        assert privacy_spent(plan, 0).epsilon == 0.0
        assert privacy_spent(plan, 3) == PrivacySpent(
            epsilon=epsilon(SAMPLED, 3),
            delta=DELTA,
            accountant="pld",
            assumptions=(POISSON, kept, said, FLOATING, PUBLIC),
            rdp_epsilon=epsilon(SAMPLED, 3, "rdp"),
            poisson_epsilon=None,
        )

    def test_shuffled_batches(self) -> None:
        """Three steps of five batches are part of one epoch: √5 · C."""
        plan = dataclasses.replace(SAMPLED, sampling="shuffle")
        found = privacy_spent(plan, 3)
        assert found.epsilon == found.rdp_epsilon == pytest.approx(gaussian_by_mpmath(math.sqrt(5) / 3, DELTA))
        assert found.poisson_epsilon == epsilon(SAMPLED, 3)
        assert (found.accountant, found.delta) == ("exact", DELTA)
        assert found.assumptions == (SHUFFLE, SEEDED, FLOATING, PUBLIC)

    def test_without_noise_first_step_has_infinite_epsilon(self) -> None:
        assert privacy_spent(SILENT, 0) == PrivacySpent(epsilon=0.0, delta=DELTA)
        assert privacy_spent(SILENT, 1) == PrivacySpent(epsilon=math.inf, delta=DELTA)


class TestEpsilon:
    @pytest.mark.parametrize("accountant", ["pld", "rdp", "rdp-classic"])
    def test_zero_steps_and_zero_noise(self, accountant: str) -> None:
        assert epsilon(SAMPLED, 0, accountant) == epsilon(SILENT, 0, accountant) == 0.0
        assert epsilon(SILENT, 1, accountant) == math.inf
        with pytest.raises(InvalidConfig, match=r"steps=-1,.* 0 or more"):
            epsilon(SAMPLED, -1, accountant)

    def test_unknown_accountant_is_rejected(self) -> None:
        with pytest.raises(InvalidConfig, match=r"accountant='moments',.* pld, rdp, rdp-classic"):
            epsilon(SAMPLED, 0, "moments")

    @pytest.mark.parametrize("steps", [1, 4])
    def test_without_sampling_equals_closed_forms(self, steps: int) -> None:
        exact = gaussian_by_mpmath(math.sqrt(steps) / 6, DELTA)
        assert exact <= epsilon(WHOLE, steps) <= exact + 2e-4 * steps
        orders = np.array(RdpAccountant()._orders)
        (theirs, _) = rdp_privacy_accountant.compute_epsilon(orders, steps * orders / (2 * 6**2), DELTA)
        assert epsilon(WHOLE, steps, "rdp") == pytest.approx(theirs)
        # The orders of TensorFlow Privacy's first tutorials.
        orders = np.array([1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512])
        classic = steps * orders / (2 * 6**2) + math.log(1 / DELTA) / (orders - 1)
        assert epsilon(WHOLE, steps, "rdp-classic") == pytest.approx(classic.min(), rel=1e-12)

    def test_orders_of_classic_accountant(self) -> None:
        first = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5)
        assert (*first, *map(float, range(5, 64)), 128.0, 256.0, 512.0) == accounting.CLASSIC_ORDERS

    def test_with_sampling_divergences_are_binomial_sums(self) -> None:
        """At the order with the minimum, an integer here (Mironov, Talwar and Zhang 2019)."""
        q, sigma, steps = 0.2, 3.0, 5

        def divergence(order: int) -> float:
            terms = [
                math.comb(order, k) * q**k * (1 - q) ** (order - k) * math.exp(k * (k - 1) / (2 * sigma**2))
                for k in range(order + 1)
            ]
            return steps * math.log(sum(terms)) / (order - 1)

        classic = min(divergence(order) + math.log(1 / DELTA) / (order - 1) for order in range(5, 64))
        assert epsilon(SAMPLED, steps, "rdp-classic") == pytest.approx(classic, rel=1e-9)


class TestEventEpsilon:
    def test_no_op_is_zero_and_non_private_is_infinite(self) -> None:
        assert event_epsilon(dp_accounting.NoOpDpEvent(), DELTA) == 0.0
        assert event_epsilon(dp_accounting.NonPrivateDpEvent(), DELTA) == math.inf

    def test_gaussian_events_equal_closed_form(self) -> None:
        once = dp_accounting.GaussianDpEvent(4.0)
        assert event_epsilon(once, DELTA) == pytest.approx(gaussian_by_mpmath(1 / 4, DELTA), abs=1e-9)
        several = dp_accounting.SelfComposedDpEvent(once, 9)
        assert event_epsilon(several, DELTA) == pytest.approx(gaussian_by_mpmath(3 / 4, DELTA), abs=1e-9)

    def test_composed_gaussians_equal_closed_form(self) -> None:
        parts = [
            dp_accounting.GaussianDpEvent(5.0),
            dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(8.0), 3),
            dp_accounting.PoissonSampledDpEvent(1.0, dp_accounting.GaussianDpEvent(10.0)),
        ]
        exact = gaussian_by_mpmath(math.sqrt(1 / 25 + 3 / 64 + 1 / 100), DELTA)
        assert exact <= event_epsilon(dp_accounting.ComposedDpEvent(parts), DELTA) <= exact + 1e-3
        nested = dp_accounting.ComposedDpEvent([dp_accounting.ComposedDpEvent(parts[:2]), parts[2]])
        assert exact <= event_epsilon(nested, DELTA) <= exact + 1e-3

    def test_sampled_event_equals_plan(self) -> None:
        once = dp_accounting.PoissonSampledDpEvent(0.2, dp_accounting.GaussianDpEvent(3.0))
        assert event_epsilon(once, DELTA) == pytest.approx(epsilon(SAMPLED, 1), rel=1e-9)
        assert event_epsilon(dp_accounting.SelfComposedDpEvent(once, 5), DELTA) == epsilon(SAMPLED, 5)

    @pytest.mark.parametrize(
        "event",
        [
            dp_accounting.LaplaceDpEvent(1.0),
            dp_accounting.PoissonSampledDpEvent(0.5, dp_accounting.LaplaceDpEvent(1.0)),
            dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(1.0), 2),
        ],
    )
    def test_unsupported_event_is_rejected(self, event: Any) -> None:
        with pytest.raises(InvalidConfig, match=r"event=(Laplace|PoissonSampled)DpEvent, expected Gaussian noise"):
            event_epsilon(event, DELTA)


class TestPldComposition:
    def test_divergences_are_summed(self) -> None:
        orders = np.array(RdpAccountant()._orders)
        other = plan_of(10, 10, 8.0, 3)
        together = orders / 2 * (4 / 6**2 + 3 / 8**2)
        assert rdp_composition([WHOLE, other], DELTA) == pytest.approx(
            rdp_privacy_accountant.compute_epsilon(orders, together, DELTA)[0]
        )
        assert rdp_composition([SAMPLED], DELTA) == epsilon(SAMPLED, 5, "rdp")

    def test_empty_is_zero_and_plan_without_noise_is_infinite(self) -> None:
        assert rdp_composition([], DELTA) == 0.0
        assert rdp_composition([WHOLE, SILENT, WHOLE], DELTA) == math.inf


class TestGaussian:
    @pytest.mark.parametrize("mu", [0.01, 0.3, 2.0, 20.0])
    @pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3])
    def test_equals_mpmath_with_30_digits(self, mu: float, delta: float) -> None:
        assert gaussian_epsilon(mu, delta) == pytest.approx(gaussian_by_mpmath(mu, delta), abs=2e-9)

    def test_is_zero_above_total_variation_distance(self) -> None:
        """δ(0) = 2Φ(μ/2) − 1, the total variation distance of two Gaussians."""
        for mu in (0.1, 1.0):
            apart = math.erf(mu / 2 / math.sqrt(2))
            assert gaussian_epsilon(mu, apart * 1.0000001) == 0.0
            assert 0 < gaussian_epsilon(mu, apart * 0.9999) < 0.01


class TestNoiseMultiplier:
    @pytest.mark.parametrize("target", [0, -1, math.nan, math.inf, "3"])
    def test_invalid_targets_are_rejected(self, target: Any) -> None:
        with pytest.raises(InvalidConfig, match=rf"target_epsilon={target!r},.* positive"):
            noise_multiplier_for(target, SAMPLED)

    def test_result_is_smallest_on_grid(self) -> None:
        accountant = "rdp-classic"
        sigma = noise_multiplier_for(1, SAMPLED, accountant)
        assert sigma == round(sigma, 4)
        near = [epsilon(dataclasses.replace(SAMPLED, noise_multiplier=s), 5, accountant) for s in (sigma - 2e-4, sigma)]
        assert near[1] <= 1 < near[0]

    @pytest.mark.parametrize("factor", [0.1, 0.3, 1.0, 1.7, 6000.0])
    @pytest.mark.parametrize("accountant", ["rdp", "rdp-classic", "pld"])
    @pytest.mark.parametrize("target", [1, 1.0, 0.5])
    def test_near_and_far_targets(
        self, target: float, accountant: str, factor: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The exact ε is target · factor ÷ σ, and Rényi accounting gives a twentieth more."""
        more = {"rdp": 1.05, "rdp-classic": 1.2, "pld": 1.0}
        asked = []

        def cost(plan: PrivacyPlan, steps: int, name: str) -> float:
            asked.append(name)
            assert steps == SAMPLED.steps
            assert plan == dataclasses.replace(SAMPLED, noise_multiplier=plan.noise_multiplier)
            return target * more[name] * factor / plan.noise_multiplier

        monkeypatch.setattr(accounting, "epsilon", cost)
        found = noise_multiplier_for(target, SAMPLED, accountant)
        assert found == round(found, 4)
        assert -1e-9 <= found - more[accountant] * factor <= (1e-4 if accountant == "pld" else 2e-4) + 1e-9
        assert set(asked) == ({"pld", "rdp"} if accountant == "pld" else {accountant})
        assert asked.count("pld") < 20  # each takes up to a second
        assert asked.count("rdp") + asked.count("rdp-classic") < 45

    @pytest.mark.parametrize("accountant", ["rdp", "pld"])
    def test_largest_noise_multipliers_are_tried(self, accountant: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(accounting, "epsilon", lambda plan, steps, name: 9_000 / plan.noise_multiplier)
        assert noise_multiplier_for(1, SAMPLED, accountant) == pytest.approx(9_000, abs=3e-4)

    def test_unreachable_target_raises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(accounting, "epsilon", lambda plan, steps, name: 20_000 / plan.noise_multiplier)
        said = r"ε = 1 cannot .*δ = 1e-05 .*noise multiplier .*10,000 .*pld"
        with pytest.raises(InvalidConfig, match=said):
            noise_multiplier_for(1, SAMPLED)


class TestExactNoiseMultiplier:
    """Below an upper limit from Rényi accounting, with known costs, counting the evaluations."""

    @staticmethod
    def found(border: float, high: float, steps: float = 0.0) -> tuple[float, list[float]]:
        asked = []

        def cost(sigma: float) -> float:
            asked.append(sigma)
            return 3.0 * border / (math.floor(sigma / steps) * steps if steps else sigma)

        return accounting._exact_noise_multiplier(cost, 3.0, high), asked

    @pytest.mark.parametrize("high", [1.2345, 1.2346, 1.25, 1.4, 3.0])
    def test_result_is_first_on_grid(self, high: float) -> None:
        for border, expected in ((1.23449, 1.2345), (1.23441, 1.2345), (1.23432, 1.2344)):
            found, asked = self.found(border, high)
            assert found == expected
            assert len(asked) < 25

    def test_result_may_be_the_upper_limit(self) -> None:
        assert self.found(1.25, 1.25)[0] == 1.25
        assert self.found(1.25003, 1.25003)[0] == 1.2501

    def test_result_may_exceed_limit_by_rounding(self) -> None:
        found, asked = self.found(1.25005, 1.25)
        assert found == 1.2501
        assert min(asked) >= 0.9 * 1.25
        assert max(asked) <= 1.01 * 1.25
        assert self.found(1.29995, 1.25)[0] == 1.3

    def test_search_decreases_by_a_tenth_per_step(self) -> None:
        _, asked = self.found(0.5, 1.0)
        assert asked[:7] == pytest.approx([0.9**power for power in range(1, 8)])

    def test_discontinuous_epsilon_meets_target(self) -> None:
        """The root is known to 2e-5: if it is too low, the next grid value is tried."""
        places = [1.2 + 1e-4 * number + 3e-6 for number in range(1, 60)]
        again = 0
        for cliff in places:
            asked = []

            def cost(sigma: float, cliff: float = cliff, asked: list = asked) -> float:
                asked.append(sigma)
                return 3.3 if sigma < cliff else 2.7

            found = accounting._exact_noise_multiplier(cost, 3.0, 1.3)
            assert found == pytest.approx(math.ceil(cliff * 10_000) / 10_000, abs=1e-12)
            assert found == round(found, 4)
            again += asked[-2] == pytest.approx(found - 1e-4, abs=1e-12)
        assert again  # it was too low at least once

    def test_stepwise_epsilon_meets_target(self) -> None:
        """If the root is below a step, the next grid values are tried."""
        for border in (1.00205, 1.0035, 1.0001):
            found, _ = self.found(border, 1.4, steps=0.0007)
            assert 3.0 * border / (math.floor(found / 0.0007) * 0.0007) <= 3.0
            assert found == round(found, 4)
            assert found - border <= 0.0007 + 2e-4


@pytest.mark.parametrize(
    ("probability", "sigma", "width"),
    [
        (0.5, 1.0, 1e-4),
        (0.5, 0.5, 1e-4),
        (0.5, 0.25, 4e-4),
        (0.5, 0.1, 25e-4),
        (0.01, 20.0, 5e-5),
        (0.001, 20.0, 5e-6),
        (0.0001, 20.0, 1e-6),
        (1e-7, 0.25, 1e-6),
    ],
)
def test_grid_width_of_one_step(
    probability: float, sigma: float, width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1e-4, wider below σ = ½, and at most a tenth of q ÷ σ if that is above a millionth."""
    asked: list[Any] = []
    monkeypatch.setattr(pld, "on_grid", lambda *args: asked.append(args))
    pld.one_step.__wrapped__(probability, sigma)
    assert asked == [(probability, sigma, pytest.approx(width))]
