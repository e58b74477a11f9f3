"""TensorFlow Privacy's statement: equal to the engine's values, without TensorFlow."""

import importlib.util
import math
import subprocess
import sys
from dataclasses import replace

import pytest

from engine.privacy import tf_privacy_statement
from engine.privacy.accounting import epsilon, gaussian_epsilon
from engine.privacy.plan import PrivacyPlan

PLAN = PrivacyPlan(
    examples=14_041, batch_size=256, steps=548, noise_multiplier=1.0, clip_norm=1.5, delta=1e-5, sampling="poisson"
)


def test_statement_equals_rdp_accounting():
    found = tf_privacy_statement.of(PLAN, 548)
    assert found.poisson == pytest.approx(epsilon(PLAN, 548, "rdp"), abs=0.001) == pytest.approx(2.98, abs=0.005)
    # Once an epoch, ten epochs: ten Gaussian releases; Rényi accounting is slightly above the exact value.
    exact = gaussian_epsilon(10**0.5, 1e-5)
    assert exact < found.ordered < 1.1 * exact
    text = " ".join(found.text.split())
    assert all(part in text for part in ("14041 examples", "256 examples per iteration"))


@pytest.mark.parametrize(
    ("examples", "batch_size", "steps"),
    [(4_400, 1_024, 43), (880, 64, 138), (4_400, 32, 1_375), (14_041, 1_024, 137), (1_000_000, 1, 54_321)],
)
def test_statement_counts_the_steps_exactly(examples: int, batch_size: int, steps: int) -> None:
    """Epochs that were rounded up gave one step more."""
    plan = replace(PLAN, examples=examples, batch_size=batch_size, steps=steps, noise_multiplier=2.0)
    found = tf_privacy_statement.of(plan, steps)
    assert found.poisson == pytest.approx(epsilon(plan, steps, "rdp"), abs=0.001)
    assert math.ceil(tf_privacy_statement._epochs(plan, steps) / plan.sampling_probability) == steps


def test_statement_does_not_load_tensorflow():
    code = (
        "import sys\n"
        "from engine.privacy import tf_privacy_statement as statement\n"
        "from tests.engine.privacy.test_tf_privacy_statement import PLAN\n"
        "assert statement.of(PLAN, 548)\n"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_statement_is_none_without_the_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    tf_privacy_statement._module.cache_clear()
    assert tf_privacy_statement.of(PLAN, 548) is None
    tf_privacy_statement._module.cache_clear()
