"""The command `audit`: lower bounds on ε from attacks, beside the reported ε."""

from collections.abc import Callable
from typing import Annotated

import typer

from engine.cli.options import configurable
from engine.cli.output import Json, Unprotected, progress_bar, write
from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.reports.audits import audit_command, audit_fields, audit_text
from engine.reports.numbers import delta_text
from engine.service import Application

GAUSSIAN = "gaussian"
CALIBRATION_CANARIES = 100_000
"""Default number of canaries in each audit of a mechanism whose ε is known."""


@configurable
def audit(
    make: Callable[..., SimulationConfig],
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Audit the configuration of this run, not that of the options.")
    ] = None,
    canaries: Annotated[
        int | None,
        typer.Option(
            help="Artificial examples, each included with probability 1/2, in one white-box and one black-box run.  "
            "[default: 1000 black-box; white-box: half the training sentences, 1000 to 8000; gaussian: 100000]"
        ),
    ] = None,
    references: Annotated[
        int,
        typer.Option(
            "--shadow-models",
            "--references",
            help="Shadow models for membership inference. 0: no membership inference.",
        ),
    ] = 0,
    mechanism: Annotated[
        str,
        typer.Option(help="dp-sgd: attack a training. gaussian: audit a mechanism with known ε, repeatedly."),
    ] = "dp-sgd",
    epsilon: Annotated[float | None, typer.Option(help="True ε of the Gaussian mechanism.")] = None,
    repetitions: Annotated[int, typer.Option(help="Number of audits of the Gaussian mechanism.")] = 200,
    unprotected: Unprotected = False,
    as_json: Json = False,
) -> None:
    """Attack a run to bound its ε from below, or validate that bound on a mechanism with known ε."""
    if mechanism == GAUSSIAN:
        _calibrate(epsilon, repetitions, CALIBRATION_CANARIES if canaries is None else canaries, as_json)
        return
    if epsilon is not None:
        raise InvalidConfig(f"epsilon={epsilon:g}, expected none: with mechanism={mechanism!r} it is computed")
    from engine.experiments import audits

    service = Application.from_environment()
    config = service.queries.get(run).config if run else make(mechanism=mechanism)
    service.audits.charge(config, unprotected=unprotected)
    with progress_bar(quiet=as_json) as on_progress:
        result = audits.audit(
            config,
            service.settings,
            canaries,
            references,
            command=audit_command(config, canaries, references, run),
            model=service.models.load(run) if run and references and service.models.exists(run) else None,
            tell=on_progress,
        )
    service.audits.save(result)
    write(as_json, audit_fields(result), audit_text(result))
    if any(bound.contradicted for bound in (result.white, result.black) if bound):
        raise typer.Exit(1)


def _calibrate(epsilon: float | None, repetitions: int, canaries: int, as_json: bool) -> None:
    from engine.privacy.audit.calibration import gaussian_mechanism

    if epsilon is None:
        raise InvalidConfig("epsilon: expected the true ε of mechanism='gaussian'")
    result = gaussian_mechanism(epsilon, repetitions=repetitions, canaries=canaries)
    fields = {"coverage": result.coverage, "bound_median": result.median, "epsilon": result.epsilon}
    text = (
        f"{repetitions:,} audits, {canaries:,} canaries each, of a Gaussian mechanism with ε = {epsilon:g} at "
        f"δ = {delta_text(result.delta)}: the bound held in {100 * result.coverage:.1f} %, its median is "
        f"{result.median:.3g}"
    )
    write(as_json, fields, text)
