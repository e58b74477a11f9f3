"""ε at a δ that is so small that the rounding of Fourier transforms would decide it."""

import json
import math
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp
from scipy.stats import binom, norm

from engine.cli.epsilon import epsilon as epsilon_command
from engine.privacy import accounting, group_privacy, second_accountant
from engine.privacy.plan import PrivacyPlan
from engine.privacy.rdp_filter import pld_composition
from engine.records import PrivacySpent
from tests.engine.privacy.test_accounting import plan_of

SETTINGS = ((4388, 1.0, 14_041, 32), (1000, 0.6, 10_000, 100))


def plan(steps: int, sigma: float, examples: int, batch: int, delta: float) -> PrivacyPlan:
    return replace(plan_of(examples, sigma, batch), steps=steps, delta=delta)


def tilted(probability: float, sigma: float, steps: int, delta: float) -> float:
    """Return ε for removing a sentence, by a Fourier transform whose rounding is small compared with any δ.

    Losses are weighted by e^(order · loss), so that those above ε are the most likely ones, and this is undone
    afterwards (Esscher's tilt).
    """
    x = np.linspace(-12 * sigma, 16 * sigma + 1, 400_000)
    density = norm.logpdf(x, scale=sigma) + math.log(x[1] - x[0])
    loss = np.logaddexp(math.log1p(-probability), math.log(probability) + (2 * x - 1) / (2 * sigma**2))

    def exponent(order: float) -> float:
        return (steps * float(logsumexp(density + (order + 1) * loss)) - math.log(delta)) / order

    order = float(minimize_scalar(exponent, bounds=(0.1, 200), method="bounded").x)
    logs = density + (order + 1) * loss
    moment = float(logsumexp(logs))
    width, size = 2e-4, 2**19
    cell = np.floor(loss / width).astype(int)
    first, share, weights = cell.min(), loss / width - cell, np.exp(logs - moment)
    masses = np.bincount(cell - first, weights * (1 - share), size) + np.bincount(
        cell - first + 1, weights * share, size
    )
    mean = steps * (masses @ np.arange(size))
    low = int(mean) - size // 2
    sums = np.roll(np.fft.irfft(np.fft.rfft(masses) ** steps, size), -(low % size))
    losses = (steps * first + low + np.arange(size)) * width
    kept = sums > 1e-13 * sums.max()
    losses, log_masses = losses[kept], np.log(sums[kept]) + steps * moment - order * losses[kept]

    def excess(epsilon: float) -> float:
        above = losses > epsilon
        return float(logsumexp(log_masses[above] + np.log(-np.expm1(epsilon - losses[above])))) - math.log(delta)

    return float(brentq(excess, 0.05, exponent(order)))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("delta", [1e-10, 1e-12, 1e-14])
def test_epsilon_is_a_bound_at_any_delta(setting: tuple[int, float, int, int], delta: float) -> None:
    small = plan(*setting, delta)
    spent = accounting.privacy_spent(small, small.steps)
    assert spent.epsilon > tilted(small.sampling_probability, small.noise_multiplier, small.steps, delta)
    assert spent.epsilon == spent.rdp_epsilon < math.inf
    assert spent.accountant == "rdp"


@pytest.mark.parametrize("setting", SETTINGS)
def test_pld_is_right_at_the_smallest_delta(setting: tuple[int, float, int, int]) -> None:
    least = plan(*setting, accounting.smallest_delta(setting[0]))
    spent = accounting.privacy_spent(least, least.steps)
    assert spent.accountant == "pld"
    assert spent.epsilon == pytest.approx(
        tilted(least.sampling_probability, least.noise_multiplier, least.steps, least.delta), rel=1e-3
    )


def test_events_and_compositions_have_the_same_bound() -> None:
    small = plan(*SETTINGS[0], 1e-14)
    once = dp_accounting.PoissonSampledDpEvent(small.sampling_probability, dp_accounting.GaussianDpEvent(1.0))
    event = dp_accounting.SelfComposedDpEvent(once, small.steps)
    expected = accounting.epsilon(small, small.steps, "rdp")
    assert accounting.event_epsilon(event, 1e-14) == expected
    assert accounting.event_epsilon(dp_accounting.ComposedDpEvent([event, event]), 1e-14) > expected
    assert pld_composition([(small, 1)], 1e-14) == expected


def test_smallest_delta_grows_with_the_steps_of_a_whole_event() -> None:
    """Above 100,000 steps, at which rounding changes δ most."""
    assert accounting.smallest_delta(100_000) == pytest.approx(1e-9)
    assert accounting.smallest_delta(1_000_000) == pytest.approx(1e-8)
    steps, q = 150_000, 0.001
    many = plan(steps, 2.0, 10_000, 10, 2e-9)
    once = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(2.0))
    event = dp_accounting.SelfComposedDpEvent(once, steps)
    exact = accounting.epsilon(many, steps)
    assert accounting.event_epsilon(event, 2e-9) == pytest.approx(exact, rel=1e-3)
    assert accounting.epsilon(many, steps, "rdp") > 1.01 * exact
    assert accounting.event_epsilon(event, 1.4e-9) == accounting.epsilon(replace(many, delta=1.4e-9), steps, "rdp")


def test_the_smallest_delta_itself_has_an_exact_epsilon() -> None:
    least = plan(*SETTINGS[0], accounting.smallest_delta(SETTINGS[0][0]))
    exact = tilted(least.sampling_probability, least.noise_multiplier, least.steps, least.delta)
    once = dp_accounting.PoissonSampledDpEvent(least.sampling_probability, dp_accounting.GaussianDpEvent(1.0))
    event = dp_accounting.SelfComposedDpEvent(once, least.steps)
    assert accounting.privacy_spent(least, least.steps).accountant == "pld"
    assert accounting.event_epsilon(event, least.delta) == pytest.approx(exact, rel=1e-3)
    assert accounting.epsilon(least, least.steps, "rdp") > 1.01 * exact


def test_releases_without_sampling_have_a_bound_at_any_delta() -> None:
    event = dp_accounting.ComposedDpEvent([dp_accounting.GaussianDpEvent(20.0), dp_accounting.GaussianDpEvent(8.0)])
    exact = accounting.gaussian_epsilon(math.hypot(1 / 20, 1 / 8), 1e-14)
    assert exact < accounting.event_epsilon(event, 1e-14) < 1.1 * exact


def test_group_epsilon_is_a_bound_at_any_delta() -> None:
    parts = [(plan(*SETTINGS[0], delta), SETTINGS[0][0]) for delta in (1e-9, 1e-10, 1e-14)]
    values = [group_privacy.group_epsilon([part], 10) for part in parts]
    assert values == sorted(values)
    assert values[-1] < 3 * values[0]
    assert values[1] > accounting.epsilon(*parts[1])


@pytest.mark.parametrize(
    ("q", "mu", "size", "order"),
    [(0.07, 0.3, 3, 12.0), (0.3, 1.0, 2, 1.5), (0.5, 0.5, 5, 40.0), (1e-4, 0.05, 200, 2.0), (0.02, 0.1, 10, 256.0)],
)
def test_mixture_divergences_equal_direct_sums(q: float, mu: float, size: int, order: float) -> None:
    with np.errstate(all="raise", under="ignore"):
        found = group_privacy._mixture_divergences(q, mu, size, np.array([2.0, order]), 0.0)[:, 1]
    weights = binom.pmf(np.arange(size + 1), size, q)
    assert found == pytest.approx(direct_divergences(weights, mu, order), rel=1e-9)


def test_rare_components_of_a_mixture_count_as_part_of_delta() -> None:
    """Samples of more than 3 of 10 sentences are replaced by no sample; for adding, they are left out."""
    q, mu, size, order, tail = 0.07, 0.3, 10, 12.0, 0.05
    weights = binom.pmf(np.arange(size + 1), size, q)
    kept = weights > tail / (size + 1)
    assert kept.tolist() == [True] * 4 + [False] * 7
    found = group_privacy._mixture_divergences(q, mu, size, np.array([order]), tail)[:, 0]
    replaced, left_out = weights * kept, weights * kept
    replaced[0] += weights[~kept].sum()
    exact = [direct_divergences(each, mu, order)[way] for way, each in enumerate((replaced, left_out))]
    assert exact[0] <= found[0] <= 1.02 * exact[0]
    assert found[1] == pytest.approx(exact[1], rel=1e-9)


def test_group_epsilon_of_many_rare_sentences_is_close_to_that_at_a_larger_delta() -> None:
    """Otherwise a sample of all 1,000 sentences, with probability 1e-5000, would decide it."""
    usual, small = (plan(20_000, 8.0, 1_000_000, 10, delta) for delta in (1e-9, 1e-10))
    larger = group_privacy.group_epsilon([(usual, 20_000)], 1000)
    assert larger < group_privacy.group_epsilon([(small, 20_000)], 1000) < 1.25 * larger


def direct_divergences(weights: np.ndarray, mu: float, order: float) -> np.ndarray:
    """Return the Rényi divergences for removing and for adding sentences, by sums of logarithms, [2].

    Args:
        weights: Probability of each number of sampled sentences.
        mu: 1/σ.
        order: α.
    """
    x, width = np.linspace(-60, 60 + order * mu * len(weights), 20_001, retstep=True)
    count = np.flatnonzero(weights)[:, None]
    loss = logsumexp(np.log(weights[count]) + x * count * mu - (count * mu) ** 2 / 2, axis=0)
    density = norm.logpdf(x) + math.log(width)
    moments = logsumexp(density + order * loss), logsumexp(density + (1 - order) * loss)
    return np.array(moments) / (order - 1)


@pytest.mark.parametrize("order", [3.0, 256.0])
def test_mixture_divergences_without_sampling_are_those_of_a_gaussian(order: float) -> None:
    found = group_privacy._mixture_divergences(1.0, 4.0, 2, np.array([order]), 0.0)[:, 0]
    assert found == pytest.approx([order * 8.0**2 / 2] * 2, rel=1e-9)


def test_mixture_divergences_are_not_negative() -> None:
    """Where sentences are hardly ever sampled, rounding decides their sign."""
    assert (group_privacy._mixture_divergences(1e-10, 0.3, 2, np.linspace(1.1, 20, 60), 0.0) >= 0).all()


def test_group_of_one_has_the_usual_epsilon_by_orders_up_to_256(monkeypatch: pytest.MonkeyPatch) -> None:
    levels, asked, honest = ((0.01, 300), (0.004, 500)), [], group_privacy._mixture_divergences
    monkeypatch.setattr(group_privacy, "_mixture_divergences", lambda *of: asked.append(of[3:]) or honest(*of))
    found = group_privacy._mixture_rdp_epsilon(levels, 1 / 0.9, 1e-14, 1)
    usual = accounting.composed_epsilon([(q, 0.9, steps) for q, steps in levels], (1 - 1e-4) * 1e-14)
    assert found == pytest.approx(usual, rel=1e-8)
    expected = [order for order in dp_accounting.rdp.RdpAccountant().orders if order <= 256]
    assert 256 in expected
    for orders, tail in asked:
        assert orders.tolist() == expected
        assert tail == pytest.approx(1e-18 / 800, rel=1e-9, abs=0)


def test_group_epsilon_is_exact_down_to_the_smallest_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_privacy, "_mixture_rdp_epsilon", lambda *of: math.nan)
    of = group_privacy._mixture_epsilon.__wrapped__
    least = accounting.smallest_delta(300)
    assert of(((0.01, 300),), 1.0, least, 2) > 0
    assert math.isnan(of(((0.01, 300),), 1.0, math.nextafter(least, 0), 2))


def test_older_records_show_the_valid_epsilon_that_they_contain() -> None:
    small = plan(*SETTINGS[0], 1e-14)
    spent = accounting.privacy_spent(small, small.steps)
    older = spent.to_dict() | {"epsilon": 2.19, "accountant": "pld"}
    assert PrivacySpent.from_dict(older) == spent
    usual = accounting.privacy_spent(replace(small, delta=1e-5), small.steps)
    assert PrivacySpent.from_dict(usual.to_dict()) == usual


def test_command_names_the_accountant_of_a_small_delta(capsys: pytest.CaptureFixture[str]) -> None:
    epsilon_command(examples=14_041, batch_size=32, epochs=10, delta=1e-14, noise_multiplier=1.0, as_json=True)
    assert json.loads(capsys.readouterr().out)["accountant"] == "rdp"


def test_no_second_opinion_where_rounding_decides() -> None:
    small = plan(*SETTINGS[0], 1e-12)
    assert second_accountant.of(small, small.steps) is None
    assert second_accountant.of(replace(small, delta=1e-5), small.steps)
