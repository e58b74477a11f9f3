"""Background audits of finished runs, stored separately from results."""

from dataclasses import replace

import pytest

from engine.cluster import supervisor
from engine.cluster.worker import compute
from engine.config import FederationConfig, PrivacyConfig, SimulationConfig
from engine.errors import BudgetExceeded, InvalidConfig
from engine.privacy.audit import applicability
from engine.records import RunKind, RunState
from engine.service import Application, audit_service, budget_service
from tests.engine.service.test_run_service import SMALL


@pytest.fixture
def app(trained_settings, monkeypatch):
    """Return an application whose runs wait until a test computes them, with small audits."""
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    monkeypatch.setattr(applicability, "CANARIES", 40)
    monkeypatch.setattr(applicability, "WHITE_BOX_CANARIES", 60)
    monkeypatch.setattr(applicability, "REFERENCES", 3)
    made = Application(trained_settings)
    yield made
    made.close()


def done(app: Application, config: SimulationConfig):
    identity = app.runs.submit(config).run_id
    compute(identity, app.settings, "here")
    return app.queries.get(identity)


@pytest.mark.repeats(area="processes")
def test_audit_leaves_the_run_unchanged(app):
    with pytest.raises(InvalidConfig, match=r"^run=\w+ is .*\bfinished\b"):
        app.audits.submit(app.queries.get(app.runs.submit(SMALL).run_id))
    run = done(app, SMALL)
    assert app.audits.status(run.run_id) is None
    queued = app.audits.submit(run)
    assert (queued.state, queued.run_id) == (RunState.QUEUED, audit_service.audit_id(run.run_id))
    compute(queued.run_id, app.settings, "here")
    assert app.audits.status(run.run_id).state == RunState.DONE
    found = app.audits.all()[run.run_id]
    assert (found.white.canaries, found.black.canaries, found.membership.references) == (60, 40, 3)
    assert found.command == f"python -m engine audit --run {run.run_id} --shadow-models 3"
    assert app.queries.get(run.run_id) == run
    assert [each.run.run_id for each in app.queries.overview()] == [run.run_id]
    kinds = {each.run.kind: each.run for each in app.queries.overview(repeats=True)}
    assert kinds[RunKind.AUDIT].parent == run.run_id
    assert kinds[RunKind.AUDIT].records == ()
    assert app.queries.seeds(SMALL) == [run]
    assert app.queries.runs_by_noise(SMALL) == [run]
    assert app.audits.submit(run).state == RunState.QUEUED, "it can be measured again"


def test_cancelled_audit_leaves_no_result(app):
    run = done(app, SMALL)
    identity = app.audits.submit(run).run_id
    app.runs.cancel(identity)
    compute(identity, app.settings, "here")
    assert app.audits.status(run.run_id).state == RunState.CANCELLED
    assert app.audits.all() == {}


@pytest.mark.repeats(area="processes")
def test_progress_covers_the_whole_audit(app, monkeypatch):
    from engine.experiments import audits

    progress: list[tuple[str, float]] = []
    audits.audit(SMALL, app.settings, 40, 3, command="", tell=lambda *now: progress.append(now))
    shares = [share for _, share in progress]
    assert shares == sorted(shares)
    assert shares[0] >= 0
    assert 0.9 < shares[-1] <= 1
    assert len({stage for stage, _ in progress}) > 4


def test_inapplicable_attacks_are_known_in_advance(app):
    several = replace(SMALL, federation=FederationConfig(clients=2))
    assert applicability.usual(several) == (0, 3)
    assert applicability.trainings(0, 3) == 2.0
    assert applicability.trainings(*applicability.usual(SMALL)) == 4.0
    layered = replace(SMALL, privacy=PrivacyConfig(noise_multiplier=1.0, clipping="per-layer"))
    assert applicability.usual(layered) == (0, 3)


@pytest.mark.repeats(area="processes")
def test_audit_of_a_corpus_with_a_budget_must_be_accepted(app):
    run = done(app, SMALL)
    app.budgets.set_total("synthetic", 50.0)
    with pytest.raises(BudgetExceeded, match="--unprotected"):
        app.audits.submit(run)
    assert app.audits.status(run.run_id) is None
    assert app.budgets.state("synthetic").holds
    app.audits.submit(run, unprotected=True)
    now = app.budgets.state("synthetic")
    assert budget_service.AUDIT in [each.what for each in now.looks]
    assert not now.holds
