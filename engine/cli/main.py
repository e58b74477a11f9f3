"""The command line: the same verbs as the pages, for a shell and for other programs.

Bad input ends with exit code 2 and one sentence on standard error; other trouble with 1; Ctrl-C with 130.
"""

import json
import math
import os
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from engine import PLAIN_VERSION, PRIVATE_VERSION, VERSION
from engine.cli import replicate, tagging
from engine.cli.assumptions import ledger
from engine.cli.audit import audit
from engine.cli.budget import budget_app
from engine.cli.cluster import cluster_app
from engine.cli.corpora import held, listed
from engine.cli.export import export
from engine.cli.options import configured
from engine.cli.output import progress_bar, sentence, write
from engine.cli.preflight import book, refuse_budgets, warn_of_overlap
from engine.cli.recommend import plan
from engine.cli.report import report
from engine.config import PrivacyConfig, SimulationConfig, TrainingConfig
from engine.errors import (
    CorpusError,
    EpsilonError,
    InvalidConfig,
    RunNotFound,
    StoreAddressError,
    VectorsMissing,
)
from engine.experiments import seed_aggregates
from engine.experiments.papers import jana_biemann_2021
from engine.records import RunKind, RunState
from engine.reports.noise_check import privacy_lines
from engine.reports.numbers import delta_text
from engine.reports.runs import (
    platform_lines,
    privacy_fields,
    record_fields,
    record_line,
    run_fields,
    run_line,
)
from engine.reports.scores import score_table
from engine.reports.tuning import study_lines, study_outcome, trial_line
from engine.service import Application, reproducibility
from engine.settings import Settings

_INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""
_BAD_INPUT = (InvalidConfig, CorpusError, VectorsMissing, RunNotFound, StoreAddressError)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
runs_app = typer.Typer(help="List the runs, or show one.", invoke_without_command=True)
app.add_typer(runs_app, name="runs")
app.add_typer(budget_app, name="budget")
app.add_typer(cluster_app, name="cluster")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
RunId = Annotated[str, typer.Argument(metavar="ID", help="Identity of a run, as `runs` lists it.")]


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"Epsilon Explorer {VERSION}; its engine is {PRIVATE_VERSION} with noise, {PLAIN_VERSION} without.")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the versions of the program and its engine.", callback=_say_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Train named-entity taggers under differential privacy, and say what it costs."""


@app.command()
@configured
def simulate(config: SimulationConfig, as_json: Json = False) -> None:
    """Train here and now. Prints a line each time the tagger is scored."""
    from engine.simulation.run import simulate as train

    warn_of_overlap(config)
    book(config)
    with progress_bar(quiet=as_json) as tell:
        for record in train(config, Settings.from_environment(), on_stage=tell):
            typer.echo(json.dumps(record_fields(record)) if as_json else record_line(record))
            sys.stdout.flush()
    if not as_json and record.test:
        lines = ["", "Test scores", score_table(record.test), *platform_lines(record), *privacy_lines(record)]
        typer.echo("\n".join(lines))


@app.command("second-opinion")
@configured
def second_opinion(
    config: SimulationConfig,
    steps: Annotated[int, typer.Option(help="Steps to compare, from the first.")] = 3,
    as_json: Json = False,
) -> None:
    """Compute a private run's first steps with TensorFlow Privacy too. Says whether the two agree; slow."""
    from dataclasses import asdict

    from engine.experiments.tf_privacy_crosscheck import second_opinions

    agreed = True
    for opinion in second_opinions(config, Settings.from_environment(), steps):
        agreed = agreed and opinion.agrees
        line = (
            f"step {opinion.step + 1:,}, {opinion.sentences:,} sentences: clipped means differ by "
            f"{opinion.difference:.1e}; noise {opinion.our_noise:.4g} and {opinion.their_noise:.4g}, planned "
            f"{opinion.planned:.4g}; {opinion.ours_ms:.0f} ms against {opinion.theirs_ms:,.0f} ms: "
            f"{'agreed' if opinion.agrees else 'NOT AGREED'}"
        )
        write(as_json, asdict(opinion) | {"agrees": opinion.agrees}, line)
    if not agreed:
        raise typer.Exit(1)


@app.command()
@configured
def submit(config: SimulationConfig, as_json: Json = False) -> None:
    """Train in the background. What is done or under way already is not done twice."""
    warn_of_overlap(config)
    status = Application.from_environment().runs.submit(config)
    write(
        as_json,
        run_fields(Application.from_environment().queries.get(status.run_id)),
        f"{status.run_id} {status.state}",
    )


@app.command()
def sweep(
    file: Annotated[
        Path, typer.Argument(help="TOML with seeds, [base] and [grid]; fields are named as options are, with _ for -.")
    ],
    as_json: Json = False,
) -> None:
    """Train many runs in the background. What is done or under way already is not done twice."""
    from engine.experiments import sweeps

    statuses = Application.from_environment().runs.submit_all(sweeps.read(file), batch=True)
    done = sum(status.state == RunState.DONE for status in statuses)
    fields = {"runs": [{"run_id": status.run_id, "state": str(status.state)} for status in statuses]}
    write(
        as_json, fields, f"{len(statuses):,} runs, {done:,} of them done already; `python -m engine runs` shows them."
    )


@app.command("paper")
def paper_tables(
    name: Annotated[str, typer.Argument(help="The paper: dp-fl-ner, or fedner.")] = jana_biemann_2021.NAME,
    corpus: Annotated[
        str | None, typer.Option(help="The corpus of the runs beside dp-fl-ner's numbers.  [default: conll2003]")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many seeds a mean is taken over.  [default: 5; figures: 3]")
    ] = None,
    table: Annotated[str | None, typer.Option(help="One table or figure alone, as in table2, figure3.")] = None,
    submit_missing: Annotated[
        bool, typer.Option("--submit", help="Have what is missing computed in the background.")
    ] = False,
    submit_again: Annotated[
        bool,
        typer.Option("--again", help="The same, and compute anew what is done, to see whether it comes out equal."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a paper's tables and figures. What was printed, and what our runs give."""
    app, known = Application.from_environment(), replicate.named(name, corpus)
    cells = replicate.chosen(known, table)
    if submit_missing or submit_again:
        wanted = dict.fromkeys(config for cell in cells for config in cell.seeds(seeds))
        statuses = app.runs.submit_all(wanted, again=submit_again, batch=True)
        waiting = sum(not status.state.final for status in statuses)
        typer.echo(f"{waiting:,} runs wait or are under way.", err=True)
    found = replicate.measured(known, cells, app.queries.find, seeds)
    text = reproducibility.summary(app.queries.repeated({run.run_id: run for run in found.runs}.values()).values())
    write(as_json, {"cells": found.fields}, "\n\n".join(filter(None, [found.text, text])))


@app.command()
def tune(
    epsilon: Annotated[float, typer.Option(help="ε that the recipe shall spend on the corpus.")],
    development: Annotated[str, typer.Option(help="Where recipes are tried: a corpus that needs no protection.")],
    corpus: Annotated[str, typer.Option(help="The private corpus; the winner is run on it, once for each seed.")],
    trials: Annotated[int, typer.Option(help="Recipes to try, those of earlier calls included.")] = 30,
    seeds: Annotated[
        int, typer.Option(min=0, help="Runs of the winner on the corpus: each is a release, all are booked.")
    ] = seed_aggregates.SEEDS,
    budget: Annotated[
        float | None,
        typer.Option(help="ε of all trials and runs together, where the development corpus is the private one."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the search.  [default: made from the others]")] = None,
    as_json: Json = False,
) -> None:
    """Search a recipe on public data. The best is run on the corpus, once for each seed; what was tried is kept."""
    from engine.experiments import tuning

    settings = Settings.from_environment()
    refuse_budgets(corpus, development)
    study = tuning.existing_trials(name, epsilon, corpus, development, settings, budget=budget, seeds=seeds)
    if flattery := tuning.optimism_bias(study, settings):
        typer.echo(flattery, err=True)
    with progress_bar(quiet=as_json) as tell:
        for grown in tuning.search(study, trials, settings, tell):
            study = grown
            if not as_json:
                typer.echo(trial_line(study.trials[-1]))
    if len(study.trials) < trials:
        typer.echo(f"Ended after {len(study.trials):,} trials: the next one does not fit the total.", err=True)
    study = tuning.released(study, seeds, settings)
    app = Application(settings)
    winners = seed_aggregates.with_seeds(study.best, seeds) if study.best else []
    app.runs.submit_all(winners, owner_pid=os.getpid(), batch=True)
    with progress_bar(quiet=as_json) as tell:
        for number, config in enumerate(winners):
            while not (run := app.queries.find(config)) or not run.status.state.final:
                tell(f"the winner, seed {config.seed}, {run.status.stage if run else ''}", number / seeds)
                time.sleep(0.5)
    ended = [run for config in winners if (run := app.queries.find(config))]
    outcome = study_outcome(study, [run for run in ended if run.final])
    write(as_json, outcome, "\n".join(study_lines(study, outcome)))
    if broken := [run for run in ended if not run.final]:
        typer.echo(f"{len(broken):,} runs of the winner did not end well: {broken[0].status.error}", err=True)
        raise typer.Exit(1)


@runs_app.callback(invoke_without_command=True)
def runs(context: typer.Context, as_json: Json = False) -> None:
    """List the runs, newest first, or show one."""
    if context.invoked_subcommand is None:
        rows = Application.from_environment().queries.recent()
        text = "\n".join(run_line(run) for run in rows) or "No runs yet: start one with `python -m engine submit`."
        write(as_json, [run_fields(run) for run in rows], text)


@runs_app.command("show")
def show(run_id: RunId, as_json: Json = False) -> None:
    """Show one run with its records."""
    app = Application.from_environment()
    run = app.queries.get(run_id)
    first = (app.queries.find(run.config) or run) if run.kind == RunKind.REPEAT else run
    lines = [run_line(run), *(record_line(record) for record in run.records)]
    if run.final and run.final.test:
        lines += ["", "Test scores", score_table(run.final.test), *platform_lines(run.final), *privacy_lines(run.final)]
    fields = run_fields(run) | {"records": [record_fields(record) for record in run.records]}
    if repeat := app.queries.repeated([first]).get(first.run_id):
        outcome = repeat.comparison.text if repeat.comparison else str(repeat.state)
        lines += ["", f"Run again as {reproducibility.repeat_id(first.run_id)}: {outcome}"]
        fields["again"] = {"run_id": reproducibility.repeat_id(first.run_id), "outcome": outcome}
    write(as_json, fields, "\n".join(lines))


@app.command()
def cancel(run_id: RunId, as_json: Json = False) -> None:
    """Stop a run. What it recorded is kept."""
    app = Application.from_environment()
    status = app.runs.cancel(run_id)
    write(as_json, run_fields(app.queries.get(run_id)), f"{run_id} {status.state}")


@app.command()
def again(
    run_ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Application that are done.")],
    as_json: Json = False,
) -> None:
    """Compute runs once more, in the background. `runs show` says whether they came out equal."""
    app = Application.from_environment()
    statuses = app.runs.submit_all((app.queries.get(run_id).config for run_id in run_ids), again=True, batch=True)
    fields = [{"run_id": status.run_id, "state": str(status.state)} for status in statuses]
    write(as_json, {"runs": fields}, "\n".join(f"{status.run_id} {status.state}" for status in statuses))


@app.command()
def publish(
    run_id: RunId,
    model: Annotated[bool, typer.Option("--model", help="Its tagger too, in half precision.")] = False,
    as_json: Json = False,
) -> None:
    """Write a run to the published results."""
    path = Application.from_environment().runs.publish(run_id, model=model)
    write(as_json, {"run_id": run_id, "path": str(path)}, str(path))


@app.command()
def corpora(
    name: Annotated[str | None, typer.Argument(help="Say what this one holds; by default, list all.")] = None,
    as_json: Json = False,
) -> None:
    """List the corpora. Says what is here and what can be fetched, or what one of them holds."""
    app = Application.from_environment()
    if name is not None:
        found = app.corpora.statistics(name)
        write(as_json, {"name": name} | asdict(found), held(name, found))
        return
    write(as_json, *listed(app))


@app.command()
def fetch(name: Annotated[str, typer.Argument(help="A corpus that `corpora` says can be fetched.")]) -> None:
    """Download a public corpus and check it."""
    Application.from_environment().corpora.download(name)
    typer.echo(f"{name} is here.")


@app.command()
def epsilon(
    examples: Annotated[int, typer.Option(help="Training sentences, n.")],
    batch_size: Annotated[int, typer.Option(help="Expected sentences per step.")],
    epochs: Annotated[float, typer.Option(help="Expected passes over the data.")],
    delta: Annotated[float, typer.Option(help="δ of (ε, δ)-differential privacy, a probability.")] = 1e-5,
    noise_multiplier: Annotated[float | None, typer.Option(help="σ whose ε is wanted.")] = None,
    target_epsilon: Annotated[float | None, typer.Option(help="ε whose σ is wanted.")] = None,
    accountant: Annotated[str, typer.Option(help="pld (tightest), rdp, or rdp-classic (as the paper did it).")] = "pld",
    group_size: Annotated[
        int | None, typer.Option(help="Sentences of one person: the ε of all of them is given too.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Work out ε for σ, or σ for ε. No corpus is needed, only its size."""
    from engine.privacy.accounting import epsilon as epsilon_of
    from engine.privacy.accounting import noise_multiplier_for
    from engine.privacy.group_privacy import check_size, group_epsilon
    from engine.privacy.plan import PrivacyPlan

    if (noise_multiplier is None) == (target_epsilon is None):
        raise InvalidConfig("noise_multiplier, target_epsilon: expected exactly one of the two")
    if group_size is not None:
        check_size(group_size)
        if accountant != "pld":
            raise InvalidConfig(f"accountant={accountant!r}, expected 'pld': group_size is priced by no other")
    config = SimulationConfig(
        training=TrainingConfig(batch_size=batch_size, epochs=epochs),
        privacy=PrivacyConfig(noise_multiplier=1.0 if noise_multiplier is None else noise_multiplier, delta=delta),
    )
    plan = PrivacyPlan.from_config(config, examples)
    if target_epsilon is not None:
        plan = replace(plan, noise_multiplier=noise_multiplier_for(target_epsilon, plan, accountant))
    value = epsilon_of(plan, plan.steps, accountant)
    fields = privacy_fields(plan, value, accountant)
    text = (
        f"σ = {plan.noise_multiplier:g} gives ε = {value:.4g} "
        f"(δ = {delta_text(delta)}, {plan.steps:,} steps, {accountant})"
    )
    if group_size is not None:
        of_group = max(value, group_epsilon([(plan, plan.steps)], group_size))
        fields |= {"group_size": group_size, "group_epsilon": None if math.isinf(of_group) else of_group}
        text += f"\nSomebody named in {group_size:,} of the sentences: ε = {of_group:.4g}"
    write(as_json, fields, text)


app.command()(audit)
app.command()(export)
app.command()(ledger)
app.command()(plan)
app.command()(report)


app.command()(tagging.score)
app.command("tag")(tagging.tag)
app.command("redact")(tagging.redacted)


def main() -> int:
    """Run the command line and return the exit code."""
    try:
        # Typer catches its own Exit and Ctrl-C, and returns their codes; a command that ends by itself returns None.
        code = int(app(standalone_mode=False) or 0)
    except typer.TyperException as error:  # an option or argument that cannot be read
        typer.echo(sentence(error, sys.argv[1:]), err=True)
        return 2
    except EpsilonError as error:
        typer.echo(str(error), err=True)
        return 2 if isinstance(error, _BAD_INPUT) else 1
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`… | head`); Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if code == _INTERRUPTED:
        typer.echo("Stopped.", err=True)
    return code
