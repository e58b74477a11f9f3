"""`ledger`: the same training under other assumptions."""

from typing import Annotated

import typer

from engine.command_line.saying import say
from engine.errors import InvalidConfig
from engine.privacy.ledger import Training, rows, waterfall
from engine.reports.ledger import ledger_fields, ledger_text
from engine.runs import Runs


def ledger(
    run: Annotated[str | None, typer.Option(metavar="ID", help="Of this run, not of the options.")] = None,
    examples: Annotated[int | None, typer.Option(help="Training sentences, n.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Expected sentences per step.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Expected passes over the data.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="σ.")] = None,
    delta: Annotated[float, typer.Option(help="δ of (ε, δ)-differential privacy, a probability.")] = 1e-5,
    clients: Annotated[int, typer.Option(help="Each with DP-SGD on an equal part.")] = 1,
    shuffled: Annotated[bool, typer.Option("--shuffled", help="Batches were shuffled, not drawn by chance.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """ε as a ledger: what each assumption is worth, and how a printed ε is set right."""
    if run:
        training = Runs.from_environment().training(run)
    else:
        asked = {
            "examples": examples,
            "batch_size": batch_size,
            "epochs": epochs,
            "noise_multiplier": noise_multiplier,
        }
        if missing := [name for name, value in asked.items() if value is None]:
            raise InvalidConfig(f"{', '.join(missing)}: expected, or run=ID")
        training = Training(**asked, delta=delta, clients=clients, shuffled=shuffled)  # type: ignore[arg-type]
    every, steps = rows(training), waterfall(training, training.printed, training.promised)
    say(as_json, ledger_fields(every, steps), ledger_text(every, steps))
