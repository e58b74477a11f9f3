"""Owners and sharing of runs and corpora, limits and the audit log, in each supported database."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import update

from engine.access.roles import Limits, Role, User
from engine.errors import NotAllowed, RunNotFound
from engine.records import RunState
from engine.store import permissions
from engine.store.access_store import AccessStore
from engine.store.run_store import RunStore
from engine.store.schema import deeds
from tests.engine.factories import SMALL, provenance, record

ADA = User(name="ada@example.org", role=Role.ADMIN)
RITA = User(name="rita@example.org", role=Role.RUNNER, limits=Limits(runs=2))
RUDI = User(name="rudi@example.org", role=Role.RUNNER)


@pytest.fixture
def store(store_address: str):
    opened = RunStore(store_address)
    yield opened
    opened.close()


@pytest.fixture
def store_with_run(store):
    """Return a store with a finished run of Rita's, with two records and a note."""
    store.for_user(RITA).submit("hers", SMALL, "checksum")
    claim = store.claim("hers", "here")
    for number in range(2):
        store.append(claim, record(number, of=2))
    store.finish(claim, provenance())
    store.for_user(RITA).write_note("hers", "mine")
    return store


def test_owner_admin_and_operator_see_a_run(store_with_run):
    for viewer in (store_with_run, store_with_run.for_user(RITA), store_with_run.for_user(ADA)):
        assert viewer.get("hers").owner == RITA.name
        assert [run.run_id for run in viewer.newest(10)[0]] == ["hers"]
        assert len(viewer.records("hers")) == 2
        assert set(viewer.last_records(["hers"])) == {"hers"}
        assert viewer.notes() == {"hers": "mine"}


def test_a_run_is_not_found_for_other_users(store_with_run):
    other_user = store_with_run.for_user(RUDI)
    for method in (other_user.get, other_user.status, other_user.records, other_user.cancel, other_user.delete):
        with pytest.raises(RunNotFound, match="'hers'"):
            method("hers")
    with pytest.raises(RunNotFound):
        other_user.write_note("hers", "")
    assert other_user.newest(10) == ([], [])
    assert other_user.last_records(["hers"]) == {}
    assert other_user.notes() == {}
    assert store_with_run.get("hers").final
    assert store_with_run.notes() == {"hers": "mine"}


def test_a_shared_run_is_read_only_for_other_users(store_with_run):
    with pytest.raises(NotAllowed, match="belongs to another user"):
        AccessStore(store_with_run.for_user(RUDI)).share(permissions.RUN, "hers", shared=True)
    AccessStore(store_with_run.for_user(RITA)).share(permissions.RUN, "hers", shared=True)
    other_user = store_with_run.for_user(RUDI)
    assert other_user.get("hers").final
    assert other_user.notes() == {"hers": "mine"}
    for change in (other_user.cancel, other_user.delete, lambda run: other_user.write_note(run, "ha")):
        with pytest.raises(NotAllowed, match="belongs to another user"):
            change("hers")
    assert AccessStore(other_user).shared(permissions.RUN) == {"hers"}
    AccessStore(store_with_run.for_user(RITA)).share(permissions.RUN, "hers", shared=False)
    with pytest.raises(RunNotFound):
        other_user.get("hers")


def test_equal_submissions_of_two_users_are_one_run(store):
    for user in (RITA, RUDI):
        store.for_user(user).submit("both", SMALL, "checksum")
    assert len(store.newest(10)[0]) == 1
    for user in (RITA, RUDI):
        with pytest.raises(NotAllowed, match=r"Another user .*run both,? .*continues"):
            store.for_user(user).cancel("both")
    assert store.for_user(RITA).delete("both") is False
    with pytest.raises(RunNotFound):
        store.for_user(RITA).status("both")
    store.for_user(RUDI).cancel("both")
    assert store.for_user(RUDI).delete("both") is True
    with pytest.raises(RunNotFound):
        store.status("both")
    store.for_user(RITA).submit("both", SMALL, "checksum")
    with pytest.raises(RunNotFound):  # the earlier owner is removed
        store.for_user(RUDI).status("both")


def test_unfinished_runs_per_user_are_limited(store):
    rita = store.for_user(RITA)
    for number in range(2):
        rita.submit(f"r{number}", replace(SMALL, seed=number), "checksum")
    with pytest.raises(NotAllowed, match=r"rita@example\.org has 2 queued or running runs"):
        rita.submit("r2", replace(SMALL, seed=2), "checksum")
    with pytest.raises(RunNotFound):
        store.status("r2")
    rita.submit("r1", replace(SMALL, seed=1), "checksum")  # already queued
    store.for_user(RUDI).submit("r2", replace(SMALL, seed=2), "checksum")
    rita.submit("r2", replace(SMALL, seed=2), "checksum")  # already queued by Rudi
    rita.cancel("r0")
    rita.submit("r3", replace(SMALL, seed=3), "checksum")


def test_queue_alternates_between_users(store):
    def submit(user: User | None, *names: str, batch: bool = False) -> None:
        for name in names:
            (store.for_user(user) if user else store).submit(
                name, replace(SMALL, seed=len(name)), "checksum", batch=batch
            )

    many = replace(RITA, limits=Limits(runs=20))
    submit(many, "ra", "rb", "rc", "rd")
    submit(many, "rx", batch=True)
    submit(RUDI, "ua", "ub")
    submit(None, "n")
    submitted = [run.run_id for run in store.unfinished()]
    assert submitted == ["ra", "ua", "n", "rb", "ub", "rc", "rd", "rx"]
    assert [store.status(name).queue_place for name in submitted] == list(range(1, 9))
    assert {run.run_id: run.status.queue_place for run in store.newest(10)[0]} == {
        name: position for position, name in enumerate(submitted, start=1)
    }
    store.claim("ra", "here")
    store.claim("rb", "here")
    assert [run.run_id for run in store.unfinished() if run.state == RunState.QUEUED] == [
        "ua",
        "n",
        "ub",
        "rc",
        "rd",
        "rx",
    ]
    store.cancel("rb")  # a cancelled run does not count
    assert [run.run_id for run in store.unfinished()][-4:] == ["rc", "ub", "rd", "rx"]
    assert store.status("ua").queue_place == 1


def add_corpus(store: RunStore, name: str) -> str:
    return AccessStore(store).keep_corpus(lambda: name)


def test_users_may_use_their_own_and_shared_corpora(store):
    for user in (RITA, RUDI):
        add_corpus(store.for_user(user), f"my-{user.name[:4]}")
    rita, rudi = AccessStore(store.for_user(RITA)), AccessStore(store.for_user(RUDI))
    assert rita.own_corpora() == {"my-rita"}
    rita.share(permissions.CORPUS, "my-rita", shared=True)
    assert rudi.own_corpora() == {"my-rita", "my-rudi"}
    with pytest.raises(NotAllowed, match="my-rita belongs to another user"):
        rudi.require_owner(permissions.CORPUS, "my-rita")
    rita.forget_corpus("my-rita", "my-new")
    assert rudi.own_corpora() == {"my-new", "my-rudi"}
    add_corpus(store.for_user(RUDI), "my-new")  # the same content under the same name
    assert not rita.give_up_corpus("my-new")
    assert rudi.give_up_corpus("my-new")
    assert AccessStore(store).give_up_corpus("my-new")
    rudi.forget_corpus("my-new")
    assert rudi.own_corpora() == {"my-rudi"}


def test_only_corpora_that_all_users_of_a_corpus_may_use_are_shared_with_it(store):
    for user, names in ((RITA, ("my-a", "my-b", "my-both")), (RUDI, ("my-his", "my-both"))):
        for name in names:
            add_corpus(store.for_user(user), name)
    every, access = {"my-a", "my-b", "my-both", "my-his", "my-operators"}, AccessStore(store)
    assert access.shared_with("my-a", every) == {"my-a", "my-b", "my-both"}
    assert access.shared_with("my-his", every) == {"my-his", "my-both"}
    assert access.shared_with("my-both", every) == {"my-both"}
    assert access.shared_with("my-operators", every) == every
    access.share(permissions.CORPUS, "my-a", shared=True)
    assert access.shared_with("my-a", every) == {"my-a"}
    assert access.shared_with("my-his", every) == {"my-a", "my-his", "my-both"}
    assert access.shared_with("my-both", every) == {"my-a", "my-both"}


def test_simultaneous_uploads_respect_the_limit(store):
    limited = store.for_user(replace(RITA, limits=Limits(uploads=1)))
    add_corpus(store.for_user(RUDI), "my-his")
    saved: list[str] = []

    def save(name: str) -> str:
        time.sleep(0.2)  # both uploads have started by now
        saved.append(name)
        return name

    def upload(name: str) -> str:
        try:
            return AccessStore(limited).keep_corpus(lambda: save(name))
        except NotAllowed as refused:
            return str(refused)

    with ThreadPoolExecutor(2) as both:
        name, refusal = sorted(both.map(upload, ["my-a", "my-b"]))
    assert saved == [name]
    assert refusal.startswith("rita@example.org has 1 corpora, ")
    assert AccessStore(limited).brought() == set(saved)
    add_corpus(store, "my-operator")


def test_audit_log_is_ordered_and_sanitises_names(store):
    access = AccessStore(store)
    access.log_action(RITA.name, "upload", "odd\0name\ud800" + "x" * 1000)
    access.log_action(RUDI.name, "run", "r", refused=True)
    newest, oldest = access.audit_log(10)
    assert (newest.person, newest.action, newest.subject, newest.refused) == (RUDI.name, "run", "r", True)
    assert oldest.subject.startswith("oddname?")
    assert len(oldest.subject) == 500
    assert oldest.number < newest.number
    assert oldest.at <= newest.at
    assert len(access.audit_log(1)) == 1


def test_log_is_counted_filtered_and_shortened_by_user_and_time(store):
    access = AccessStore(store)
    for person, deed, refused in ((RITA, "upload", False), (RITA, "upload", False), (RUDI, "publish", True)):
        access.log_action(person.name, deed, f"of {person.name}", refused=refused)
    with store.begin() as connection:
        connection.execute(update(deeds).where(deeds.c.number == 1).values(at=100.0))
    assert [entry.number for entry in access.audit_log(10, RITA.name)] == [2, 1]
    assert [entry.number for entry in access.audit_log(10, None, 200.0)] == [3, 2]
    assert [entry.number for entry in access.audit_log(1)] == [3]
    assert sorted(access.activity(0.0)) == [(RITA.name, "upload", False, 2), (RUDI.name, "publish", True, 1)]
    assert sorted(access.activity(200.0)) == [(RITA.name, "upload", False, 1), (RUDI.name, "publish", True, 1)]
    assert access.subjects_since(200.0) == {f"of {RITA.name}", f"of {RUDI.name}"}
    assert access.number_before(200.0) == 1
    assert access.delete_before(200.0) == 1
    assert [entry.number for entry in access.audit_log(10)] == [3, 2]


def test_belongings_are_those_of_one_user(store_with_run):
    store_with_run.for_user(RUDI).submit("hers", SMALL, "checksum")
    for user, name in ((RITA, "my-a"), (RITA, "my-b"), (RUDI, "my-c")):
        AccessStore(store_with_run.for_user(user)).keep_corpus(lambda name=name: name)
    AccessStore(store_with_run.for_user(RITA)).share(permissions.CORPUS, "my-a", shared=True)
    AccessStore(store_with_run.for_user(RITA)).share(permissions.RUN, "hers", shared=True)
    access = AccessStore(store_with_run)
    access.log_action(RUDI.name, "upload", "c.conll")
    hers, his = (access.belongings(user.name) for user in (RITA, RUDI))
    assert (hers.runs, hers.joint, hers.shared) == ({"hers"}, {"hers"}, {"hers"})
    assert (hers.corpora, his.corpora) == ({"my-a", "my-b"}, {"my-c"})
    assert (len(hers.log), [entry.action for entry in his.log]) == (0, ["upload"])
    assert access.corpora_by_user() == {RITA.name: 2, RUDI.name: 1}
