"""The command `assumptions`: ε of one training under different assumptions."""

from dataclasses import replace
from typing import Annotated

import typer

from engine.cli.output import Json, write
from engine.errors import InvalidConfig
from engine.privacy.accounting import noise_multiplier_for
from engine.privacy.assumptions import Training, rows, waterfall
from engine.privacy.plan import PrivacyPlan
from engine.reports.assumptions import incomplete_epochs, ledger_fields, ledger_text
from engine.service import Application


def assumptions(
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Use the settings of this run in place of the options.")
    ] = None,
    examples: Annotated[int | None, typer.Option(help="Training sentences, n.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Expected sentences per step.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Expected passes over the data.")] = None,
    delta: Annotated[float, typer.Option(help="δ of (ε, δ)-differential privacy, a probability.")] = 1e-5,
    noise_multiplier: Annotated[float | None, typer.Option(help="σ.")] = None,
    target_epsilon: Annotated[float | None, typer.Option(help="Guaranteed ε; σ is computed from it.")] = None,
    clients: Annotated[int, typer.Option(help="Number of clients, each with DP-SGD on an equal part.")] = 1,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="Shuffled batches: no amplification by subsampling.")
    ] = False,
    accountant: Annotated[
        str, typer.Option(help="Accountant of the last rows: pld (tightest), rdp, or rdp-classic.")
    ] = "pld",
    group_size: Annotated[
        int, typer.Option(help="Number of sentences of one person in the last rows (group privacy).")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Show how each assumption changes ε, and correct a reported ε."""
    if run:
        training = Application.from_environment().previews.scenario(run)
    else:
        required = {"examples": examples, "batch_size": batch_size, "epochs": epochs}
        if missing := [name for name, value in required.items() if value is None]:
            raise InvalidConfig(f"{', '.join(missing)}: missing; expected these options, or run=ID")
        if (noise_multiplier is None) == (target_epsilon is None):
            raise InvalidConfig("noise_multiplier, target_epsilon: expected exactly one of the two")
        training = Training(
            **required,  # type: ignore[arg-type]
            noise_multiplier=1.0 if noise_multiplier is None else noise_multiplier,
            delta=delta,
            clients=clients,
            shuffled=shuffled,
        )
        if target_epsilon is not None:
            training = replace(training, noise_multiplier=_noise_multiplier(training, target_epsilon))
    assumed = replace(training.promised, accountant=accountant, sentences=group_size)
    table, steps = rows(training), waterfall(training, training.printed, training.promised)
    last_steps = waterfall(training, training.promised, assumed)[1:]
    fields = ledger_fields(table, (*steps, *last_steps)) | {"noise_multiplier": training.noise_multiplier}
    text = ledger_text(table, steps, last_steps)
    if any(row.at_least for row in table) and (left_out := incomplete_epochs(training)):
        text += f"\n{left_out}"
    write(as_json, fields, text)


def _noise_multiplier(training: Training, target: float) -> float:
    """Return the σ whose guaranteed ε is ``target``. Raises InvalidConfig for shuffled batches."""
    part = training.own[0]
    plan = PrivacyPlan(
        examples=part.examples,
        batch_size=part.batch_size,
        steps=part.steps,
        noise_multiplier=1.0,
        clip_norm=1.0,
        delta=training.delta,
        sampling="poisson",
    )
    if training.shuffled:
        raise InvalidConfig("target_epsilon: expected with Poisson sampling only, not with shuffled batches")
    return noise_multiplier_for(target, plan)
