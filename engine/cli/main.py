"""Command-line interface: the actions of the pages, for a shell and for other programs.

Invalid input ends with exit code 2 and one sentence on standard error, other errors with 1, Ctrl-C with 130.
"""

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from engine import PLAIN_VERSION, PRIVATE_VERSION, VERSION, file_access
from engine.cli import replicate, tagging
from engine.cli.assumptions import assumptions
from engine.cli.audit import audit
from engine.cli.backup import backup, restore
from engine.cli.budget import budget_app
from engine.cli.cluster import cluster_app
from engine.cli.corpora import corpora_list, statistics_text, upload
from engine.cli.epsilon import epsilon
from engine.cli.export import export, export_person
from engine.cli.options import configured
from engine.cli.output import Json, Unprotected, progress_bar, say, sentence, write
from engine.cli.preflight import charge_budget, charge_crosscheck, refuse_budgets, warn_of_corpus
from engine.cli.recommend import recommend
from engine.cli.report import report
from engine.cli.retention import retention
from engine.config import SimulationConfig
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
from engine.reports.runs import (
    platform_lines,
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
"""Exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells."""
_BAD_INPUT = (InvalidConfig, CorpusError, VectorsMissing, RunNotFound, StoreAddressError)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
_OLD_VERBS = {
    "simulate": "train",
    "again": "rerun",
    "plan": "recommend",
    "ledger": "assumptions",
    "paper": "replicate",
    "second-opinion": "crosscheck",
    "fetch": "download",
}
"""Commands by their names of earlier versions, which still work and which `--help` does not list."""
runs_app = typer.Typer(help="List the runs, or show one.", invoke_without_command=True)
app.add_typer(runs_app, name="runs")
app.add_typer(budget_app, name="budget")
app.add_typer(cluster_app, name="cluster")

RunId = Annotated[str, typer.Argument(metavar="ID", help="Identity of a run, as `runs` lists it.")]


def _print_version(requested: bool) -> None:
    if requested:
        say(f"Epsilon Explorer {VERSION}; its engine is {PRIVATE_VERSION} with noise, {PLAIN_VERSION} without.")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the versions of the program and its engine.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Train NER taggers under differential privacy, and measure the privacy-utility trade-off."""


@app.command()
@configured
def train(config: SimulationConfig, unprotected: Unprotected = False, as_json: Json = False) -> None:
    """Train in the foreground. Prints a line at each evaluation of the tagger."""
    from engine.simulation.run import simulate

    warn_of_corpus(config)
    charge_budget(config, unprotected=unprotected)
    with progress_bar(quiet=as_json) as on_progress:
        for record in simulate(config, Settings.from_environment(), on_stage=on_progress):
            say(json.dumps(record_fields(record)) if as_json else record_line(record))
            sys.stdout.flush()
    if not as_json and record.test:
        lines = ["", "Test scores", score_table(record.test), *platform_lines(record), *privacy_lines(record)]
        say("\n".join(lines))


@app.command()
@configured
def crosscheck(
    config: SimulationConfig,
    steps: Annotated[int, typer.Option(help="Number of steps to compare, from the first one.")] = 3,
    unprotected: Unprotected = False,
    as_json: Json = False,
) -> None:
    """Compare a private run's first steps with TensorFlow Privacy. Exits with 1 where they differ; slow."""
    from dataclasses import asdict

    from engine.experiments.tf_privacy_crosscheck import second_opinions

    charge_crosscheck(config, unprotected=unprotected)
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
def submit(config: SimulationConfig, unprotected: Unprotected = False, as_json: Json = False) -> None:
    """Queue a run. Idempotent: a finished or running run is not duplicated."""
    warn_of_corpus(config)
    status = Application.from_environment().runs.submit(config, unprotected=unprotected)
    write(
        as_json,
        run_fields(Application.from_environment().queries.get(status.run_id)),
        f"{status.run_id} {status.state}",
    )


@app.command()
def sweep(
    file: Annotated[
        Path, typer.Argument(help="TOML file with seeds, [base] and [grid]; fields are those of a run's configuration.")
    ],
    unprotected: Unprotected = False,
    as_json: Json = False,
) -> None:
    """Queue many runs. Idempotent: finished or running runs are not duplicated."""
    from engine.experiments import sweeps

    statuses = Application.from_environment().runs.submit_all(sweeps.read(file), batch=True, unprotected=unprotected)
    done = sum(status.state == RunState.DONE for status in statuses)
    fields = {"runs": [{"run_id": status.run_id, "state": str(status.state)} for status in statuses]}
    write(
        as_json, fields, f"{len(statuses):,} runs, {done:,} of them done already; `python -m engine runs` lists them."
    )


@app.command("replicate")
def replicate_paper(
    name: Annotated[str, typer.Argument(help="The paper: dp-fl-ner, or fedner.")] = jana_biemann_2021.NAME,
    corpus: Annotated[
        str | None,
        typer.Option(help="Corpus of the runs that are compared with dp-fl-ner's scores.  [default: conll2003]"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of seeds of each mean.  [default: 5; figures: 3]")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Show one table or figure only, such as table2, figure3.")] = None,
    submit_missing: Annotated[bool, typer.Option("--submit", help="Queue the missing runs.")] = False,
    submit_reruns: Annotated[
        bool,
        typer.Option("--rerun", "--again", help="Queue the missing runs, and rerun the finished ones to compare them."),
    ] = False,
    unprotected: Unprotected = False,
    as_json: Json = False,
) -> None:
    """Show a paper's tables and figures: the published scores, and those of our runs."""
    service, paper = Application.from_environment(), replicate.find_paper(name, corpus)
    cells = replicate.select_cells(paper, table)
    if submit_missing or submit_reruns:
        configs = dict.fromkeys(config for cell in cells for config in cell.seeds(seeds))
        statuses = service.runs.submit_all(configs, again=submit_reruns, batch=True, unprotected=unprotected)
        unfinished = sum(not status.state.final for status in statuses)
        say(f"{unfinished:,} runs are queued or running.", err=True)
    result = replicate.measure(paper, cells, service.queries.find, seeds)
    text = reproducibility.summary(service.queries.repeated({run.run_id: run for run in result.runs}.values()).values())
    write(as_json, {"cells": result.fields}, "\n\n".join(filter(None, [result.text, text])))


@app.command()
def tune(
    epsilon: Annotated[float, typer.Option(help="ε that a run with the best settings spends on the corpus.")],
    development: Annotated[
        str,
        typer.Option("--public-corpus", "--development", help="Corpus of the trials, a public one."),
    ],
    corpus: Annotated[str, typer.Option(help="The private corpus; the best settings run on it, once for each seed.")],
    trials: Annotated[int, typer.Option(help="Number of trials, including those of earlier calls.")] = 30,
    seeds: Annotated[
        int, typer.Option(min=0, help="Runs of the best settings on the corpus; each is a release and is charged.")
    ] = seed_aggregates.SEEDS,
    budget: Annotated[
        float | None,
        typer.Option(help="Total ε of all trials and runs, where the trials use the private corpus."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the search.  [default: made from the others]")] = None,
    as_json: Json = False,
) -> None:
    """Search hyperparameters on public data, then run the best on the corpus, once for each seed. Saves all trials."""
    from engine.experiments import tuning

    settings = Settings.from_environment()
    refuse_budgets(corpus, development)
    study = tuning.existing_trials(name, epsilon, corpus, development, settings, budget=budget, seeds=seeds)
    if warning := tuning.optimism_bias(study, settings):
        say(warning, err=True)
    with progress_bar(quiet=as_json) as on_progress:
        for extended in tuning.search(study, trials, settings, on_progress):
            study = extended
            if not as_json:
                say(trial_line(study.trials[-1]))
    if len(study.trials) < trials:
        say(f"Ended after {len(study.trials):,} trials: the next one exceeds the total.", err=True)
    study = tuning.released(study, seeds, settings)
    service = Application(settings)
    configs = seed_aggregates.with_seeds(study.best, seeds) if study.best else []
    service.runs.submit_all(configs, owner_pid=os.getpid(), batch=True)
    with progress_bar(quiet=as_json) as on_progress:
        for index, config in enumerate(configs):
            while not (run := service.queries.find(config)) or not run.status.state.final:
                on_progress(f"best settings, seed {config.seed}, {run.status.stage if run else ''}", index / seeds)
                time.sleep(0.5)
    ended = [run for config in configs if (run := service.queries.find(config))]
    outcome = study_outcome(study, [run for run in ended if run.final])
    write(as_json, outcome, "\n".join(study_lines(study, outcome)))
    if failed := [run for run in ended if not run.final]:
        say(f"{len(failed):,} runs of the best settings failed: {failed[0].status.error}", err=True)
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
    service = Application.from_environment()
    run = service.queries.get(run_id)
    first = (service.queries.find(run.config) or run) if run.kind == RunKind.REPEAT else run
    lines = [run_line(run), *(record_line(record) for record in run.records)]
    if run.final and run.final.test:
        lines += ["", "Test scores", score_table(run.final.test), *platform_lines(run.final), *privacy_lines(run.final)]
    fields = run_fields(run) | {"records": [record_fields(record) for record in run.records]}
    if repeat := service.queries.repeated([first]).get(first.run_id):
        outcome = repeat.comparison.text if repeat.comparison else str(repeat.state)
        lines += ["", f"Rerun as {reproducibility.repeat_id(first.run_id)}: {outcome}"]
        fields["again"] = {"run_id": reproducibility.repeat_id(first.run_id), "outcome": outcome}
    write(as_json, fields, "\n".join(lines))


@app.command()
def cancel(run_id: RunId, as_json: Json = False) -> None:
    """Cancel a run. Its records are kept; with system noise it cannot continue."""
    service = Application.from_environment()
    status = service.runs.cancel(run_id)
    write(as_json, run_fields(service.queries.get(run_id)), f"{run_id} {status.state}")


@app.command()
def rerun(
    run_ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Identities of finished runs.")],
    unprotected: Unprotected = False,
    as_json: Json = False,
) -> None:
    """Rerun finished runs in the background. `runs show` says whether the results are equal."""
    service = Application.from_environment()
    statuses = service.runs.submit_all(
        (service.queries.get(run_id).config for run_id in run_ids), again=True, batch=True, unprotected=unprotected
    )
    fields = [{"run_id": status.run_id, "state": str(status.state)} for status in statuses]
    write(as_json, {"runs": fields}, "\n".join(f"{status.run_id} {status.state}" for status in statuses))


@app.command()
def publish(
    run_id: RunId,
    model: Annotated[bool, typer.Option("--model", help="Publish its tagger too, in half precision.")] = False,
    as_json: Json = False,
) -> None:
    """Add a run to the published results."""
    path = Application.from_environment().runs.publish(run_id, model=model)
    write(as_json, {"run_id": run_id, "path": str(path)}, str(path))


@app.command()
def corpora(
    name: Annotated[str | None, typer.Argument(help="Show this corpus's statistics; default: list all.")] = None,
    as_json: Json = False,
) -> None:
    """List the corpora, both available and downloadable ones, or show the statistics of one."""
    service = Application.from_environment()
    if name is not None:
        statistics = service.corpora.statistics(name)
        write(as_json, {"name": name} | asdict(statistics), statistics_text(name, statistics))
        return
    write(as_json, *corpora_list(service))


@app.command()
def download(name: Annotated[str, typer.Argument(help="A corpus that `corpora` lists as downloadable.")]) -> None:
    """Download a public corpus and verify its checksum."""
    Application.from_environment().corpora.download(name)
    say(f"{name} is available.")


app.command()(upload)
app.command()(epsilon)
app.command()(audit)
app.command()(export)
app.command("export-person")(export_person)
app.command()(assumptions)
app.command()(backup)
app.command()(restore)
app.command()(retention)
app.command()(recommend)
app.command()(report)
app.command()(tagging.score)
app.command()(tagging.tag)
app.command("redact")(tagging.redact_texts)


def _keep_old_verbs() -> None:
    """Register each command of ``_OLD_VERBS`` under its old name too, hidden from `--help`."""
    callbacks = (
        info.callback and (info.name or info.callback.__name__, info.callback) for info in app.registered_commands
    )
    commands = dict(filter(None, callbacks))
    for old, new in _OLD_VERBS.items():
        app.command(old, hidden=True)(commands[new])


_keep_old_verbs()


def main() -> int:
    """Run the command line and return the exit code."""
    file_access.protect_process()
    with suppress(InvalidConfig):  # the command reports it
        file_access.correct(Settings.from_environment().home)
    try:
        # Typer catches its own Exit and Ctrl-C, and returns their codes; a command that ends by itself returns None.
        code = int(app(standalone_mode=False) or 0)
    except typer.TyperException as error:  # an option or argument that cannot be read
        say(sentence(error, sys.argv[1:]), err=True)
        return 2
    except EpsilonError as error:
        say(str(error), err=True)
        return 2 if isinstance(error, _BAD_INPUT) else 1
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe (`… | head`); Python would report that again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if code == _INTERRUPTED:
        say("Stopped.", err=True)
    return code
