"""A run whose checkpoint has the noise check's state of version 0.6.0 continues, and its verdict stays right."""

import numpy as np
import pytest

from tests.engine.privacy.runs_to_sabotage import sized

ADDED = ("tails", "keys", "compared", "differing", "misdrawn", "settings", "changed", "unplanned")
"""Measurements that version 0.6.0 lacked."""


def of_version_0_6(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the state as version 0.6.0 stored it; its ``reused`` had a third value."""
    older = {name: value.copy() for name, value in state.items() if name not in ADDED}
    removed = {"lags": np.zeros(8), "mean": np.zeros(64), "drift": np.zeros(2), "directions": np.zeros((8, 64))}
    return older | removed | {"reused": np.array([-1.0, -1.0, 0.0])}


@pytest.mark.parametrize("steps", [1, 16])
def test_run_of_an_older_version_continues(steps: int) -> None:
    run = sized(20_000)
    for step in range(steps):
        run.step(step)
    check = run.monitor
    assert check
    before = check.state["times"].copy()
    state = of_version_0_6(check.state)
    fresh = sized(20_000).monitor
    assert fresh
    fresh.state = state
    assert fresh.verdict().faults == ()
    run.monitor = fresh
    for step in range(steps, 2 * steps):
        run.step(step)
    found = fresh.verdict()
    assert found.faults == ()
    assert found.steps == 2 * steps
    assert (fresh.state["times"] >= before).all()
    assert found.draws_compared > 0


def test_missing_noise_is_found_after_an_older_state() -> None:
    run = sized(20_000)
    run.step(0)
    assert run.monitor
    run.monitor.state = of_version_0_6(run.monitor.state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.training.dpsgd.add_gaussian_noise", lambda total, random, std: None)
        run.step(1)
    assert run.monitor.verdict().failed
