"""The command `epsilon`: ε of a noise multiplier, or the noise multiplier of an ε."""

import math
from dataclasses import replace
from typing import Annotated

import typer

from engine.cli.output import Json, write
from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import InvalidConfig
from engine.reports.numbers import delta_text
from engine.reports.runs import privacy_fields


def epsilon(
    examples: Annotated[int, typer.Option(help="Training sentences, n.")],
    batch_size: Annotated[int, typer.Option(help="Expected sentences per step.")],
    epochs: Annotated[float, typer.Option(help="Expected passes over the data.")],
    delta: Annotated[float, typer.Option(help="δ of (ε, δ)-differential privacy, a probability.")] = 1e-5,
    noise_multiplier: Annotated[float | None, typer.Option(help="σ, to compute its ε.")] = None,
    target_epsilon: Annotated[float | None, typer.Option(help="ε, to compute the σ that reaches it.")] = None,
    accountant: Annotated[str, typer.Option(help="pld (tightest), rdp, or rdp-classic (as in the paper).")] = "pld",
    group_size: Annotated[
        int | None, typer.Option(help="Number of sentences of one person, to compute their ε by group privacy too.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute ε from σ, or σ from ε. Needs no corpus, only its size."""
    from engine.privacy.accounting import epsilon as epsilon_of
    from engine.privacy.accounting import noise_multiplier_for, smallest_delta
    from engine.privacy.group_privacy import check_size, group_epsilon
    from engine.privacy.plan import PrivacyPlan

    if (noise_multiplier is None) == (target_epsilon is None):
        raise InvalidConfig("noise_multiplier, target_epsilon: expected exactly one of the two")
    if group_size is not None:
        check_size(group_size)
        if accountant != "pld":
            raise InvalidConfig(f"accountant={accountant!r}, expected 'pld': no other one supports group_size")
    config = SimulationConfig(
        training=TrainingConfig(batch_size=batch_size, epochs=epochs),
        privacy=PrivacyConfig(noise_multiplier=1.0 if noise_multiplier is None else noise_multiplier, delta=delta),
    )
    plan = PrivacyPlan.from_config(config, examples)
    if target_epsilon is not None:
        plan = replace(plan, noise_multiplier=noise_multiplier_for(target_epsilon, plan, accountant))
    value = epsilon_of(plan, plan.steps, accountant)
    if accountant == "pld" and delta < smallest_delta(plan.steps):
        accountant = "rdp"
    fields = privacy_fields(plan, value, accountant)
    text = (
        f"σ = {plan.noise_multiplier:g} gives ε = {value:.4g} "
        f"(δ = {delta_text(delta)}, {plan.steps:,} steps, {accountant})"
    )
    if group_size is not None:
        of_group = max(value, group_epsilon([(plan, plan.steps)], group_size))
        fields |= {"group_size": group_size, "group_epsilon": None if math.isinf(of_group) else of_group}
        text += f"\nGroup privacy for a person in {group_size:,} of the sentences: ε = {of_group:.4g}"
    write(as_json, fields, text)
