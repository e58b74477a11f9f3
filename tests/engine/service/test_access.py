"""With sign-in, each user has their own runs and corpora; a forbidden action is refused on every page and link."""

import inspect
import io
import operator
import threading
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from engine.access import roles
from engine.access.roles import User
from engine.cluster import supervisor, worker
from engine.config import JOIN, SimulationConfig, with_noise
from engine.embeddings import features
from engine.errors import BudgetExceeded, CorpusError, EpsilonError, InvalidConfig, NotAllowed, RunNotFound
from engine.records import Run, RunState
from engine.reports.privacy_report.assumptions import others_text
from engine.service import Application, access_service, audit_service, budget_service, corpus_import, report_evidence
from engine.service.reproducibility import repeat_id
from engine.settings import REPOSITORY
from engine.store import audits, paths
from engine.training.model import Model
from tests.engine.access.test_roles import text
from tests.engine.factories import SMALL, provenance, record
from tests.engine.store.test_audits import AUDIT

COLUMNS = b"# entity types: LOC PER\n" + b"".join(
    b"Rosa B-PER\nlives O\nin O\nUlm B-LOC\n. O\n\nShe O\nsings O\n%d O\n\n" % n for n in range(20)
)
OTHERS = COLUMNS.replace(b"Ulm", b"Bonn")
ROLES = 'admin = ["ada"]\nrunner = ["rita", "rudi"]\nviewer = ["vera"]\nclaim = "sub"'


@pytest.fixture
def app(trained_settings, tmp_path, monkeypatch):
    """Return a shared dashboard without workers: submitted runs stay queued."""
    file = tmp_path / "access.toml"
    file.write_text(text(ROLES, "[limits]\nruns = 3\nuploads = 2"))
    file.chmod(0o600)
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    opened = Application(replace(trained_settings, access=file))
    yield opened
    opened.close()


def user_named(app: Application, name: str) -> User:
    return roles.read(app.settings.access).person({"sub": name})


@pytest.fixture
def of(app) -> Callable[[str], Application]:
    made: dict[str, Application] = {}
    return lambda name: made.setdefault(name, app.for_user(user_named(app, name)))


def done(app: Application, config: SimulationConfig = SMALL) -> str:
    """Submit and finish a run with a model, as a worker would."""
    identity = app.runs.submit(config).run_id
    store = app._context.all_users_store
    claim = store.claim(identity, "here")
    for number in range(2):
        store.append(claim, record(number, of=2))
    store.finish(claim, provenance(app.queries.corpus(config).checksum))
    path = app.settings.artefacts.local_path(paths.model_name(identity))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"a tagger")
    return identity


def upload(app: Application, title: str = "news.conll", content: bytes = COLUMNS) -> str:
    return app.corpora.add(title, content)[0]


CONFIG = replace(SMALL, seed=77)
CHANGES: dict[str, tuple[Any, ...]] = {
    "access.share": ("run", "run"),
    "access.delete_before": (0.0, "a log"),
    "audits.charge": (SMALL,),
    "audits.save": (),
    "audits.submit": (),
    "budgets.set_total": ("my-news", 3.0),
    "corpora.add": ("x.conll", COLUMNS),
    "corpora.inspect": ("x.conll", COLUMNS),
    "corpora.delete": ("my-news",),
    "corpora.download": ("wnut17",),
    "corpora.rename": ("my-news", "other"),
    "models.delete": (["run"],),
    "runs.cancel": ("run",),
    "runs.delete": ("run",),
    "runs.publish": ("run",),
    "runs.resubmit": (CONFIG,),
    "runs.submit": (CONFIG,),
    "runs.submit_all": ([CONFIG],),
    "runs.submit_audit": (),
    "runs.write_note": ("run", "mine"),
}
READS = {
    "access": {
        "activity",
        "audit_log",
        "belongings",
        "corpora_by_user",
        "authorize",
        "has_signed_out",
        "note_sign_in",
        "note_sign_out",
    }
    | {"number_before", "require_owner", "shared", "subjects_since"},
    "audits": {"all", "seconds", "status"},
    "budgets": {"affordable_runs", "charge_requests", "check", "exists", "preview", "state", "unprotected_accesses"},
    "corpora": {"all", "checksum", "language_models", "overlap", "own", "shared_sentences", "statistics"}
    | {"train_sentences", "training_sentences", "vectors"},
    "models": {"exists", "load", "sizes"},
    "previews": {"holdings", "longest_document", "noise_multiplier_for", "person_epsilon", "plan", "preview"}
    | {"scenario"},
    "queries": {"checksums", "corpus", "count", "find", "find_all", "forget", "get", "has_active", "identity"}
    | {"has_read_published"}
    | {
        "measurements",
        "notes",
        "only_visible",
        "overlap",
        "overview",
        "problems",
        "published",
        "published_runs",
        "recent",
        "refresh",
    }
    | {"repeated", "require_visible", "rounds", "runs_by_noise", "runs_of", "runs_of_all_users", "seeds", "status"}
    | {"studies", "visible"},
    "runs": {"resume"},
    "tagging": {"available_models", "tag"},
}
"""Read-only methods by service, and methods that change only what the user charged or logged."""
UNCHECKED = {"budgets.charge", "models.remove"}
"""Methods that other services call after a permission check."""


def test_every_service_method_is_classified(app):
    """Every new method belongs to one of the tables above, and the tests below exercise it."""
    public = {
        f"{service}.{name}"
        for service in READS
        for name, _ in inspect.getmembers(type(getattr(app, service)))
        if not name.startswith("_")
    }
    reads = {f"{service}.{name}" for service, names in READS.items() for name in names}
    assert public == reads | CHANGES.keys() | UNCHECKED
    assert not reads & CHANGES.keys()


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_viewer_cannot_change_anything(name, app, of):
    run = done(of("rita"))
    of("rita").access.share("run", run, shared=True)
    corpus = upload(of("rita"))
    of("rita").access.share("corpus", corpus, shared=True)
    before = app.queries.overview()
    given = [run if each == "run" else [run] if each == ["run"] else each for each in CHANGES[name]]
    whole = of("vera").queries.get(run)
    if name == "runs.submit_audit":
        given = [audit_service.audit_id(run), whole, None]
    if name == "audits.submit":
        given = [whole]
    if name == "audits.save":
        given = [type("Audit", (), {"run_id": run, "config": SMALL})()]
    if name == "access.share":
        given = ["run", run]
    more = {"access.share": {"shared": False}, "audits.charge": {"unprotected": False}}.get(name, {})
    with pytest.raises(NotAllowed, match=r"^vera is a viewer .*role (runner|admin)\b"):
        operator.attrgetter(name)(of("vera"))(*given, **more)
    assert app.queries.overview() == before
    assert [info.name for info in of("vera").corpora.all() if info.where == "your files"] == [corpus]
    assert app.access.audit_log()[0].person == "vera"
    assert app.access.audit_log()[0].refused


@dataclass(frozen=True)
class Subjects:
    """What a method is asked about.

    Attributes:
        run: Identity of a run on the corpus.
        corpus: Name of an uploaded corpus.
        whole: The run.
        public: A run on a public corpus.
    """

    run: str
    corpus: str
    whole: Run
    public: Run

    @property
    def on_corpus(self) -> SimulationConfig:
        return replace(SMALL, corpus=self.corpus, data_fraction=1.0)


ATTACKS: dict[str, list[Callable[[Application, Subjects], object]]] = {
    "access.activity": [lambda app, of: app.access.activity(0.0)],
    "access.audit_log": [lambda app, of: app.access.audit_log()],
    "access.belongings": [lambda app, of: app.access.belongings("rita")],
    "access.corpora_by_user": [lambda app, of: app.access.corpora_by_user()],
    "access.delete_before": [lambda app, of: app.access.delete_before(time.time(), of.run)],
    "access.number_before": [lambda app, of: app.access.number_before(time.time())],
    "access.require_owner": [
        lambda app, of: app.access.require_owner("run", of.run),
        lambda app, of: app.access.require_owner("corpus", of.corpus),
    ],
    "access.share": [
        lambda app, of: app.access.share("run", of.run, shared=True),
        lambda app, of: app.access.share("corpus", of.corpus, shared=True),
    ],
    "access.subjects_since": [lambda app, of: app.access.subjects_since(0.0)],
    "access.shared": [lambda app, of: (app.access.shared("run"), app.access.shared("corpus"))],
    "audits.all": [lambda app, of: app.audits.all().keys()],
    "audits.charge": [lambda app, of: app.audits.charge(of.on_corpus, unprotected=True)],
    "audits.save": [lambda app, of: app.audits.save(replace(AUDIT, run_id=of.run, machine="an attacker"))],
    "audits.seconds": [lambda app, of: app.audits.seconds(of.on_corpus)],
    "audits.status": [lambda app, of: app.audits.status(of.run)],
    "audits.submit": [
        lambda app, of: app.audits.submit(of.whole, unprotected=True),
        lambda app, of: app.audits.submit(of.public, unprotected=True),
    ],
    "budgets.charge_requests": [
        lambda app, of: app.budgets.charge_requests(of.run, of.run, of.on_corpus, app.previews.plan(of.on_corpus))
    ],
    "budgets.preview": [lambda app, of: app.budgets.preview(of.on_corpus)],
    "budgets.set_total": [lambda app, of: app.budgets.set_total(of.corpus, 1.0)],
    "budgets.state": [lambda app, of: app.budgets.state(of.corpus)],
    "budgets.unprotected_accesses": [
        lambda app, of: app.budgets.unprotected_accesses(of.run, of.on_corpus, "x", unprotected=True)
    ],
    "corpora.all": [lambda app, of: app.corpora.all()],
    "corpora.checksum": [lambda app, of: app.corpora.checksum(of.corpus)],
    "corpora.delete": [lambda app, of: app.corpora.delete(of.corpus)],
    "corpora.overlap": [lambda app, of: app.corpora.overlap(of.corpus)],
    "corpora.own": [lambda app, of: app.corpora.own()],
    "corpora.rename": [lambda app, of: app.corpora.rename(of.corpus, "mine")],
    "corpora.shared_sentences": [lambda app, of: app.corpora.shared_sentences(of.corpus)],
    "corpora.statistics": [lambda app, of: app.corpora.statistics(of.corpus)],
    "corpora.train_sentences": [lambda app, of: app.corpora.train_sentences(of.corpus)],
    "corpora.training_sentences": [lambda app, of: app.corpora.training_sentences(of.corpus, [0])],
    "models.delete": [lambda app, of: app.models.delete([of.run]), lambda app, of: app.models.delete()],
    "models.exists": [lambda app, of: app.models.exists(of.run)],
    "models.load": [lambda app, of: app.models.load(of.run)],
    "models.sizes": [lambda app, of: app.models.sizes()],
    "previews.holdings": [lambda app, of: app.previews.holdings(of.on_corpus)],
    "previews.longest_document": [lambda app, of: app.previews.longest_document(of.corpus)],
    "previews.noise_multiplier_for": [lambda app, of: app.previews.noise_multiplier_for(of.on_corpus, 1.0)],
    "previews.person_epsilon": [lambda app, of: app.previews.person_epsilon(of.on_corpus, 2)],
    "previews.plan": [lambda app, of: app.previews.plan(of.on_corpus)],
    "previews.preview": [lambda app, of: app.previews.preview(of.on_corpus)],
    "previews.scenario": [lambda app, of: app.previews.scenario(of.run)],
    "queries.checksums": [lambda app, of: app.queries.checksums()],
    "queries.corpus": [lambda app, of: app.queries.corpus(of.on_corpus).checksum],
    "queries.find": [lambda app, of: app.queries.find(of.on_corpus), lambda app, of: app.queries.find(of.whole.config)],
    "queries.find_all": [
        lambda app, of: list(app.queries.find_all([of.on_corpus]).values()),
        lambda app, of: list(app.queries.find_all([of.whole.config]).values()),
    ],
    "queries.get": [lambda app, of: app.queries.get(of.run)],
    "queries.has_active": [lambda app, of: app.queries.has_active()],
    "queries.identity": [lambda app, of: app.queries.identity(of.on_corpus)],
    "queries.notes": [lambda app, of: app.queries.notes()],
    "queries.only_visible": [lambda app, of: app.queries.only_visible({of.run: 1})],
    "queries.overlap": [lambda app, of: app.queries.overlap(of.on_corpus)],
    "queries.overview": [lambda app, of: app.queries.overview(repeats=True)],
    "queries.problems": [lambda app, of: app.queries.problems()],
    "queries.recent": [lambda app, of: app.queries.recent()],
    "queries.refresh": [lambda app, of: app.queries.refresh(of.whole)],
    "queries.repeated": [lambda app, of: app.queries.repeated([of.whole])],
    "queries.require_visible": [lambda app, of: app.queries.require_visible(of.run)],
    "queries.rounds": [lambda app, of: app.queries.rounds(of.run)],
    "queries.runs_by_noise": [lambda app, of: app.queries.runs_by_noise(of.whole.config)],
    "queries.runs_of": [lambda app, of: app.queries.runs_of(), lambda app, of: app.queries.runs_of(of.corpus)],
    "queries.seeds": [lambda app, of: app.queries.seeds(of.whole.config)],
    "queries.status": [lambda app, of: app.queries.status(of.run)],
    "queries.visible": [lambda app, of: app.queries.visible([of.run])],
    "runs.cancel": [lambda app, of: app.runs.cancel(of.run)],
    "runs.delete": [lambda app, of: app.runs.delete(of.run)],
    "runs.publish": [lambda app, of: app.runs.publish(of.run, model=True)],
    "runs.resubmit": [lambda app, of: app.runs.resubmit(of.on_corpus, unprotected=True)],
    "runs.submit": [lambda app, of: app.runs.submit(of.on_corpus, unprotected=True)],
    "runs.submit_all": [lambda app, of: app.runs.submit_all([of.on_corpus], again=True, unprotected=True)],
    "runs.submit_audit": [
        lambda app, of: app.runs.submit_audit(audit_service.audit_id(of.run), of.whole, None, unprotected=True)
    ],
    "runs.write_note": [lambda app, of: app.runs.write_note(of.run, "an attacker")],
    "tagging.available_models": [lambda app, of: app.tagging.available_models()],
    "tagging.tag": [lambda app, of: app.tagging.tag("Rosa lives in Ulm.", [of.run])],
}
"""How each method could reach the run or the corpus of another user."""
HARMLESS = {
    "access.authorize": "checks only the role of the user",
    "access.has_signed_out": "about the user",
    "access.note_sign_in": "about the user",
    "access.note_sign_out": "about the user",
    "budgets.affordable_runs": "computes with the state that is given",
    "budgets.check": "checks the requests that are given",
    "budgets.exists": "whether there is any budget",
    "corpora.add": "saves a new corpus: TestCorpora::test_equal_titles_get_distinct_names",
    "corpora.download": "public corpora",
    "corpora.inspect": "reads the file that is given",
    "corpora.language_models": "of the installation",
    "corpora.vectors": "of the installation",
    "queries.count": "a number, of the visible runs",
    "queries.forget": "drops cached values",
    "queries.has_read_published": "published",
    "queries.measurements": "published",
    "queries.published": "published",
    "queries.published_runs": "published",
    "queries.studies": "published, for all but the operator and admins",
    "runs.resume": "starts workers",
}
"""Methods without a run or corpus, with the reason."""
INTERNAL = {"budgets.charge", "models.remove", "queries.runs_of_all_users"}
"""Methods of other services and of the command line, which no page may call."""


def test_every_service_method_is_attacked_or_harmless(app):
    public = {name for service in READS for name in _methods(app, service)}
    assert public == ATTACKS.keys() | HARMLESS.keys() | INTERNAL
    assert len(public) == len(ATTACKS) + len(HARMLESS) + len(INTERNAL)


def test_pages_call_no_internal_method():
    texts = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "pages").rglob("*.py")]
    assert len(texts) > 50
    for name in INTERNAL:
        assert not [text for text in texts if f"app.{name}(" in text], name


def _methods(app: Application, service: str) -> list[str]:
    members = inspect.getmembers(type(getattr(app, service)))
    return [f"{service}.{name}" for name, _ in members if not name.startswith("_")]


def _answer(attack: Callable[[Application, Subjects], object], app: Application, subjects: Subjects) -> str:
    """Return the answer to an attack, in which the subjects have no names of their own."""
    try:
        found = repr(attack(app, subjects))
    except (CorpusError, NotAllowed, RunNotFound, InvalidConfig) as error:
        found = f"{type(error).__name__}: {error}"
    for name, word in (
        (subjects.run, "RUN"),
        (subjects.public.run_id, "PUBLIC"),
        (subjects.corpus, "CORPUS"),
        (audit_service.audit_id(subjects.run), "AUDIT"),
    ):
        found = found.replace(name, word)
    return found


@pytest.fixture
def hers(app, of) -> Subjects:
    """Return a run and a corpus of rita, with a note, a model, an audit and a budget."""
    rita = of("rita")
    corpus = upload(rita)
    run = done(rita, replace(SMALL, corpus=corpus, data_fraction=1.0))
    rita.runs.write_note(run, "hers")
    audits.write(replace(AUDIT, run_id=run), app.settings.artefacts)
    rita.budgets.set_total(corpus, 1000.0)
    return Subjects(run, corpus, rita.queries.get(run), rita.queries.get(done(rita)))


def _state(app: Application, hers: Subjects) -> list[object]:
    """Return all that an attack could change."""
    return [
        app.queries.overview(repeats=True),
        app.corpora.statistics(hers.corpus),
        app.budgets.state(hers.corpus).totals,
        app.budgets.state(hers.corpus).looks,
        app.audits.all()[hers.run],
        app.models.sizes(),
        app.access.shared("run"),
        app.access.shared("corpus"),
    ]


@pytest.mark.parametrize("name", ["vera", "rudi"])
def test_other_users_things_are_answered_as_if_they_did_not_exist(name, app, of, hers):
    """A viewer and a runner get for each method the answer that they get for names that do not exist."""
    other, before = of(name), _state(app, hers)
    without = replace(hers.whole, run_id="0" * 16, config=replace(CONFIG, corpus="my-absent"))
    absent = Subjects("0" * 16, "my-absent", without, replace(hers.public, run_id="1" * 16))
    for method, attacks in ATTACKS.items():
        for number, attack in enumerate(attacks):
            told, expected = _answer(attack, other, hers), _answer(attack, other, absent)
            assert told == expected, f"{method}, {number}"
    assert _state(app, hers) == before
    assert any(entry.refused for entry in app.access.audit_log() if entry.person == name)


def test_admins_and_owners_reach_them(of, hers):
    """The attacks fail for their user, not for their arguments."""
    for name in ("ada", "rita"):
        assert of(name).queries.get(hers.run).run_id == hers.run
        for method in ("previews.plan", "corpora.statistics", "queries.status", "budgets.state", "models.sizes"):
            for attack in ATTACKS[method]:
                assert "Error" not in _answer(attack, of(name), hers), method


def test_lost_role_is_effective_at_once(app, of):
    rita = of("rita")
    rita.runs.submit(SMALL)
    app.settings.access.write_text(text('admin = ["ada"]\nclaim = "sub"'))
    with pytest.raises(NotAllowed, match="rita has no role"):
        rita.runs.submit(CONFIG)
    assert len(app.queries.runs_of()) == 1


@dataclass(frozen=True)
class SavedModel:
    """A saved model that identifies its run."""

    run_id: str


class TestRuns:
    def test_other_users_cannot_access_them(self, app, of):
        rita, rudi = of("rita"), of("rudi")
        run = done(rita)
        rita.runs.write_note(run, "mine")
        assert rita.queries.find(SMALL).run_id == run
        assert rita.models.sizes() == {run: 8}
        assert rudi.queries.find(SMALL) is None
        for ask in (
            rudi.queries.get,
            rudi.queries.status,
            rudi.queries.rounds,
            rudi.models.load,
            rudi.models.exists,
            rudi.previews.scenario,
        ):
            with pytest.raises(RunNotFound):
                ask(run)
        for change in (rudi.runs.cancel, rudi.runs.delete):
            with pytest.raises(RunNotFound):
                change(run)
        with pytest.raises(NotAllowed):
            rudi.models.delete([run])
        with pytest.raises(RunNotFound):
            rudi.tagging.tag("Rosa lives in Ulm.", [run])
        with pytest.raises(NotAllowed):
            rudi.access.share("run", run, shared=True)
        assert [each.run.run_id for each in rudi.queries.overview(repeats=True) if not each.run.published] == []
        assert not any(
            each.run_id == run
            for each in (*rudi.queries.recent(), *rudi.queries.seeds(SMALL), *rudi.queries.runs_by_noise(SMALL))
        )
        assert rudi.models.sizes() == {}
        assert all(offer.run.run_id != run for offer in rudi.tagging.available_models())
        assert rudi.queries.visible({run}) == set()
        assert of("ada").queries.get(run) == rita.queries.get(run) == app.queries.get(run)
        assert rita.models.sizes() == {run: 8}

    def test_reports_of_users_do_not_claim_to_count_all_runs(self, of):
        run = done(of("rita"))
        done(of("rudi"), CONFIG)
        for name, number, told in (("rita", 0, True), ("ada", 1, False)):
            evidence = report_evidence.evidence(of(name), run)
            assert evidence.others.private + evidence.others.plain == number
            assert ("cannot see, are not counted" in others_text(evidence)) == told
            assert "This installation has no other" not in others_text(evidence)

    def test_shared_model_can_be_loaded(self, app, of, monkeypatch):
        run = done(of("rita"))
        of("rita").access.share("run", run, shared=True)
        loaded = []
        monkeypatch.setattr(Model, "load", classmethod(lambda cls, path: loaded.append(path) or SavedModel(run)))
        assert of("vera").models.load(run) == SavedModel(run)
        assert [path.name for path in loaded] == [paths.model_name(run).rpartition("/")[2]]
        assert of("vera").models.sizes() == {run: 8}
        assert of("vera").queries.find(SMALL).run_id == run
        of("rita").access.share("run", run, shared=False)
        assert of("vera").models.sizes() == {}

    def test_equal_submission_shares_one_computation(self, app, of):
        run = done(of("rita"))
        assert of("rudi").runs.submit(SMALL).state == RunState.DONE
        assert of("rudi").queries.get(run) == of("rita").queries.get(run)
        of("rita").runs.delete(run)
        assert of("rudi").models.sizes() == {run: 8}  # his access remains
        of("rudi").runs.delete(run)
        assert app.models.sizes() == {}

    def test_runs_and_uploads_per_user_are_limited(self, of):
        rita = of("rita")
        rita.runs.submit_all([replace(SMALL, seed=seed) for seed in range(3)])
        with pytest.raises(NotAllowed, match="rita has 3 queued or running runs"):
            rita.runs.submit(replace(SMALL, seed=3))
        of("rudi").runs.submit(replace(SMALL, seed=3))
        upload(rita, "a.conll")
        upload(rita, "b.conll")
        for name in rita.corpora.own():
            rita.access.share("corpus", name, shared=True)
        upload(of("rudi"), "c.conll")  # corpora shared by others do not count as his
        assert len(of("rudi").corpora.own()) == 1
        with pytest.raises(NotAllowed, match=r"rita has 2 corpora, .*delete one"):
            upload(rita, "c.conll")

    @pytest.mark.repeats(area="processes")
    def test_concurrent_uploads_respect_the_limit(self, app, of, monkeypatch):
        rita, meet = of("rita"), threading.Barrier(2)
        upload(rita, "first.conll", OTHERS)
        read = corpus_import.read

        def read_together(path, shown, user, *given, **options):
            found = read(path, shown, f"{user} {shown}", *given, **options)  # a user's files are read one by one
            meet.wait(60)  # both passed the check before either was saved
            return found

        monkeypatch.setattr(corpus_import, "read", read_together)

        def upload_or_error(title: str) -> str:
            try:
                return upload(rita, f"{title}.conll", COLUMNS + f"{title} O\n\n".encode())
            except NotAllowed as refused:
                return str(refused)

        with ThreadPoolExecutor(2) as both:
            name, refusal = sorted(both.map(upload_or_error, ["second", "third"]))
        assert refusal.startswith("rita has 2 corpora, ")
        assert rita.corpora.own() == {"my-first", name}
        home = app.settings.home
        assert sorted(path.stem for path in (home / "corpora").iterdir()) == ["my-first", name]
        worked_out = {rita.queries.corpus(replace(SMALL, corpus=each)).checksum[:16] for each in rita.corpora.own()}
        for folder in ("layouts", "overlaps"):
            assert {path.name[:16] for path in (home / folder).iterdir()} == worked_out, folder

    def test_rerun_belongs_to_its_submitter(self, of):
        run = done(of("rita"))
        of("rita").access.share("run", run, shared=True)
        again = of("rudi").runs.resubmit(SMALL).run_id
        assert again == repeat_id(run)
        with pytest.raises(RunNotFound):
            of("rita").queries.status(again)


class TestCorpora:
    def test_other_users_cannot_access_them(self, app, of):
        name = upload(of("rita"))
        config = replace(SMALL, corpus=name)
        rudi = of("rudi")
        assert name not in [info.name for info in rudi.corpora.all()]
        joined = f"{name}{JOIN}synthetic"
        by_path = str(app.settings.home / "corpora" / f"{name}.conll")
        asked: list[Callable[[], object]] = [
            lambda: rudi.runs.submit(config),
            lambda: rudi.runs.submit(replace(SMALL, corpus=f"{name}@1")),
            lambda: rudi.runs.submit(replace(SMALL, corpus=by_path)),
            lambda: rudi.previews.plan(config),
            lambda: rudi.queries.identity(config),
            lambda: rudi.corpora.checksum(name),
            lambda: rudi.corpora.checksum(by_path),
            lambda: rudi.corpora.train_sentences(name),
            lambda: rudi.corpora.train_sentences(by_path),
            lambda: rudi.corpora.train_sentences(joined),
            lambda: rudi.corpora.shared_sentences(joined),
            lambda: rudi.corpora.training_sentences(name, [0]),
            lambda: rudi.corpora.training_sentences(by_path, [0]),
            lambda: rudi.corpora.training_sentences("/etc/passwd", [0]),
            lambda: rudi.corpora.statistics(name),
            lambda: rudi.budgets.state(name),
            lambda: rudi.budgets.set_total(name, 1.0),
        ]
        for ask in asked:
            with pytest.raises(CorpusError):
                ask()
        assert rudi.corpora.overlap(name) is None
        assert rudi.previews.longest_document(name) is None
        for change in (lambda: rudi.corpora.delete(name), lambda: rudi.corpora.rename(name, "mine")):
            with pytest.raises(NotAllowed):
                change()
        assert rudi.queries.find(config) is None
        assert of("rita").corpora.train_sentences(name) == app.corpora.train_sentences(name) > 0
        assert of("rita").corpora.training_sentences(name, [0])[0].tokens

    @pytest.mark.repeats(area="processes")
    def test_equal_titles_get_distinct_names(self, of):
        rita, rudi = of("rita"), of("rudi")
        hers, his = upload(rita), upload(rudi, content=OTHERS)
        assert hers != his
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("train.conll", OTHERS)
            archive.writestr("test.conll", OTHERS)
        zipped = upload(rudi, "news.zip", packed.getvalue())
        assert len({hers, his, zipped}) == 3
        with pytest.raises(CorpusError, match=r"name='news',.* unused name"):
            rudi.corpora.rename(his, "news")
        assert rita.queries.corpus(replace(SMALL, corpus=hers)).load().train[0].tokens[3] == "Ulm"

    def test_equal_content_is_stored_once_until_last_owner_deletes_it(self, app, of):
        rita, rudi = of("rita"), of("rudi")
        name = upload(rita)
        assert upload(rudi) == name
        rita.corpora.delete(name)
        with pytest.raises(CorpusError):
            rita.corpora.train_sentences(name)
        assert rudi.corpora.train_sentences(name) > 0
        rudi.corpora.delete(name)
        with pytest.raises(CorpusError):
            app.corpora.train_sentences(name)

    def test_runs_on_shared_corpus_belong_to_their_submitter(self, app, of):
        rita, rudi = of("rita"), of("rudi")
        name = upload(rita)
        rita.access.share("corpus", name, shared=True)
        config = replace(SMALL, corpus=name, data_fraction=1.0)
        run = rudi.runs.submit(config).run_id
        with pytest.raises(RunNotFound):
            rita.queries.status(run)
        with pytest.raises(InvalidConfig, match=r"\bhas 1 runs\b"):
            rita.corpora.rename(name, "other")
        with pytest.raises(NotAllowed, match="belongs to another user"):
            rudi.corpora.delete(name)
        rita.corpora.delete(name)
        assert rudi.queries.status(run).state == RunState.QUEUED
        assert app.access.audit_log()[0].action == "delete corpus"

    def test_features_of_sentences_are_not_copied_between_users(self, app, of, monkeypatch, tmp_path):
        asked: list[int] = []

        def compute_features(wanted, *_):
            asked.extend(map(len, wanted.values()))
            return {name: np.zeros((sum(map(len, each)), 384), np.uint16) for name, each in wanted.items()}

        def run(person: str, content: bytes) -> str:
            name = upload(of(person), f"{len(asked)}.conll", content)
            config = replace(SMALL, corpus=name, data_fraction=1.0, features="layer")
            worker.compute(of(person).runs.submit(config).run_id, app.settings, "here")
            return name

        (app.settings.home / "encoded").unlink()  # a link to the folder that tests share
        monkeypatch.setattr(features, "_in_context", compute_features)
        run("rita", COLUMNS)
        run("rudi", COLUMNS + b"New O\n\n")
        hers = run("rita", COLUMNS + b"New O\n\nOld O\n\n")
        assert asked == [21, 22, 2]
        checksum = of("rita").corpora.checksum(hers)[:16]
        assert len(list((app.settings.home / "encoded").glob(f"{checksum}*"))) == 3
        of("rita").corpora.delete(hers)
        assert list((app.settings.home / "encoded").glob(f"{checksum}*")) == []

    def test_admin_can_delete_corpora_of_other_users(self, app, of):
        name = upload(of("rita"))
        run = of("rita").runs.submit(replace(SMALL, corpus=name, data_fraction=1.0)).run_id
        of("ada").corpora.delete(name)
        for who in (app, of("rita")):
            with pytest.raises(RunNotFound):
                who.queries.status(run)
        assert upload(of("rudi"), content=OTHERS) == name  # the name is free, and her access does not carry over
        with pytest.raises(CorpusError):
            of("rita").corpora.train_sentences(name)


class TestBudgets:
    def test_only_admin_sets_budget_of_public_corpus(self, of):
        with pytest.raises(NotAllowed, match=r"rita .*role admin\b"):
            of("rita").budgets.set_total("synthetic", 3.0)
        of("ada").budgets.set_total("synthetic", 3.0)
        name = upload(of("rita"))
        assert of("rita").budgets.set_total(name, 3.0).budget.epsilon == 3.0

    def test_unprotected_access_needs_the_role_that_sets_the_budget(self, of):
        plain = with_noise(SMALL, 0.0)
        of("ada").budgets.set_total("synthetic", 10.0)
        with pytest.raises(NotAllowed, match=r"rita is a runner .*admin: access without protection"):
            of("rita").runs.submit(plain, unprotected=True)
        assert of("rita").budgets.state("synthetic").holds
        of("rita").runs.submit(SMALL, unprotected=True)
        of("ada").runs.submit(plain, unprotected=True)
        theirs = of("rita").budgets.state("synthetic")
        assert [each.what for each in theirs.looks] == [budget_service._OTHERS]
        assert not theirs.holds
        name = upload(of("rita"))
        of("rita").budgets.set_total(name, 1000.0)
        own = replace(plain, corpus=name, data_fraction=1.0)
        of("rita").access.share("corpus", name, shared=True)
        with pytest.raises(NotAllowed):
            of("rudi").runs.submit(own, unprotected=True)
        of("rita").runs.submit(own, unprotected=True)

    def test_private_corpora_of_others_are_not_compared(self, of):
        """A user would otherwise learn from uploads which sentences another user has."""
        of("rita").budgets.set_total(upload(of("rita")), 1000.0)
        more = COLUMNS + b"More O\n\n"
        name = upload(of("rudi"), "other.conll", more)
        assert of("rudi").budgets.accounts.sharing(name) == []
        of("rita").access.share("corpus", "my-news", shared=True)
        assert [account.name for account in of("rudi").budgets.accounts.sharing(name)] == ["my-news"]

    def test_budget_counts_all_runs_but_names_only_own(self, of):
        of("ada").budgets.set_total("synthetic", 10.0)
        of("rita").runs.submit(SMALL)
        hers, his = (of(name).budgets.state("synthetic") for name in ("rita", "rudi"))
        assert hers.share == his.share > 0
        assert [each.what for each in his.bookings] == [budget_service._OTHERS]
        assert [each.run for each in his.bookings] == [""]
        assert "σ = 1" in hers.bookings[0].what
        with pytest.raises(BudgetExceeded):
            of("rudi").runs.submit(replace(SMALL, privacy=replace(SMALL.privacy, noise_multiplier=0.3)))

    @pytest.mark.repeats(area="processes")
    def test_new_budget_counts_earlier_runs_of_others(self, of):
        of("rita").runs.submit(SMALL)
        (booking,) = of("ada").budgets.set_total("synthetic", 10.0).bookings
        assert "before there was" in booking.what
        his = of("rudi").budgets.state("synthetic")
        assert [(each.run, each.what) for each in his.bookings] == [("", budget_service._OTHERS)]
        name = upload(of("rita"))
        of("rita").runs.submit(replace(SMALL, corpus=name, data_fraction=1.0))
        assert upload(of("rudi")) == name
        (booking,) = of("rudi").budgets.set_total(name, 1000.0).bookings
        assert booking.what == budget_service._OTHERS


class TestSignOut:
    def test_ends_the_sessions_of_this_sign_in_and_of_earlier_ones(self, app, of):
        rita, elsewhere = of("rita").access, app.for_user(user_named(app, "rita")).access
        assert not rita.has_signed_out(100.0)
        rita.note_sign_out(100.0)
        for access in (rita, elsewhere):
            assert [access.has_signed_out(when) for when in (99.0, 100.0, 100.5)] == [True, True, False]
        assert not of("rudi").access.has_signed_out(100.0)
        rita.note_sign_out(50.0)  # an old session, in another browser
        assert rita.has_signed_out(100.0)

    def test_on_another_server_counts_after_seconds(self, app, of, monkeypatch):
        elsewhere = app.for_user(user_named(app, "rita")).access
        assert not elsewhere.has_signed_out(100.0)
        of("rita").access.note_sign_out(100.0)
        monkeypatch.setattr(access_service, "_KEPT_SECONDS", 0.0)
        assert elsewhere.has_signed_out(100.0)


class TestAuditLog:
    def test_lists_user_action_and_refusal(self, app, of):
        of("rita").access.note_sign_in()
        run = of("rita").runs.submit(SMALL).run_id
        of("rita").runs.cancel(run)
        of("vera").access.authorize("export", "runs.csv", roles.Role.VIEWER)
        with pytest.raises(EpsilonError):
            of("vera").runs.submit(SMALL)
        app.runs.delete(run)
        assert [
            (each.person.partition(":")[0], each.action, each.subject, each.refused) for each in app.access.audit_log()
        ] == [
            ("shell", "delete", run, False),
            ("vera", "run", run, True),
            ("vera", "export", "runs.csv", False),
            ("rita", "cancel", run, False),
            ("rita", "run", run, False),
            ("rita", "sign in", "", False),
        ]
        assert of("ada").access.audit_log() == app.access.audit_log()
        for name in ("rita", "vera"):
            with pytest.raises(NotAllowed, match=r"\blog\b.*\badmins\b"):
                of(name).access.audit_log()

    def test_is_empty_without_sign_in(self, trained_settings, monkeypatch):
        monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
        alone = Application(trained_settings)
        alone.runs.submit(SMALL)
        assert alone.access.audit_log() == []
        assert alone.queries.runs_of()[0].owner is None
        alone.close()
