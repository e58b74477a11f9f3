"""`audit`: how much can really be told about who was trained on, beside the ε that is claimed."""

from collections.abc import Callable
from typing import Annotated

import typer

from engine.cli.options import configurable
from engine.cli.output import progress_bar, write
from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.privacy.audit.applicability import CANARIES
from engine.reports.audits import audit_command, audit_fields, audit_text
from engine.reports.numbers import delta_text
from engine.service import Application

GAUSSIAN = "gaussian"
KNOWN_CANARIES = 100_000
"""Of each audit where the truth is known, unless others are asked for."""


@configurable
def audit(
    make: Callable[..., SimulationConfig],
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="Audit the configuration of this run, not that of the options.")
    ] = None,
    canaries: Annotated[
        int | None,
        typer.Option(
            help="Made-up examples, each in by a coin, in one run for either kind.  [default: 1000; gaussian: 100000]"
        ),
    ] = None,
    references: Annotated[
        int, typer.Option(help="Models beside the one that membership inference attacks, each in turn. 0: none.")
    ] = 0,
    mechanism: Annotated[
        str,
        typer.Option(help="dp-sgd: attack a training. gaussian: one release whose ε is known, again and again."),
    ] = "dp-sgd",
    epsilon: Annotated[float | None, typer.Option(help="True ε of gaussian.")] = None,
    repetitions: Annotated[int, typer.Option(help="Audits of gaussian.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Attack a run and bound its ε from below, or check that bound where ε is known."""
    if mechanism == GAUSSIAN:
        _known(epsilon, repetitions, KNOWN_CANARIES if canaries is None else canaries, as_json)
        return
    if epsilon is not None:
        raise InvalidConfig(f"epsilon={epsilon:g}, expected none: of mechanism={mechanism!r} it follows from the rest")
    from engine.experiments import audits

    app = Application.from_environment()
    config = app.queries.get(run).config if run else make(mechanism=mechanism)
    canaries = CANARIES if canaries is None else canaries
    with progress_bar(quiet=as_json) as tell:
        found = audits.audit(
            config,
            app.settings,
            canaries,
            references,
            command=audit_command(config, canaries, references, run),
            model=app.models.load(run) if run and references and app.models.exists(run) else None,
            tell=tell,
        )
    app.audits.save(found)
    write(as_json, audit_fields(found), audit_text(found))
    if any(each.contradicted for each in (found.white, found.black) if each):
        raise typer.Exit(1)


def _known(epsilon: float | None, repetitions: int, canaries: int, as_json: bool) -> None:
    from engine.privacy.audit.calibration import gaussian_mechanism

    if epsilon is None:
        raise InvalidConfig("epsilon: expected the true one of mechanism='gaussian'")
    found = gaussian_mechanism(epsilon, repetitions=repetitions, canaries=canaries)
    fields = {"coverage": found.coverage, "bound_median": found.median, "epsilon": found.epsilon}
    text = (
        f"{repetitions:,} audits, {canaries:,} canaries each, of a Gaussian mechanism with ε = {epsilon:g} at "
        f"δ = {delta_text(found.delta)}: the bound held in {100 * found.coverage:.1f} %, its median is "
        f"{found.median:.3g}"
    )
    write(as_json, fields, text)
