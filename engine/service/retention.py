"""Retention: delete runs, uploaded corpora and log entries that are older than a number of days.

The operator sets the number. What is queued, running, published or younger stays, and so does each entry of the privacy
ledger: spent privacy is never forgotten.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from engine.cluster.supervisor import ClusterFiles
from engine.config import OWN, SYNTHETIC
from engine.corpus import derived_files
from engine.corpus.catalogue import NAMED
from engine.corpus.files import base_name_and_split, corpus_names, own_files
from engine.errors import CorpusError, InvalidConfig, RunNotFound, StoreError
from engine.records import Run
from engine.service.application import Application
from engine.settings import MOST_DAYS
from engine.validation import integer

_DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Expired:
    """What is older than the retention period.

    Attributes:
        before: The time before which everything was last used, seconds since 1970 UTC.
        runs: Runs that ended before, with reruns and audits.
        corpora: Names of uploaded corpora that were not used since.
        log_entries: Number of entries of the audit log.
        logs: Logs of earlier dispatcher processes.
        without_budget: Names of private corpora of these runs without a budget: a budget that is set later does not
            count the runs.
    """

    before: float
    runs: tuple[Run, ...] = ()
    corpora: tuple[str, ...] = ()
    log_entries: int = 0
    logs: tuple[Path, ...] = ()
    without_budget: tuple[str, ...] = ()


def find(app: Application, days: int) -> Expired:
    """Return what is older than a number of days.

    An uploaded corpus is in use by its upload, by runs on it or its splits, by charges to its budget, and by logged
    actions on it. A run is kept with each younger rerun or audit of it.

    Args:
        app: The application of the operator.
        days: The retention period.

    Raises:
        InvalidConfig: If the number of days is not valid.
        StoreError: If the database fails.
    """
    integer("days", days, 1, MOST_DAYS)
    before = time.time() - days * _DAY
    every = app.queries.runs_of_all_users()
    old = {run.run_id: run for run in every if run.status.ended_before(before)}
    old = {identity: run for identity, run in old.items() if identity not in app.queries.published_runs.by_id}
    kept = [run for run in every if run.run_id not in old]
    while kept:
        if (parent := kept.pop().parent) in old:
            kept.append(old.pop(str(parent)))
    used = {name for run in every if run.run_id not in old for name in corpus_names(run.config.corpus)}
    used |= app.access.subjects_since(before)
    states = app.budgets.accounts.states()
    for state in states:
        times = [total.set_at for total in state.totals]
        times += [charge.at for charge in state.bookings] + [access.at for access in state.looks]
        if any(datetime.fromisoformat(at).timestamp() >= before for at in times):
            used.add(state.corpus)
    corpora = []
    for name, path in own_files(app.settings).items():
        with suppress(CorpusError, OSError):  # such a corpus stays until its owner deletes it
            if name not in used and _changed(path) < before and app.budgets.accounts.key_of(name)[0] not in used:
                corpora.append(name)
    budgeted = {state.name for state in states}
    bases = {base_name_and_split(name)[0] for run in old.values() for name in corpus_names(run.config.corpus)}
    logs = ClusterFiles(app.settings).folder.glob("log-*.txt")
    return Expired(
        before=before,
        runs=tuple(old.values()),
        corpora=tuple(corpora),
        log_entries=app.access.number_before(before),
        logs=tuple(sorted(path for path in logs if path.stat().st_mtime < before)),
        without_budget=tuple(sorted(bases - budgeted - NAMED.keys() - {SYNTHETIC})),
    )


def delete(app: Application, expired: Expired) -> Expired:
    """Delete what :func:`find` returned, except what was used since, and log it. Return what was deleted.

    Raises:
        StoreError: If the database fails or a file cannot be deleted; the next call continues.
    """
    corpora = []
    asked = app.queries.checksums()
    for name in expired.corpora:
        with suppress(InvalidConfig, CorpusError):  # used or deleted meanwhile
            app.corpora.delete(name, ended_before=expired.before)
            corpora.append(name)
    runs = []
    for run in expired.runs:
        try:
            app.runs.delete(run.run_id, ended_before=expired.before)
        except InvalidConfig:  # used meanwhile
            continue
        except RunNotFound:  # deleted with its corpus
            if not set(corpus_names(run.config.corpus)) & set(corpora):
                continue
        runs.append(run)
    _forget_derived_files(app, runs, asked)
    logs = [path for path in expired.logs if _removed(path)]
    done = replace(expired, corpora=tuple(corpora), runs=tuple(runs), logs=tuple(logs))
    if runs or corpora or expired.log_entries:
        done = replace(done, log_entries=app.access.delete_before(expired.before, summary(done)))
    return done


def summary(expired: Expired) -> str:
    """Return the numbers of the deleted runs, corpora and log entries in one line."""
    until = datetime.fromtimestamp(expired.before, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"not used since {until}: {len(expired.runs):,} runs, {len(expired.corpora):,} uploaded corpora, "
        f"{expired.log_entries:,} entries of the audit log, {len(expired.logs):,} log files"
    )


def _changed(path: Path) -> float:
    """Return the time of the last change of a file, or of the last changed file of a folder. Raises OSError."""
    inside = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return max((file.stat().st_mtime for file in inside), default=path.stat().st_mtime)


def _forget_derived_files(app: Application, runs: Iterable[Run], asked: dict[str, str]) -> None:
    """Remove the files derived from sentences of uploads, as far as no stored run needs them.

    A later deletion of the corpus would no longer find those of its splits.
    """
    kept = set(app.queries.checksums().values())
    for run in runs:
        private = any(name.startswith(OWN) for name in corpus_names(run.config.corpus))
        checksum = asked.get(run.run_id)
        if private and checksum and checksum not in kept:
            derived_files.forget(checksum, app.settings.artefacts)


def _removed(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"{path} cannot be deleted: {error.strerror or error}.") from error
    return True
