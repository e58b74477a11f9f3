"""The total of a new budget, with the Rényi order that is fixed with it, and the settings that users usually choose."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from engine.config import PrivacyConfig, SimulationConfig
from engine.config.encoder_registry import has_mpnet
from engine.errors import InvalidConfig
from engine.experiments import recommended_settings
from engine.privacy.budget import UNITS, Budget, BudgetState
from engine.privacy.plan import PrivacyPlan
from engine.privacy.rdp_filter import best_order_filter
from engine.validation import number, one_of

_WHOLE = PrivacyPlan(
    examples=1, batch_size=1, steps=1, noise_multiplier=1.0, clip_norm=1.0, delta=1e-5, sampling="poisson"
)
"""A release with all examples; its best Rényi order suits all such releases at any noise."""


@dataclass(frozen=True, kw_only=True)
class AffordableRun:
    """A configuration that the rest of a budget can pay for.

    Attributes:
        title: Name of the configuration.
        config: The configuration.
        share: Cost as a share of the budget, 0 to 1.
        times: Number of such runs that still fit.
    """

    title: str
    config: SimulationConfig
    share: float
    times: int


def new_total(
    now: BudgetState, epsilon: float, delta: float, unit: str, corpus: str, sentences: Callable[[], int]
) -> Budget:
    """Return the budget to set.

    Its Rényi order stays fixed once a run is charged: a later choice could depend on results. Before that, the order
    admits the largest number of runs with the recommended settings, each at half of the total.

    Args:
        now: The state before.
        epsilon: Total ε, in (0, 1000].
        delta: δ of the total, a probability.
        unit: One of ``UNITS``.
        corpus: Name of the corpus.
        sentences: Returns its number of training sentences.

    Raises:
        InvalidConfig: If a value is not valid.
    """
    number("epsilon", epsilon, 0, 1000, "a number in (0, 1000]", low_open=True)
    one_of("unit", unit, UNITS)
    PrivacyConfig(delta=delta)
    if now.budget and now.bookings and unit != now.budget.unit:
        raise InvalidConfig(f"unit={unit!r}, expected {now.budget.unit!r}: earlier charges use that unit")
    if now.budget and now.bookings:
        order = now.budget.order
    else:
        usual = _usual(corpus, sentences(), epsilon / 2) if unit == "sentence" else _WHOLE
        order = best_order_filter(epsilon, delta, usual).order
    found = Budget(epsilon=epsilon, delta=delta, unit=unit, order=order, set_at=_now())
    if found.filter.capacity <= 0:
        raise InvalidConfig(f"epsilon={epsilon:g}: at delta={delta:g} no run fits; raise epsilon or delta")
    return found


def usual_settings(corpus: str, sentences: int, types: Collection[str]) -> dict[str, SimulationConfig]:
    """Return the paper settings and the recommended settings that this environment can train, by their titles.

    Args:
        corpus: Name of the corpus.
        sentences: Number of its training sentences.
        types: Its public entity types.
    """
    settings = {"paper settings, σ = 1": SimulationConfig(corpus=corpus, privacy=PrivacyConfig(noise_multiplier=1))}
    for epsilon in recommended_settings.EPSILONS:
        try:
            if has_mpnet():
                title = f"recommended settings, ε = {epsilon:g}"
                config = recommended_settings.recommended_settings(corpus, sentences, epsilon, types)
            else:
                title = f"recommended settings with MiniLM, ε = {epsilon:g}"
                config = recommended_settings.with_minilm(corpus, sentences, epsilon)
            settings[title] = config
        except InvalidConfig:
            continue
    return settings


def _usual(corpus: str, sentences: int, epsilon: float) -> PrivacyPlan:
    try:
        config = recommended_settings.recommended_settings(corpus, sentences, epsilon, ())  # types do not affect ε
        return PrivacyPlan.from_config(config, sentences)
    except InvalidConfig:  # too few sentences, or too small an ε
        return _WHOLE


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
