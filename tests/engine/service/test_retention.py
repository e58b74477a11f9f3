"""Retention deletes what is older than a number of days, and nothing that is in use or younger."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import update

from engine.access.roles import Role, User
from engine.cluster import supervisor
from engine.config import SimulationConfig
from engine.errors import InvalidConfig
from engine.records import RunKind, RunState
from engine.service import Application, retention
from engine.service.run_queries import RunQueries
from engine.store.published import Published
from engine.store.schema import deeds, runs
from tests.engine.factories import SMALL, provenance, record
from tests.engine.service.test_access import COLUMNS, ROLES, text

DAY = 86_400.0
WHOLE = replace(SMALL, data_fraction=1.0)
OLD, YOUNG = time.time() - 40 * DAY, time.time() - 20 * DAY


@pytest.fixture
def app(trained_settings, tmp_path, monkeypatch) -> Iterator[Application]:
    file = tmp_path / "access.toml"
    file.write_text(text(ROLES))
    file.chmod(0o600)
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    opened = Application(replace(trained_settings, access=file))
    yield opened
    opened.close()


@pytest.fixture
def rita(app) -> Application:
    return app.for_user(User(name="rita", role=Role.RUNNER))


def set_times(app: Application, identity: str, at: float) -> None:
    with app._context.all_users_store.begin() as connection:
        connection.execute(update(runs).where(runs.c.run_id == identity).values(created=at - 60, finished=at))


def add_run(app: Application, at: float, config: SimulationConfig, state: RunState = RunState.DONE) -> str:
    """Add a run that was submitted and ended at a time."""
    identity = app.runs.submit(config).run_id
    store = app._context.all_users_store
    if state in (RunState.DONE, RunState.RUNNING):
        claim = store.claim(identity, "here")
        store.append(claim, record(0, of=1))
        if state == RunState.DONE:
            store.finish(claim, provenance(app.queries.corpus(config).checksum))
    if state == RunState.FAILED:
        store.fail(identity, "It failed.")
    set_times(app, identity, at)
    return identity


def seeds() -> Iterator[SimulationConfig]:
    return (replace(SMALL, seed=seed) for seed in range(100, 200))


def age_log(app: Application, at: float = OLD) -> None:
    with app._context.all_users_store.begin() as connection:
        connection.execute(update(deeds).values(at=at))


def upload(app: Application, title: str = "letters.conll", at: float = OLD, content: bytes = COLUMNS) -> str:
    name = app.corpora.add(title, content)[0]
    path = app.settings.home / "corpora" / f"{name}.conll"
    os.utime(path, (at, at))
    return name


def identities(found: retention.Expired) -> set[str]:
    return {run.run_id for run in found.runs}


def test_only_ended_old_unpublished_runs_are_deleted(app, rita, monkeypatch):
    configs = seeds()
    old = add_run(rita, OLD, next(configs))
    failed = add_run(rita, OLD, next(configs), RunState.FAILED)
    kept = [add_run(rita, YOUNG, next(configs))]
    kept += [add_run(rita, OLD, next(configs), state) for state in (RunState.QUEUED, RunState.RUNNING)]
    in_public = add_run(rita, OLD, next(configs))
    monkeypatch.setattr(RunQueries, "published_runs", Published((app.queries.get(in_public),), ()))
    app.runs.write_note(old, "a note")
    found = retention.find(app, 30)
    assert identities(found) == {old, failed}
    assert len(app.queries.runs_of()) == 6
    assert identities(retention.delete(app, found)) == {old, failed}
    assert {run.run_id for run in app.queries.runs_of()} == {*kept, in_public}
    assert app._context.store.notes() == {}
    assert identities(retention.find(app, 30)) == set()


def test_run_that_is_queued_again_meanwhile_stays(app, rita):
    config = next(seeds())
    failed = add_run(rita, OLD, config, RunState.FAILED)
    found = retention.find(app, 30)
    assert identities(found) == {failed}
    rita.runs.submit(config)
    assert identities(retention.delete(app, found)) == set()
    assert app.queries.status(failed).state == RunState.QUEUED


def test_run_stays_with_a_younger_rerun_of_it(app, rita):
    first = add_run(rita, OLD, SMALL)
    again = rita.runs.resubmit(SMALL).run_id
    assert app.queries.get(again).kind == RunKind.REPEAT
    assert identities(retention.find(app, 30)) == set()
    app._context.all_users_store.fail(again, "It failed.")
    set_times(app, again, OLD)
    assert identities(retention.find(app, 30)) == {first, again}


def test_charges_to_a_budget_stay(app, rita):
    name = upload(rita)
    rita.budgets.set_total(name, 1000.0)
    config = replace(WHOLE, corpus=name)
    run = add_run(rita, OLD, config)
    before = app.budgets.state(name)
    assert [charge.run for charge in before.bookings] == [run]
    done = retention.delete(app, retention.find(app, 30))
    assert identities(done) == {run}
    assert done.corpora == ()  # its budget was set today
    after = app.budgets.state(name)
    assert (after.share, after.holds) == (before.share, before.holds)
    assert [charge.run for charge in after.bookings] == [run]


class TestCorpora:
    def test_unused_upload_is_deleted_with_its_derived_files(self, app, rita):
        name, config = upload(rita), replace(WHOLE, corpus="my-letters@1")
        run = add_run(rita, OLD, config)
        checksum = app.queries.corpus(config).checksum
        layouts = app.settings.home / "layouts"
        assert list(layouts.glob(f"{checksum[:16]}*"))
        age_log(app)
        found = retention.find(app, 30)
        assert (found.corpora, identities(found)) == ((name,), {run})
        assert found.without_budget == (name,)
        done = retention.delete(app, found)
        assert (done.corpora, identities(done)) == ((name,), {run})
        assert not list((app.settings.home / "corpora").iterdir())
        assert not list(layouts.glob(f"{checksum[:16]}*"))
        assert rita.corpora.own() == set()

    @pytest.mark.parametrize(
        "use",
        [
            lambda rita, name: add_run(rita, YOUNG, replace(WHOLE, corpus=name)),
            lambda rita, name: add_run(rita, OLD, replace(WHOLE, corpus=f"{name}@2"), RunState.QUEUED),
            lambda rita, name: rita.budgets.set_total(name, 3.0),
            lambda rita, name: os.utime(rita.settings.home / "corpora" / f"{name}.conll", (YOUNG, YOUNG)),
        ],
        ids=["young-run", "queued-run-on-a-split", "budget", "young-upload"],
    )
    def test_upload_in_use_stays(self, app, rita, use: Callable[[Application, str], object]):
        name = upload(rita)
        use(rita, name)
        age_log(app)
        assert retention.find(app, 30).corpora == ()

    def test_upload_that_its_owner_shared_lately_stays(self, app, rita):
        name = upload(rita)
        age_log(app)
        assert retention.find(app, 30).corpora == (name,)
        rita.access.share("corpus", name, shared=True)
        assert retention.find(app, 30).corpora == ()

    def test_upload_on_which_a_run_is_queued_meanwhile_stays(self, app, rita):
        name = upload(rita)
        age_log(app)
        found = retention.find(app, 30)
        run = rita.runs.submit(replace(WHOLE, corpus=name)).run_id
        assert retention.delete(app, found).corpora == ()
        assert app.queries.status(run).state == RunState.QUEUED
        assert rita.corpora.own() == {name}

    def test_derived_files_of_a_deleted_run_go_and_those_of_kept_runs_stay(self, app, rita):
        upload(rita, at=YOUNG)
        old, kept = (replace(WHOLE, corpus=f"my-letters@{split}") for split in (1, 2))
        add_run(rita, OLD, old)
        add_run(rita, YOUNG, kept)
        layouts, checksums = app.settings.home / "layouts", [app.queries.corpus(each).checksum for each in (old, kept)]
        retention.delete(app, retention.find(app, 30))
        assert [bool(list(layouts.glob(f"{checksum[:16]}*"))) for checksum in checksums] == [False, True]


def test_log_is_shortened_and_records_the_deletion(app, rita):
    add_run(rita, OLD, SMALL)
    age_log(app)
    app.access.authorize("young", "kept")
    log = app.settings.home / "cluster" / "log-1.txt"
    log.parent.mkdir()
    for name, at in (("log-1.txt", OLD), ("log-2.txt", YOUNG), ("log.txt", OLD)):
        log.with_name(name).write_text("text")
        os.utime(log.with_name(name), (at, at))
    retention.delete(app, retention.find(app, 30))
    entry, deleted, young = app.access.audit_log()
    assert (entry.action, deleted.action, young.action) == ("retention", "delete", "young")
    assert "1 runs, 0 uploaded corpora, 1 entries" in entry.subject
    assert sorted(path.name for path in log.parent.iterdir()) == ["log-2.txt", "log.txt"]


@pytest.mark.parametrize("days", [0, -1, 36_501, 1.5])
def test_invalid_period_is_named(app, days):
    with pytest.raises(InvalidConfig, match=f"days={days}"):
        retention.find(app, days)


def test_sign_out_ends_sessions_after_the_shortest_period(app, rita):
    """Sessions end after twelve hours by themselves, and the shortest period is a day."""
    now = time.time()
    rita.access.note_sign_out(now)
    retention.delete(app, retention.find(app, 1))
    assert app.for_user(User(name="rita", role=Role.RUNNER)).access.has_signed_out(now)
