"""Where people sign in, each has runs and corpora of their own, and what somebody may not do is refused, whatever page
or link asks for it."""

import inspect
import io
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest

from engine.access import roles
from engine.access.roles import User
from engine.cluster import supervisor
from engine.config import JOIN, SimulationConfig
from engine.errors import BudgetExceeded, CorpusError, EpsilonError, InvalidConfig, NotAllowed, RunNotFound
from engine.records import RunState
from engine.service import Application, audit_jobs, budget_service, corpus_import
from engine.service.reproducibility import repeat_id
from engine.store import paths
from engine.training.model import Model
from tests.engine.access.test_roles import text
from tests.engine.factories import SMALL, provenance, record

COLUMNS = b"".join(b"Rosa B-PER\nlives O\nin O\nUlm B-LOC\n. O\n\nShe O\nsings O\n%d O\n\n" % n for n in range(20))
OTHERS = COLUMNS.replace(b"Ulm", b"Bonn")
ROLES = 'admin = ["ada"]\nrunner = ["rita", "rudi"]\nviewer = ["vera"]\nclaim = "sub"'


@pytest.fixture
def runs(trained_settings, tmp_path, monkeypatch):
    """A shared dashboard without workers: what is asked for waits."""
    file = tmp_path / "access.toml"
    file.write_text(text(ROLES, "[limits]\nruns = 3\nuploads = 2"))
    file.chmod(0o600)
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    opened = Application(replace(trained_settings, access=file))
    yield opened
    opened.close()


def person(runs: Application, name: str) -> User:
    return roles.read(runs.settings.access).person({"sub": name})


@pytest.fixture
def of(runs) -> Callable[[str], Application]:
    made: dict[str, Application] = {}
    return lambda name: made.setdefault(name, runs.for_user(person(runs, name)))


def done(runs: Application, config: SimulationConfig = SMALL) -> str:
    """A run of somebody that a worker has ended, with its tagger."""
    identity = runs.submit(config).run_id
    store = runs._every
    claim = store.claim(identity, "here")
    for number in range(2):
        store.append(claim, record(number, of=2))
    store.finish(claim, provenance(runs.corpus(config).checksum))
    path = runs.settings.artefacts.local_path(paths.model_name(identity))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"a tagger")
    return identity


def upload(runs: Application, title: str = "news.conll", content: bytes = COLUMNS) -> str:
    return runs.add_corpus(title, content)[0]


CONFIG = replace(SMALL, seed=77)
CHANGES: dict[str, tuple[Any, ...]] = {
    "add_corpus": ("x.conll", COLUMNS),
    "cancel": ("run",),
    "delete": ("run",),
    "delete_corpus": ("my-news",),
    "fetch_corpus": ("wnut17",),
    "forget_models": (["run"],),
    "keep_audit": (),
    "publish": ("run",),
    "rename_corpus": ("my-news", "other"),
    "share": ("run", "run"),
    "submit": (CONFIG,),
    "submit_again": (CONFIG,),
    "submit_all": ([CONFIG],),
    "submit_audit": (),
    "write_note": ("run", "mine"),
}
READS = {
    *(
        "allow",
        "audits",
        "book",
        "brought",
        "close",
        "corpora",
        "corpus",
        "corpus_overlap",
        "deeds",
        "find",
        "from_environment",
        "going_on",
        "newer",
        "number",
    ),
    *(
        "get",
        "has_model",
        "holdings",
        "identity",
        "in_common",
        "inventory",
        "language_models",
        "longest_document",
        "measurements",
    ),
    *("model", "models", "noise_multiplier_for", "note_sign_in", "of", "offers", "overlap", "overview", "own"),
    *(
        "person_epsilon",
        "plan",
        "preview",
        "problems",
        "published",
        "recent",
        "repeated",
        "resume",
        "rounds",
        "runs_of",
    ),
    *("seeds", "seen", "shared", "status", "studies", "tag", "tradeoff", "train_sentences", "training"),
    *("training_sentences", "vectors"),
}


def test_all_that_can_be_asked_of_runs_is_known_to_change_something_or_not():
    """A new method belongs in one of the two lists above, and is tried in the tests below."""
    public = {name for name, _ in inspect.getmembers(Application) if not name.startswith("_")}
    assert public == READS | CHANGES.keys()
    assert not READS & CHANGES.keys()


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_viewer_changes_nothing(name, runs, of):
    run = done(of("rita"))
    of("rita").share("run", run, shared=True)
    corpus = upload(of("rita"))
    of("rita").share("corpus", corpus, shared=True)
    before = runs.overview()
    given = [run if each == "run" else [run] if each == ["run"] else each for each in CHANGES[name]]
    whole = of("vera").get(run)
    if name == "submit_audit":
        given = [audit_jobs.audit_id(run), whole, None]
    if name == "keep_audit":
        given = [type("Audit", (), {"run_id": run, "config": SMALL})()]
    if name == "share":
        given = ["run", run]
    more = {"shared": False} if name == "share" else {}
    with pytest.raises(NotAllowed, match=r"^vera is a viewer .*role (runner|admin)\b"):
        getattr(of("vera"), name)(*given, **more)
    assert runs.overview() == before
    assert [info.name for info in of("vera").corpora() if info.where == "your files"] == [corpus]
    assert runs.audit_log()[0].person == "vera"
    assert runs.audit_log()[0].refused


def test_who_lost_a_role_while_a_page_was_open_can_do_no_more(runs, of):
    rita = of("rita")
    rita.submit(SMALL)
    runs.settings.access.write_text(text('admin = ["ada"]\nclaim = "sub"'))
    with pytest.raises(NotAllowed, match="rita has no role"):
        rita.submit(CONFIG)
    assert len(runs.runs_of()) == 1


@dataclass(frozen=True)
class Kept:
    """Of a tagger that was kept: whose it is."""

    run_id: str


class TestRuns:
    def test_of_somebody_else_are_not_there_by_any_way(self, runs, of):
        rita, rudi = of("rita"), of("rudi")
        run = done(rita)
        rita.write_note(run, "mine")
        assert rita.find(SMALL).run_id == run
        assert rita.models() == {run: 8}
        assert rudi.find(SMALL) is None
        for ask in (rudi.get, rudi.status, rudi.rounds, rudi.model, rudi.has_model, rudi.training):
            with pytest.raises(RunNotFound):
                ask(run)
        for change in (rudi.cancel, rudi.delete):
            with pytest.raises(RunNotFound):
                change(run)
        with pytest.raises(NotAllowed):
            rudi.forget_models([run])
        with pytest.raises(RunNotFound):
            rudi.tag("Rosa lives in Ulm.", [run])
        with pytest.raises(NotAllowed):
            rudi.share("run", run, shared=True)
        assert [each.run.run_id for each in rudi.overview(repeats=True) if not each.run.published] == []
        assert not any(each.run_id == run for each in (*rudi.recent(), *rudi.seeds(SMALL), *rudi.runs_by_noise(SMALL)))
        assert rudi.models() == {}
        assert all(offer.run.run_id != run for offer in rudi.available_models())
        assert rudi.seen({run}) == set()
        assert of("ada").get(run) == rita.get(run) == runs.get(run)
        assert rita.models() == {run: 8}

    def test_a_tagger_that_is_shared_can_be_used(self, runs, of, monkeypatch):
        run = done(of("rita"))
        of("rita").share("run", run, shared=True)
        loaded = []
        monkeypatch.setattr(Model, "load", classmethod(lambda cls, path: loaded.append(path) or Kept(run)))
        assert of("vera").model(run) == Kept(run)
        assert [path.name for path in loaded] == [paths.model_name(run).rpartition("/")[2]]
        assert of("vera").models() == {run: 8}
        assert of("vera").find(SMALL).run_id == run
        of("rita").share("run", run, shared=False)
        assert of("vera").models() == {}

    def test_who_asks_for_the_same_has_it_at_once_and_it_is_computed_once(self, runs, of):
        run = done(of("rita"))
        assert of("rudi").submit(SMALL).state == RunState.DONE
        assert of("rudi").get(run) == of("rita").get(run)
        of("rita").delete(run)
        assert of("rudi").models() == {run: 8}  # nothing of it is taken from him
        of("rudi").delete(run)
        assert runs.models() == {}

    def test_one_person_fills_neither_the_queue_nor_the_disk(self, of):
        rita = of("rita")
        rita.submit_all([replace(SMALL, seed=seed) for seed in range(3)])
        with pytest.raises(NotAllowed, match="rita has 3 runs"):
            rita.submit(replace(SMALL, seed=3))
        of("rudi").submit(replace(SMALL, seed=3))
        upload(rita, "a.conll")
        upload(rita, "b.conll")
        for name in rita.own_corpora():
            rita.share("corpus", name, shared=True)
        upload(of("rudi"), "c.conll")  # what others share is none of his
        assert len(of("rudi").own_corpora()) == 1
        with pytest.raises(NotAllowed, match=r"rita has 2 corpora, .*delete one"):
            upload(rita, "c.conll")

    def test_two_uploads_at_once_are_no_more_than_one_person_may_have(self, runs, of, monkeypatch):
        rita, meet = of("rita"), threading.Barrier(2)
        upload(rita, "first.conll", OTHERS)
        read = corpus_import.read

        def read_together(*given):
            found = read(*given)
            meet.wait(60)  # both were let in, and none is kept yet
            return found

        monkeypatch.setattr(corpus_import, "read", read_together)

        def kept(title: str) -> str:
            try:
                return upload(rita, f"{title}.conll", f"{title} O\n\n".encode() + COLUMNS)
            except NotAllowed as refused:
                return str(refused)

        with ThreadPoolExecutor(2) as both:
            name, refusal = sorted(both.map(kept, ["second", "third"]))
        assert refusal.startswith("rita has 2 corpora, ")
        assert rita.own_corpora() == {"my-first", name}
        home = runs.settings.home
        assert sorted(path.stem for path in (home / "corpora").iterdir()) == ["my-first", name]
        worked_out = {rita.corpus(replace(SMALL, corpus=each)).checksum[:16] for each in rita.own_corpora()}
        for folder in ("layouts", "overlaps"):
            assert {path.name[:16] for path in (home / folder).iterdir()} == worked_out, folder

    def test_a_repetition_belongs_to_whoever_asked_for_it(self, of):
        run = done(of("rita"))
        of("rita").share("run", run, shared=True)
        again = of("rudi").resubmit(SMALL).run_id
        assert again == repeat_id(run)
        with pytest.raises(RunNotFound):
            of("rita").status(again)


class TestCorpora:
    def test_of_somebody_else_are_not_there_by_any_way(self, runs, of):
        name = upload(of("rita"))
        config = replace(SMALL, corpus=name)
        rudi = of("rudi")
        assert name not in [info.name for info in rudi.corpora()]
        joined = f"{name}{JOIN}synthetic"
        by_path = str(runs.settings.home / "corpora" / f"{name}.conll")
        asked: list[Callable[[], object]] = [
            lambda: rudi.submit(config),
            lambda: rudi.submit(replace(SMALL, corpus=f"{name}@1")),
            lambda: rudi.submit(replace(SMALL, corpus=by_path)),
            lambda: rudi.plan(config),
            lambda: rudi.identity(config),
            lambda: rudi.train_sentences(name),
            lambda: rudi.train_sentences(by_path),
            lambda: rudi.train_sentences(joined),
            lambda: rudi.shared_sentences(joined),
            lambda: rudi.training_sentences(name, [0]),
            lambda: rudi.training_sentences(by_path, [0]),
            lambda: rudi.training_sentences("/etc/passwd", [0]),
            lambda: rudi.inventory(name),
            lambda: budget_service.account(rudi, name),
            lambda: budget_service.set_total(rudi, name, 1.0),
        ]
        for ask in asked:
            with pytest.raises(CorpusError):
                ask()
        assert rudi.corpus_overlap(name) is None
        assert rudi.longest_document(name) is None
        for change in (lambda: rudi.delete_corpus(name), lambda: rudi.rename_corpus(name, "mine")):
            with pytest.raises(NotAllowed):
                change()
        assert rudi.find(config) is None
        assert of("rita").train_sentences(name) == runs.train_sentences(name) > 0
        assert of("rita").training_sentences(name, [0])[0].tokens

    def test_of_one_name_are_told_apart_and_neither_is_written_over(self, of):
        rita, rudi = of("rita"), of("rudi")
        hers, his = upload(rita), upload(rudi, content=OTHERS)
        assert hers != his
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("train.conll", OTHERS)
            archive.writestr("test.conll", OTHERS)
        zipped = upload(rudi, "news.zip", packed.getvalue())
        assert len({hers, his, zipped}) == 3
        with pytest.raises(CorpusError, match=r"name='news',.* no corpus has"):
            rudi.rename_corpus(his, "news")
        assert rita.corpus(replace(SMALL, corpus=hers)).load().train[0].tokens[3] == "Ulm"

    def test_of_one_content_are_one_and_stay_until_the_last_has_let_go(self, runs, of):
        rita, rudi = of("rita"), of("rudi")
        name = upload(rita)
        assert upload(rudi) == name
        rita.delete_corpus(name)
        with pytest.raises(CorpusError):
            rita.train_sentences(name)
        assert rudi.train_sentences(name) > 0
        rudi.delete_corpus(name)
        with pytest.raises(CorpusError):
            runs.train_sentences(name)

    def test_a_shared_one_can_be_trained_on_and_runs_on_it_stay_their_owners(self, runs, of):
        rita, rudi = of("rita"), of("rudi")
        name = upload(rita)
        rita.share("corpus", name, shared=True)
        config = replace(SMALL, corpus=name, data_fraction=1.0)
        run = rudi.submit(config).run_id
        with pytest.raises(RunNotFound):
            rita.status(run)
        with pytest.raises(InvalidConfig, match=r"\bhas 1 runs\b"):
            rita.rename_corpus(name, "other")
        with pytest.raises(NotAllowed, match="somebody else's"):
            rudi.delete_corpus(name)
        rita.delete_corpus(name)
        assert rudi.status(run).state == RunState.QUEUED
        assert runs.audit_log()[0].deed == "delete corpus"

    def test_an_admin_may_delete_anybodys(self, runs, of):
        name = upload(of("rita"))
        run = of("rita").submit(replace(SMALL, corpus=name, data_fraction=1.0)).run_id
        of("ada").delete_corpus(name)
        for who in (runs, of("rita")):
            with pytest.raises(RunNotFound):
                who.status(run)
        assert upload(of("rudi"), content=OTHERS) == name  # the name is free, and nothing of hers goes with it
        with pytest.raises(CorpusError):
            of("rita").train_sentences(name)


class TestBudgets:
    def test_of_a_public_corpus_is_an_admins_to_set(self, of):
        with pytest.raises(NotAllowed, match=r"rita .*role admin\b"):
            budget_service.set_total(of("rita"), "synthetic", 3.0)
        budget_service.set_total(of("ada"), "synthetic", 3.0)
        name = upload(of("rita"))
        assert budget_service.set_total(of("rita"), name, 3.0).budget.epsilon == 3.0

    def test_counts_the_runs_of_all_and_names_ones_own_alone(self, of):
        budget_service.set_total(of("ada"), "synthetic", 10.0)
        of("rita").submit(SMALL)
        hers, his = (budget_service.account(of(name), "synthetic") for name in ("rita", "rudi"))
        assert hers.share == his.share > 0
        assert [each.what for each in his.bookings] == [budget_service._OTHERS]
        assert [each.run for each in his.bookings] == [""]
        assert "σ = 1" in hers.bookings[0].what
        with pytest.raises(BudgetExceeded):
            of("rudi").submit(replace(SMALL, privacy=replace(SMALL.privacy, noise_multiplier=0.3)))

    def test_counts_what_others_ran_before_there_was_one(self, of):
        of("rita").submit(SMALL)
        (booking,) = budget_service.set_total(of("ada"), "synthetic", 10.0).bookings
        assert "before there was" in booking.what
        his = budget_service.account(of("rudi"), "synthetic")
        assert [(each.run, each.what) for each in his.bookings] == [("", budget_service._OTHERS)]
        name = upload(of("rita"))
        of("rita").submit(replace(SMALL, corpus=name, data_fraction=1.0))
        assert upload(of("rudi")) == name
        (booking,) = budget_service.set_total(of("rudi"), name, 1000.0).bookings
        assert booking.what == budget_service._OTHERS


class TestTheLog:
    def test_says_who_did_what(self, runs, of):
        of("rita").note_sign_in()
        run = of("rita").submit(SMALL).run_id
        of("rita").cancel(run)
        of("vera").authorize("export", "runs.csv", roles.Role.VIEWER)
        with pytest.raises(EpsilonError):
            of("vera").submit(SMALL)
        runs.delete(run)
        assert [
            (each.person.partition(":")[0], each.action, each.subject, each.refused) for each in runs.audit_log()
        ] == [
            ("shell", "delete", run, False),
            ("vera", "run", run, True),
            ("vera", "export", "runs.csv", False),
            ("rita", "cancel", run, False),
            ("rita", "run", run, False),
            ("rita", "sign in", "", False),
        ]
        assert of("ada").audit_log() == runs.audit_log()
        for name in ("rita", "vera"):
            with pytest.raises(NotAllowed, match=r"\blog\b.*\badmins\b"):
                of(name).audit_log()

    def test_is_not_kept_where_nobody_signs_in(self, trained_settings, monkeypatch):
        monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
        alone = Application(trained_settings)
        alone.submit(SMALL)
        assert alone.audit_log() == []
        assert alone.runs_of()[0].owner is None
        alone.close()
