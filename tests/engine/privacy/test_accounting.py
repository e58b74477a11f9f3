"""ε compared with published values, a closed form, a second accountant, and among accountants."""

import math
import subprocess
import sys

import pytest

from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import InvalidConfig
from engine.privacy import accounting
from engine.privacy.accounting import (
    _upper_bound,
    epsilon,
    gaussian_epsilon,
    max_cost_candidates,
    noise_multiplier_for,
    privacy_spent,
    shuffled_epsilon,
)
from engine.privacy.plan import PrivacyPlan
from engine.records import assumption_texts
from tests.engine.privacy.prv import assert_priced, gaussian_by_mpmath


def plan_of(examples: int = 14_041, sigma: float = 1.0, batch_size: int = 32, **chosen: object) -> PrivacyPlan:
    privacy = {"noise_multiplier": sigma} | {k: v for k, v in chosen.items() if k in ("delta", "sampling")}
    config = SimulationConfig(
        training=TrainingConfig(batch_size=batch_size, epochs=chosen.get("epochs", 10.0)),
        privacy=PrivacyConfig(**privacy),
    )
    return PrivacyPlan.from_config(config, examples)


@pytest.mark.parametrize(("sigma", "reported"), [(0.5, 3.73), (1, 0.688), (5, 0.05), (10, 0.024), (50, 0.022)])
def test_rdp_classic_equals_values_reported_by_dp_fl_ner(sigma: float, reported: float) -> None:
    """Table 2: n with -DOCSTART- lines, batch size 1, 10 epochs."""
    plan = plan_of(14_987, sigma, batch_size=1)
    assert plan.steps == 149_870
    measured = {0.5: 3.728, 1: 0.6876, 5: 0.0486, 10: 0.0242, 50: 0.0226}[sigma]
    assert epsilon(plan, plan.steps, "rdp-classic") == pytest.approx(measured, abs=6e-4 if sigma == 0.5 else 6e-5)
    assert epsilon(plan, plan.steps, "rdp-classic") == pytest.approx(reported, abs=0.0025)


EXPECTED = {  # σ: PLD, RDP, rdp-classic at batch 32, n = 14,987
    0.5: (7.10, 8.491, 9.725),
    1: (0.734, 1.032, 1.367),
    5: (0.0908, 0.101, 0.1471),
    10: (0.0417, 0.0471, 0.0728),
    50: (0.0068, 0.0079, 0.0247),
}


@pytest.mark.parametrize("sigma", EXPECTED)
def test_epsilon_with_batch_size_32(sigma: float) -> None:
    plan = plan_of(14_987, sigma)
    found = [epsilon(plan, plan.steps, name) for name in ("pld", "rdp", "rdp-classic")]
    assert found == pytest.approx(EXPECTED[sigma], rel=7e-3)


def test_epsilon_of_one_client_of_five() -> None:
    plan = plan_of(2_997)
    assert plan.steps == 937
    found = [epsilon(plan, plan.steps, name) for name in ("pld", "rdp", "rdp-classic")]
    assert found == pytest.approx([1.90, 2.18, 2.64], abs=0.006)


def test_pld_equals_prv_accountant() -> None:
    """``test_second_accountant.py`` has more points, with proven bounds."""
    plan = plan_of(sigma=0.8, epochs=2.0)
    assert plan.steps == 878
    assert_priced(epsilon(plan, 878), 32 / 14_041, 0.8, 878, 1e-5)


@pytest.mark.parametrize("steps", [1, 7])
def test_pld_without_sampling_equals_closed_form(steps: int) -> None:
    plan = plan_of(32, sigma=2.0)
    assert plan.sampling_probability == 1
    exact = gaussian_by_mpmath(math.sqrt(steps) / 2.0, 1e-5)
    assert gaussian_epsilon(math.sqrt(steps) / 2.0, 1e-5) == pytest.approx(exact, abs=1e-8)
    assert exact <= epsilon(plan, steps) <= exact + 2e-4 * steps
    assert epsilon(plan, steps, "rdp") > exact


def test_closed_form_equals_integral() -> None:
    """δ(ε) = ∫ max(0, p − e^ε q) of two unit Gaussians μ apart, summed in float64."""
    import numpy as np
    from scipy.stats import norm

    x = np.linspace(-20, 25, 2_000_001)
    for mu, delta in ((0.5, 1e-5), (2.0, 1e-6), (5.0, 1e-3)):
        value = gaussian_epsilon(mu, delta)
        gap = np.maximum(0, norm.pdf(x, mu) - math.exp(value) * norm.pdf(x))
        assert float(gap.sum() * (x[1] - x[0])) == pytest.approx(delta, rel=1e-4)


@pytest.mark.repeats
def test_tiny_noise_is_fast_and_accurate() -> None:
    plan = plan_of(sigma=0.2)
    assert epsilon(plan, 4388) == pytest.approx(197.02589, rel=1e-4)
    assert epsilon(plan_of(sigma=0.01), 4388) > 10_000


def of_shard(examples: int, sigma: float, delta: float = 1e-5, **fields: float) -> PrivacyPlan:
    values = {"batch_size": 32, "epochs": 10.0, "noise_multiplier": sigma, "delta": delta} | fields
    return PrivacyPlan.of_piece(SimulationConfig.from_flat(values), examples, examples)


@pytest.mark.parametrize("sigma", [0.5, 0.57, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("examples", [32, 33, 880, 14_041])
def test_upper_bound_is_close_to_epsilon_and_never_below_it(examples: int, sigma: float) -> None:
    plan = of_shard(examples, sigma)
    exact = epsilon(plan, plan.steps)
    assert exact * (1 - 1e-9) <= _upper_bound(plan, plan.steps) <= 1.03 * exact
    assert _upper_bound(plan, 1) >= epsilon(plan, 1) * (1 - 1e-9)


def test_upper_bound_of_rare_samples_has_the_grid_of_epsilon() -> None:
    """A step's loss, 1e-6, is as small as the finest cell."""
    plan = plan_of(32_000_000, 1.0, 32)
    assert _upper_bound(plan, 500) == epsilon(plan, 500)


def test_candidates_allow_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan whose bound is 0.005 % below another ε may still have a larger ε; at 0.02 % it cannot."""
    plans = [of_shard(examples, 1.0) for examples in (100, 101, 102)]
    values = dict(zip(plans, (1.0, 0.99995, 0.9998), strict=True))
    for name in ("_upper_bound", "epsilon"):
        monkeypatch.setattr(accounting, name, lambda plan, steps: values[plan])
    assert max_cost_candidates([(plan, 5) for plan in plans]) == [(plan, 5) for plan in plans[:2]]


def test_upper_bound_at_a_tiny_delta_is_the_epsilon() -> None:
    plan = of_shard(880, 1.0, delta=1e-12)
    assert _upper_bound(plan, plan.steps) == epsilon(plan, plan.steps) == epsilon(plan, plan.steps, "rdp")


@pytest.mark.parametrize("sigma", [0.0, 0.7, 3.0])
def test_largest_epsilon_is_among_the_candidates(sigma: float) -> None:
    """Sizes as of clients whose sentences are drawn independently; the steps are rounded."""
    plans = [of_shard(examples, sigma) for examples in (198, 205, 211, 219, 221, 222, 222, 230, 241, 1_000)]
    parts = [(plan, plan.steps) for plan in plans]
    candidates = max_cost_candidates(parts)
    assert max(epsilon(*part) for part in candidates) == max(epsilon(*part) for part in parts)
    assert len(candidates) < 4 or sigma == 0
    assert max_cost_candidates([(plans[0], 0), (plans[-1], 3)]) == [(plans[-1], 3)]


@pytest.mark.parametrize("accountant", ["pld", "rdp", "rdp-classic"])
def test_epsilon_grows_with_steps_and_falls_with_noise(accountant: str) -> None:
    plan = plan_of()
    values = [epsilon(plan, steps, accountant) for steps in (1, 10, 100, 1000, 4388)]
    assert values == sorted(values)
    assert values[0] < values[-1]
    assert epsilon(plan_of(sigma=1.1), 4388, accountant) < values[-1]


def test_noise_multiplier_for_is_smallest_for_target() -> None:
    """With exact costs. ``assumptions/test_evaluation.py`` tests other accountants and the grid."""
    plan = plan_of()
    sigma = noise_multiplier_for(3.0, plan)
    assert epsilon(plan_of(sigma=sigma), plan.steps) <= 3.0
    assert epsilon(plan_of(sigma=sigma - 3e-4), plan.steps) > 3.0


def test_unreachable_target_raises() -> None:
    with pytest.raises(InvalidConfig, match="cannot be reached"):
        noise_multiplier_for(0.001, plan_of(), "rdp-classic")


class TestShuffledBatches:
    """Without amplification: √(5E)·C under add-or-remove adjacency, for E epochs."""

    @pytest.mark.parametrize(("steps", "epochs"), [(1, 1), (439, 1), (440, 2), (878, 2), (879, 3), (4390, 10)])
    @pytest.mark.parametrize("sigma", [0.7, 1.0, 5.0])
    def test_started_epochs_count_in_full(self, steps: int, epochs: int, sigma: float) -> None:
        """14,041 sentences by 32: 439 batches an epoch, the last of them smaller."""
        plan = plan_of(sampling="shuffle", sigma=sigma)
        exact = gaussian_by_mpmath(math.sqrt(5 * epochs) / sigma, 1e-5)
        assert shuffled_epsilon(plan, steps) == pytest.approx(exact, abs=1e-7)

    def test_main_epsilon_is_unamplified_and_poisson_epsilon_is_separate(self) -> None:
        plan = plan_of(sampling="shuffle")
        assert plan.steps == 4390
        now = privacy_spent(plan, plan.steps)
        # By hand: μ = √50 = 7.0711; δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) = 1e-5 at ε = 54.38.
        assert now.epsilon == now.rdp_epsilon == pytest.approx(54.3766, abs=1e-4)
        assert now.accountant == "exact"
        assert_priced(now.poisson_epsilon or 0.0, 32 / 14_041, 1.0, 4390, 1e-5)
        assert now.epsilon > 50 * (now.poisson_epsilon or math.inf)
        assert now.assumptions[0] == assumption_texts.SHUFFLE
        assert not any("Poisson" in sentence for sentence in now.assumptions)
        assert any("shuffle" in sentence for sentence in plan.warnings())
        assert privacy_spent(plan, 0).epsilon == 0


def test_import_loads_no_heavy_packages() -> None:
    code = "import sys, engine.privacy.accounting; print('dp_accounting' in sys.modules, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
