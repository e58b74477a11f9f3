"""Everything that a report on a run rests on, looked up."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.config import JOIN, SimulationConfig
from engine.corpus.files import base_name_and_split
from engine.embeddings.contamination import NONE
from engine.errors import CorpusError, EpsilonError, InvalidConfig
from engine.experiments import seed_aggregates
from engine.privacy import tf_privacy_statement
from engine.privacy.assumptions import Row, rows
from engine.privacy.plan import PrivacyPlan
from engine.records import Run, RunKind, Study
from engine.reports.labels import corpus_title
from engine.reports.privacy_report.evidence import Evidence, Others, TrainedOn

if TYPE_CHECKING:
    from engine.service.application import Application

SIZES = (2, 5, 10, 50)
"""Sentences of a person whose ε is worked out."""


def evidence(app: "Application", identity: str, *, written: str | None = None) -> Evidence:
    """What is known of a run. written: when, by default now. Takes a second or two at
    first. Raises RunNotFound, InvalidConfig for a run that is not done or was made to be attacked, StoreError."""
    run = app.queries.get(identity)
    if run.kind == RunKind.AUDIT:
        raise InvalidConfig(f"run {identity} has canaries in it, to be attacked: it is no tagger to report on")
    found = Evidence(
        run=run,
        written=written or datetime.now(UTC).isoformat(timespec="minutes"),
        trained_on=_trained_on(app, run.config),
    )
    missing = _missing(app, found)
    parts = _parts(app, found, missing)
    dearest = _dearest(parts) if found.promises else None
    longest = None if missing else app.previews.longest_document(run.config.corpus)
    seeds = (
        seed_aggregates.of_runs(app.queries.seeds(run.config)) if not found.check or not found.check.failed else None
    )
    return replace(
        found,
        plan=dearest,
        missing=missing,
        longest_document=longest if longest and longest > 1 else None,
        persons=_persons(found, parts, longest) if found.promises else {},
        overlap=NONE if missing else app.queries.overlap(run.config),
        reference=next(
            (each.final.test for each in app.queries.runs_by_noise(run.config) if _plain(each) and each.final), None
        ),
        seeds=seeds,
        studies=tuple(_studies(app, run.config)),
        others=_others(app, run),
        statement=tf_privacy_statement.of(*dearest) if dearest and not run.config.privacy.kind.client_level else None,
        audit=app.audits.all().get(identity),
        ledger=_ledger(app, found) if found.promises else (),
        again=_again(app, run),
    )


def _plain(run: Run) -> bool:
    return not run.config.privacy.private


def _trained_on(app: "Application", config: SimulationConfig) -> tuple[TrainedOn, ...]:
    known = {info.name: info for info in app.corpora.all()}
    found = []
    for name in config.corpus.split(JOIN):
        info = known.get(name) or known.get(base_name_and_split(name)[0])
        about = (info.licence, info.source, info.synthetic) if info else ("", "", False)
        found.append(TrainedOn(title=corpus_title(name), licence=about[0], source=about[1], synthetic=about[2]))
    return tuple(found)


def _missing(app: "Application", found: Evidence) -> str:
    """Why the corpus of a run cannot be looked at; empty if it can."""
    try:
        if app.queries.corpus(found.run.config).checksum == found.made.corpus_checksum:
            return ""
    except CorpusError:
        return "The corpus of this run is not on this machine, so that it could not be looked at."
    return "The corpus of this name on this machine has other content than that of the run, and was not looked at."


def _parts(app: "Application", found: Evidence, missing: str) -> list[tuple[PrivacyPlan, int]]:
    """What was done to sentences, part by part, with the steps taken; empty where that is not known."""
    config, steps = found.run.config, found.last.step
    if config.privacy.kind.client_level:
        return []
    if not missing:
        plan = app.previews.plan(config)
        return list(zip(plan.parts, plan.taken(steps), strict=True))
    if not config.federation.central:
        return []
    return [(PrivacyPlan.from_config(config, found.made.train_sentences), steps)]


def _dearest(parts: list[tuple[PrivacyPlan, int]]) -> tuple[PrivacyPlan, int] | None:
    """The part whose sentences pay most."""
    from engine.privacy.accounting import epsilon

    taken = (part for part in parts if part[1])
    return max(taken, key=lambda part: epsilon(part[0], part[1], "rdp"), default=None)


def _persons(found: Evidence, parts: list[tuple[PrivacyPlan, int]], longest: int | None) -> Mapping[int, float]:
    """ε by sentences of one person; no smaller than that of one sentence, as the report says it."""
    from engine.privacy.group_privacy import LARGEST_GROUP, group_epsilon

    if not parts or found.run.config.privacy.sampling != "poisson":
        return {}
    sizes = {*SIZES, *([longest] if longest and 1 < longest <= LARGEST_GROUP else [])}
    return {size: max(group_epsilon(parts, size), found.privacy.epsilon) for size in sorted(sizes)}


def _ledger(app: "Application", found: Evidence) -> tuple[Row, ...]:
    """ε under other assumptions; empty where the ledger has no numbers."""
    with suppress(EpsilonError):
        return rows(app.previews.scenario(found.run.run_id))
    return ()


def _studies(app: "Application", config: SimulationConfig) -> list[Study]:
    """Searches whose best recipe this is, or that looked at its corpus."""
    return [
        study
        for _, study in sorted(app.queries.studies().items())
        if (study.best and replace(study.best, seed=0) == replace(config, seed=0))
        or (study.private and study.corpus == config.corpus)
    ]


def _others(app: "Application", run: Run) -> Others:
    own = set(run.config.corpus.split(JOIN))
    alike = [
        each.run
        for each in app.queries.overview()
        if each.last_record and each.last_record.final and each.run.run_id != run.run_id
        if own & set(each.run.config.corpus.split(JOIN))
    ]
    plain = sum(map(_plain, alike))
    return Others(private=len(alike) - plain, plain=plain)


def _again(app: "Application", run: Run) -> str:
    with suppress(EpsilonError):
        repeat = app.queries.repeated([run]).get(run.run_id)
        if repeat:
            return repeat.comparison.text if repeat.comparison else str(repeat.state)
    return ""
