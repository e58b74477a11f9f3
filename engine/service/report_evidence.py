"""Collection of the evidence for a privacy report on a run."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.access.roles import Role
from engine.config import JOIN, SimulationConfig
from engine.corpus.files import base_name_and_split, corpus_names
from engine.embeddings.contamination import NONE
from engine.errors import CorpusError, EpsilonError, InvalidConfig
from engine.experiments import seed_aggregates
from engine.privacy import tf_privacy_statement
from engine.privacy.assumptions import Row, rows
from engine.privacy.plan import PrivacyPlan
from engine.records import Run, RunKind, Study
from engine.reports.assumptions import incomplete_epochs
from engine.reports.labels import corpus_title
from engine.reports.privacy_report.evidence import Evidence, Others, TrainedOn
from engine.store import noise_keys

if TYPE_CHECKING:
    from engine.privacy.second_accountant import Bounds
    from engine.service.application import Application

SIZES = (2, 5, 10, 50)
"""Group sizes (sentences of one person) for which the report shows ε."""


def evidence(app: "Application", identity: str, *, written: str | None = None) -> Evidence:
    """Return the evidence on a run; the first call takes one or two seconds.

    Args:
        app: The application.
        identity: Identity of the run.
        written: Time of the report (ISO 8601), by default now.

    Raises:
        RunNotFound: If there is no such run.
        InvalidConfig: If the run is not done, or is an audit.
        StoreError: If the store cannot be read, or keys that the finished run left cannot be destroyed.
    """
    run = app.queries.get(identity)
    if run.kind == RunKind.AUDIT:
        raise InvalidConfig(f"run {identity} is an audit with canaries in its training data, not a tagger to report on")
    found = Evidence(
        run=run,
        written=written or datetime.now(UTC).isoformat(timespec="minutes"),
        trained_on=_trained_on(app, run.config),
    )
    if run.config.privacy.noise_source == "system":  # its worker may have been killed just before it did so
        noise_keys.destroy_keys(app.settings, run.run_id)
    missing = _missing(app, found)
    parts = _parts(app, found, missing)
    worst = _worst_part(parts) if found.promises else None
    longest = None if missing else app.previews.longest_document(run.config.corpus)
    seeds = (
        seed_aggregates.of_runs(app.queries.seeds(run.config)) if not found.check or not found.check.failed else None
    )
    ledger, left_out = _ledger(app, found) if found.promises else ((), "")
    return replace(
        found,
        plan=worst,
        in_use=None if missing else sum(map(len, app.previews.plan(run.config).shards)),
        missing=missing,
        longest_document=longest if longest and longest > 1 else None,
        persons=_group_epsilons(found, parts, longest) if found.promises else {},
        overlap=NONE if missing else app.queries.overlap(run.config),
        reference=next(
            (other.final.test for other in app.queries.runs_by_noise(run.config) if _plain(other) and other.final),
            None,
        ),
        seeds=seeds,
        studies=tuple(_studies(app, run.config)),
        others=_others(app, run),
        sees_all=app.user is None or app.user.role.may(Role.ADMIN),
        second=_second(app, replace(found, missing=missing), parts) if found.promises else None,
        statement=tf_privacy_statement.of(*worst) if worst and not run.config.privacy.kind.client_level else None,
        audit=app.audits.all().get(identity),
        ledger=ledger,
        left_out=left_out,
        again=_again(app, run),
    )


def _plain(run: Run) -> bool:
    return not run.config.privacy.private


def _trained_on(app: "Application", config: SimulationConfig) -> tuple[TrainedOn, ...]:
    corpora = {info.name: info for info in app.corpora.all()}
    entries = []
    for name in config.corpus.split(JOIN):
        info = corpora.get(name) or corpora.get(base_name_and_split(name)[0])
        fields = (info.licence, info.source, info.synthetic) if info else ("", "", False)
        entries.append(TrainedOn(title=corpus_title(name), licence=fields[0], source=fields[1], synthetic=fields[2]))
    return tuple(entries)


def _missing(app: "Application", found: Evidence) -> str:
    """Return why the corpus of a run cannot be inspected; "" if it can."""
    try:
        if app.queries.corpus(found.run.config).checksum == found.made.corpus_checksum:
            return ""
        with suppress(CorpusError):  # an earlier version left out sentences of several silos
            _ = app.queries.corpus(found.run.config, found.made.corpus_checksum).checksum
            return ""
    except CorpusError:
        return "The corpus of this run is not on this machine, so it could not be inspected."
    return "The corpus of this name on this machine has other content than that of the run, so it was not inspected."


def _parts(app: "Application", found: Evidence, missing: str) -> list[tuple[PrivacyPlan, int]]:
    """Return the privacy plan and the number of steps of each part of the sentences; empty if unknown."""
    config, steps = found.run.config, found.last.step
    if config.privacy.kind.client_level:
        return []
    if not missing:
        plan = app.previews.plan(config)
        return list(zip(plan.parts, plan.taken(steps), strict=True))
    if not config.federation.central:
        return []
    return [(PrivacyPlan.from_config(config, found.made.train_sentences), steps)]


def _worst_part(parts: list[tuple[PrivacyPlan, int]]) -> tuple[PrivacyPlan, int] | None:
    """Return the part with the largest ε."""
    from engine.privacy.accounting import epsilon

    taken = (part for part in parts if part[1])
    return max(taken, key=lambda part: epsilon(part[0], part[1], "rdp"), default=None)


def _second(app: "Application", found: Evidence, parts: list[tuple[PrivacyPlan, int]]) -> "Bounds | None":
    """Return bounds on ε by a second accountant, of the worst-case sentence or client; None if the plan is unknown."""
    from engine.federated import accounting
    from engine.privacy import second_accountant

    if not found.missing:
        last = found.last
        rounds = last.federation.round if last.federation else 0
        parts = accounting.accounted(app.previews.plan(found.run.config), last.step, rounds)
    bounds = [second_accountant.of(part, steps) for part, steps in parts]
    return max(filter(None, bounds), key=lambda bound: bound.estimate, default=None)


def _group_epsilons(found: Evidence, parts: list[tuple[PrivacyPlan, int]], longest: int | None) -> Mapping[int, float]:
    """Return ε by the number of sentences of one person, at least the ε of one sentence in the report."""
    from engine.privacy.group_privacy import LARGEST_GROUP, group_epsilon

    if not parts or found.run.config.privacy.sampling != "poisson":
        return {}
    sizes = {*SIZES, *([longest] if longest and 1 < longest <= LARGEST_GROUP else [])}
    return {size: max(group_epsilon(parts, size), found.privacy.epsilon) for size in sorted(sizes)}


def _ledger(app: "Application", found: Evidence) -> tuple[tuple[Row, ...], str]:
    """Return ε under other assumptions, and what its lower bounds leave out; empty if it cannot be computed."""
    with suppress(EpsilonError):
        training = app.previews.scenario(found.run.run_id)
        table = rows(training)
        return table, incomplete_epochs(training) if any(row.at_least for row in table) else ""
    return (), ""


def _studies(app: "Application", config: SimulationConfig) -> list[Study]:
    """Return the searches that selected this configuration, or whose trials used its protected sentences."""
    return [
        study
        for _, study in sorted(app.queries.studies().items())
        if (study.best and replace(study.best, seed=0) == replace(config, seed=0))
        or (study.private and study.corpus == config.corpus)
    ]


def _others(app: "Application", run: Run) -> Others:
    own = corpus_names(run.config.corpus)
    others = [
        other.run
        for other in app.queries.overview()
        if other.last_record and other.last_record.final and other.run.run_id != run.run_id
        if own & corpus_names(other.run.config.corpus)
    ]
    plain = sum(map(_plain, others))
    return Others(private=len(others) - plain, plain=plain)


def _again(app: "Application", run: Run) -> str:
    with suppress(EpsilonError):
        repeat = app.queries.repeated([run]).get(run.run_id)
        if repeat:
            return repeat.comparison.text if repeat.comparison else str(repeat.state)
    return ""
