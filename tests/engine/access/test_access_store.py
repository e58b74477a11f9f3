"""Whose runs and corpora are, in every database alike."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from engine.access.access_store import AccessStore
from engine.access.roles import Limits, Role, User
from engine.errors import NotAllowed, RunNotFound
from engine.records import RunState
from engine.store import permissions
from engine.store.run_store import RunStore
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
def hers(store):
    """Rita's run, done, with two records and a note."""
    store.for_user(RITA).submit("hers", SMALL, "checksum")
    claim = store.claim("hers", "here")
    for number in range(2):
        store.append(claim, record(number, of=2))
    store.finish(claim, provenance())
    store.for_user(RITA).write_note("hers", "mine")
    return store


def test_a_run_is_there_for_whoever_asked_for_it_and_for_who_keeps_the_machine(hers):
    for who in (hers, hers.for_user(RITA), hers.for_user(ADA)):
        assert who.get("hers").owner == RITA.name
        assert [run.run_id for run in who.newest(10)[0]] == ["hers"]
        assert len(who.records("hers")) == 2
        assert set(who.last_records(["hers"])) == {"hers"}
        assert who.notes() == {"hers": "mine"}


def test_for_others_it_is_not_there_in_any_way(hers):
    others = hers.for_user(RUDI)
    for asked in (others.get, others.status, others.records, others.cancel, others.delete):
        with pytest.raises(RunNotFound, match="'hers'"):
            asked("hers")
    with pytest.raises(RunNotFound):
        others.write_note("hers", "")
    assert others.newest(10) == ([], [])
    assert others.last_records(["hers"]) == {}
    assert others.notes() == {}
    assert hers.get("hers").final
    assert hers.notes() == {"hers": "mine"}


def test_what_is_shared_can_be_seen_by_others_and_changed_by_none_of_them(hers):
    with pytest.raises(NotAllowed, match="belongs to another user"):
        AccessStore(hers.for_user(RUDI)).share(permissions.RUN, "hers", shared=True)
    AccessStore(hers.for_user(RITA)).share(permissions.RUN, "hers", shared=True)
    others = hers.for_user(RUDI)
    assert others.get("hers").final
    assert others.notes() == {"hers": "mine"}
    for change in (others.cancel, others.delete, lambda run: others.write_note(run, "ha")):
        with pytest.raises(NotAllowed, match="belongs to another user"):
            change("hers")
    assert AccessStore(others).shared(permissions.RUN) == {"hers"}
    AccessStore(hers.for_user(RITA)).share(permissions.RUN, "hers", shared=False)
    with pytest.raises(RunNotFound):
        others.get("hers")


def test_two_who_ask_for_the_same_have_one_run_and_neither_takes_it_from_the_other(store):
    for person in (RITA, RUDI):
        store.for_user(person).submit("both", SMALL, "checksum")
    assert len(store.newest(10)[0]) == 1
    for person in (RITA, RUDI):
        with pytest.raises(NotAllowed, match=r"Another user .*run both,? .*continues"):
            store.for_user(person).cancel("both")
    assert store.for_user(RITA).delete("both") is False
    with pytest.raises(RunNotFound):
        store.for_user(RITA).status("both")
    store.for_user(RUDI).cancel("both")
    assert store.for_user(RUDI).delete("both") is True
    with pytest.raises(RunNotFound):
        store.status("both")
    store.for_user(RITA).submit("both", SMALL, "checksum")
    with pytest.raises(RunNotFound):  # nothing is left of whose it was
        store.for_user(RUDI).status("both")


def test_one_person_has_so_many_under_way_and_no_more(store):
    rita = store.for_user(RITA)
    for number in range(2):
        rita.submit(f"r{number}", replace(SMALL, seed=number), "checksum")
    with pytest.raises(NotAllowed, match=r"rita@example\.org has 2 .*runs"):
        rita.submit("r2", replace(SMALL, seed=2), "checksum")
    with pytest.raises(RunNotFound):
        store.status("r2")
    rita.submit("r1", replace(SMALL, seed=1), "checksum")  # it is under way already
    store.for_user(RUDI).submit("r2", replace(SMALL, seed=2), "checksum")
    rita.submit("r2", replace(SMALL, seed=2), "checksum")  # and this one is his
    rita.cancel("r0")
    rita.submit("r3", replace(SMALL, seed=3), "checksum")


def test_everybody_has_a_turn(store):
    def ask(person: User | None, *names: str, batch: bool = False) -> None:
        for name in names:
            (store.for_user(person) if person else store).submit(
                name, replace(SMALL, seed=len(name)), "checksum", batch=batch
            )

    many = replace(RITA, limits=Limits(runs=20))
    ask(many, "ra", "rb", "rc", "rd")
    ask(many, "rx", batch=True)
    ask(RUDI, "ua", "ub")
    ask(None, "n")
    asked = [each.run_id for each in store.unfinished()]
    assert asked == ["ra", "ua", "n", "rb", "ub", "rc", "rd", "rx"]
    assert [store.status(name).queue_place for name in asked] == list(range(1, 9))
    assert {run.run_id: run.status.queue_place for run in store.newest(10)[0]} == {
        name: place for place, name in enumerate(asked, start=1)
    }
    store.claim("ra", "here")
    store.claim("rb", "here")
    assert [each.run_id for each in store.unfinished() if each.state == RunState.QUEUED] == [
        "ua",
        "n",
        "ub",
        "rc",
        "rd",
        "rx",
    ]
    store.cancel("rb")  # what is over counts no more
    assert [each.run_id for each in store.unfinished()][-4:] == ["rc", "ub", "rd", "rx"]
    assert store.status("ua").queue_place == 1


def keep(store: RunStore, name: str) -> str:
    return AccessStore(store).keep_corpus(lambda: name)


def test_a_corpus_is_somebodys(store):
    for person in (RITA, RUDI):
        keep(store.for_user(person), f"my-{person.name[:4]}")
    rita, rudi = AccessStore(store.for_user(RITA)), AccessStore(store.for_user(RUDI))
    assert rita.own_corpora() == {"my-rita"}
    rita.share(permissions.CORPUS, "my-rita", shared=True)
    assert rudi.own_corpora() == {"my-rita", "my-rudi"}
    with pytest.raises(NotAllowed, match="my-rita belongs to another user"):
        rudi.require_owner(permissions.CORPUS, "my-rita")
    rita.forget_corpus("my-rita", "my-new")
    assert rudi.own_corpora() == {"my-new", "my-rudi"}
    keep(store.for_user(RUDI), "my-new")  # the same content under the same name
    assert not rita.give_up_corpus("my-new")
    assert rudi.give_up_corpus("my-new")
    assert AccessStore(store).give_up_corpus("my-new")
    rudi.forget_corpus("my-new")
    assert rudi.own_corpora() == {"my-rudi"}


def test_of_two_corpora_at_once_no_more_are_kept_than_one_person_may_have(store):
    one = store.for_user(replace(RITA, limits=Limits(uploads=1)))
    keep(store.for_user(RUDI), "my-his")
    placed: list[str] = []

    def place(name: str) -> str:
        time.sleep(0.2)  # both are at it by now
        placed.append(name)
        return name

    def kept(name: str) -> str:
        try:
            return AccessStore(one).keep_corpus(lambda: place(name))
        except NotAllowed as refused:
            return str(refused)

    with ThreadPoolExecutor(2) as both:
        name, refusal = sorted(both.map(kept, ["my-a", "my-b"]))
    assert placed == [name]
    assert refusal.startswith("rita@example.org has 1 corpora, ")
    assert AccessStore(one).brought() == set(placed)
    keep(store, "my-of-the-keeper")


def test_the_log_has_all_of_it_in_order_whatever_somebody_is_called(store):
    book = AccessStore(store)
    book.log_action(RITA.name, "upload", "odd\0name\ud800" + "x" * 1000)
    book.log_action(RUDI.name, "run", "r", refused=True)
    newest, oldest = book.audit_log(10)
    assert (newest.person, newest.action, newest.subject, newest.refused) == (RUDI.name, "run", "r", True)
    assert oldest.subject.startswith("oddname?")
    assert len(oldest.subject) == 500
    assert oldest.number < newest.number
    assert oldest.at <= newest.at
    assert len(book.audit_log(1)) == 1
