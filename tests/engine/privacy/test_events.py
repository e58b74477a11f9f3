"""Events in terms of dp_accounting, accounted here and by that library's own accountants."""

import math

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.federated.accounting import event, privacy_spent
from engine.federated.plan import FederatedPlan, federated_plan
from engine.privacy import accounting, events
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets

DELTA = 1e-5


def plan_of(sampling: str, sigma: float = 1.1, examples: int = 640, batch_size: int = 32) -> PrivacyPlan:
    return PrivacyPlan(
        examples=examples,
        batch_size=batch_size,
        steps=60,
        noise_multiplier=sigma,
        clip_norm=1.0,
        delta=DELTA,
        sampling=sampling,
    )


def federated(**chosen: object) -> FederatedPlan:
    flat = {"batch_size": 16, "epochs": 2.0, "noise_multiplier": 2.0, "rounds": 3, "clients": 4} | chosen
    config = SimulationConfig.from_flat(flat)
    return federated_plan(config, 400, lambda: pytest.fail("not needed"), lambda: Secrets.seeded(0, "run"))


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("sampling", ["poisson", "shuffle", "all"])
def test_event_epsilon_equals_dp_accounting(sampling: str) -> None:
    plan = plan_of(sampling)
    what = events.of(plan, 60)
    library = PLDAccountant()
    library.compose(what)
    assert accounting.event_epsilon(what, DELTA) == pytest.approx(library.get_epsilon(DELTA), rel=2e-3)
    renyi = RdpAccountant()
    renyi.compose(what)
    assert accounting.event_epsilon(what, DELTA) <= renyi.get_epsilon(DELTA) * (1 + 1e-9)


def test_event_describes_the_steps() -> None:
    once = dp_accounting.GaussianDpEvent(1.1)
    sampled = dp_accounting.PoissonSampledDpEvent(0.05, once)
    assert events.of(plan_of("poisson"), 60) == dp_accounting.SelfComposedDpEvent(sampled, 60)
    assert events.of(plan_of("poisson"), 1) == sampled
    assert events.of(plan_of("poisson"), 0) == dp_accounting.NoOpDpEvent()
    assert events.of(plan_of("poisson", sigma=0.0), 3) == dp_accounting.NonPrivateDpEvent()
    shuffled = events.of(plan_of("shuffle"), 21)  # an epoch has 20 batches, and a started one counts in full
    assert shuffled.count == 2
    assert shuffled.event.noise_multiplier == pytest.approx(1.1 / math.sqrt(5))
    assert events.of(plan_of("all"), 7).event.noise_multiplier == pytest.approx(0.55)


def test_privacy_spent_equals_event_epsilon() -> None:
    for plan in (plan_of("poisson"), plan_of("shuffle")):
        assert accounting.privacy_spent(plan, 60).epsilon == pytest.approx(
            accounting.event_epsilon(events.of(plan, 60), DELTA)
        )


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"partition": "unequal"},
        {"schedule": "incremental"},
        {"sampling": "shuffle"},
        {"mechanism": "dp-fedavg", "participants": 2},
        {"mechanism": "local", "noise_multiplier": 8.0},
    ],
    ids=lambda chosen: str(next(iter(chosen.values()), "central")),
)
def test_federated_event_epsilon_equals_privacy_spent(chosen: dict[str, object]) -> None:
    plan = federated(**chosen)
    what = event(plan, plan.steps, len(plan.rounds))
    shown = privacy_spent(plan, plan.steps, len(plan.rounds)).epsilon
    assert accounting.event_epsilon(what, DELTA) == pytest.approx(shown, rel=1e-9)
    assert 0 < accounting.event_epsilon(event(plan, plan.parts[0].steps // 2, 1), DELTA) < shown


def test_event_without_steps_is_zero_and_without_noise_is_infinite() -> None:
    assert accounting.event_epsilon(events.none(), DELTA) == 0
    assert accounting.event_epsilon(events.unprotected(), DELTA) == math.inf
    assert accounting.event_epsilon(event(federated(noise_multiplier=0.0), 5, 1), DELTA) == math.inf
    assert accounting.event_epsilon(event(federated(), 0, 0), DELTA) == 0


def test_different_events_compose() -> None:
    one, other = events.of(plan_of("poisson"), 60), events.gaussian(0.3, 4)
    both = dp_accounting.ComposedDpEvent([one, other])
    library = PLDAccountant()
    library.compose(both)
    found = accounting.event_epsilon(both, DELTA)
    assert found == pytest.approx(library.get_epsilon(DELTA), rel=2e-3)
    assert max(accounting.event_epsilon(one, DELTA), accounting.event_epsilon(other, DELTA)) < found


def test_unsupported_event_is_rejected() -> None:
    with pytest.raises(InvalidConfig, match="event=LaplaceDpEvent, expected Gaussian noise"):
        accounting.event_epsilon(dp_accounting.LaplaceDpEvent(1.0), DELTA)
