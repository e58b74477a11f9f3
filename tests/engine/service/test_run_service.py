"""Background runs on real clusters, with real crashes."""

import dataclasses
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psutil
import pytest

from engine import PRIVATE_VERSION, corpus
from engine.cluster import supervisor
from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig, run_id
from engine.embeddings import contamination
from engine.embeddings.encoding import tag_sequences
from engine.errors import CorpusError, InvalidConfig, RunNotFound, StoreError, VectorsMissing
from engine.records import Run, RunState, RunStatus
from engine.scoring import score
from engine.service import Application
from engine.service.reproducibility import RerunComparison, repeat_id
from engine.simulation.run import simulate
from engine.simulation.setup import prepare
from engine.store import paths, published
from tests.engine.factories import SMALL, provenance, record

LONG = dataclasses.replace(SMALL, training=TrainingConfig(batch_size=8, epochs=40.0))
"""1,100 steps: long enough to be interrupted."""


def in_store(name: str) -> pytest.MarkDecorator:
    """Run a test with one database; the other one runs nightly, since each starts a cluster."""
    kinds = ("SQLite", "PostgreSQL")
    marked = [pytest.param(kind, marks=() if kind == name else pytest.mark.nightly) for kind in kinds]
    return pytest.mark.parametrize("settings", marked, indirect=True)


@pytest.fixture
def app(trained_settings):
    opened = Application(trained_settings)
    yield opened
    opened.close()
    end_cluster(trained_settings)


def end_cluster(settings) -> None:
    supervisor.stop_cluster(settings, os.getpid())


def wait_for(condition: Callable[[], object], seconds: float = 300, state: Callable[[], object] = lambda: "") -> None:
    """Wait until the condition holds; ``state`` describes the progress in the message of a failure."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not true after {seconds:g} s: {state()}"
        time.sleep(0.05)


def wait_until_done(app: Application, run_id: str) -> None:
    wait_for(lambda: app.queries.status(run_id).state.final, state=lambda: app.queries.status(run_id))
    status = app.queries.status(run_id)
    assert status.state == RunState.DONE, status.error


def workers_of(cluster: psutil.Process) -> list[psutil.Process]:
    """Return the worker processes: spawned children of the cluster that run Dask workers."""
    return [each for each in cluster.children(recursive=True) if "spawn_main" in " ".join(each.cmdline())]


def comparable(records):
    return [dataclasses.replace(record, seconds=0.0) for record in records]


@pytest.mark.nightly  # test_kills.py has the same on SQLite
@pytest.mark.parametrize("settings", ["PostgreSQL"], indirect=True)
def test_a_run_survives_its_worker_and_its_cluster(app, trained_settings):
    """After kill -9 of the workers and then of the whole cluster, the records equal those of an undisturbed run."""
    status = app.runs.submit(LONG)
    wait_for(lambda: len(app.queries.rounds(status.run_id)) >= 2)
    cluster = supervisor.ClusterFiles(trained_settings).process()
    for worker in workers_of(cluster):
        worker.send_signal(signal.SIGKILL)
    so_far = len(app.queries.rounds(status.run_id))
    wait_for(lambda: len(app.queries.rounds(status.run_id)) >= so_far + 2)
    family = [cluster, *cluster.children(recursive=True)]
    cluster.send_signal(signal.SIGKILL)
    _, left = psutil.wait_procs(family, 120)
    assert left == []
    assert not app.queries.status(status.run_id).state.final
    Application(trained_settings).runs.resume()  # as at the next start of the app
    wait_until_done(app, status.run_id)
    undisturbed = list(simulate(LONG, trained_settings))
    assert comparable(app.queries.rounds(status.run_id)) == comparable(undisturbed)
    assert not list((trained_settings.home / "checkpoints").iterdir())


@pytest.mark.repeats(area="processes")
@in_store("SQLite")
def test_submit_is_idempotent_and_resubmit_repeats(app):
    first, second = app.runs.submit(SMALL).run_id, app.runs.submit(SMALL).run_id
    assert first == second
    wait_until_done(app, first)
    before = app.queries.get(first)
    assert app.runs.submit(SMALL).state == RunState.DONE
    assert app.queries.get(first) == before
    assert len(app.queries.recent()) == 1

    again = app.runs.resubmit(SMALL).run_id
    assert again == repeat_id(first) != first
    assert app.queries.repeated([before])[first].comparison is None
    wait_until_done(app, again)
    assert app.queries.repeated([before])[first].comparison == RerunComparison(identical=True, f1_difference=0.0)
    assert app.queries.get(first) == before
    assert [each.run.run_id for each in app.queries.overview()] == [first], "a repetition is no further seed"
    assert {each.run.run_id for each in app.queries.overview(repeats=True)} == {first, again}
    with pytest.raises(InvalidConfig, match="repeats another"):
        app.runs.publish(again)
    assert not app.runs.resubmit(SMALL).state.final, "the earlier repetition makes room"
    assert app.runs.cancel(again).state == RunState.CANCELLED

    assert app.runs.publish(first).parent == app.settings.published
    assert app.queries.find(SMALL).published
    elsewhere = Application(dataclasses.replace(app.settings, store_url="sqlite:///:memory:"))
    assert elsewhere.runs.submit(SMALL).state == RunState.DONE  # answered by the published run, nothing starts
    assert app.queries.find(SMALL).provenance.command == (
        "python -m engine train --corpus synthetic --data-fraction 0.05 --tagger bilstm-tddl --hidden-size 8 "
        "--batch-size 8 --epochs 2 --noise-multiplier 1 --partition random"
    )
    assert app.runs.resubmit(SMALL).run_id == again, "a published run is repeated too"
    wait_until_done(app, again)
    assert app.queries.repeated([app.queries.find(SMALL)])[first].comparison.identical


@in_store("SQLite")
@pytest.mark.repeats(area="processes")
def test_cancelling_keeps_records_and_stopping_queues_the_run(app):
    first = app.runs.submit(LONG)
    second = app.runs.submit(SMALL)
    assert app.queries.status(second.run_id).state == RunState.QUEUED
    wait_for(lambda: len(app.queries.rounds(first.run_id)) >= 1)
    assert app.runs.cancel(first.run_id).state == RunState.CANCELLED
    kept = app.queries.rounds(first.run_id)
    wait_until_done(app, second.run_id)
    assert app.queries.rounds(first.run_id) == kept
    again = app.runs.submit(LONG)
    wait_for(lambda: len(app.queries.rounds(again.run_id)) > len(kept))
    assert app.queries.rounds(again.run_id)[: len(kept)] == kept
    app.runs.cancel(again.run_id)
    queued = app.runs.submit(dataclasses.replace(LONG, seed=5))
    assert app.runs.cancel(queued.run_id).state == RunState.CANCELLED

    status = app.runs.submit(dataclasses.replace(LONG, seed=6), owner_pid=os.getpid())
    wait_for(lambda: len(app.queries.rounds(status.run_id)) >= 1)
    cluster = supervisor.ClusterFiles(app.settings).process()
    family = [cluster, *cluster.children(recursive=True)]
    end_cluster(app.settings)
    wait_for(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family))
    assert app.queries.status(status.run_id).state == RunState.QUEUED


@pytest.mark.repeats(area="processes")
def test_cluster_starts_while_another_ends_and_stops_with_last_owner(app, trained_settings, monkeypatch):
    place, honest, attempts = supervisor.ClusterFiles(trained_settings), supervisor._start, []
    owners = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    monkeypatch.setattr(supervisor, "_start", lambda *where: attempts.append(honest(*where)) or attempts[-1])
    with place.exclusive_lock():
        started = threading.Thread(target=supervisor.ensure_cluster, args=(trained_settings, owners[0].pid))
        started.start()
        wait_for(lambda: len(attempts) > 1)  # the first one found the lock held and ended
        assert place.process() is None  # the lock is still held
    started.join()
    cluster = place.process()
    assert cluster
    supervisor.ensure_cluster(trained_settings, owners[1].pid)
    assert place.process() == cluster
    supervisor.stop_cluster(trained_settings, owners[0].pid)
    assert cluster.is_running()  # the other owner still needs it
    for owner in owners:
        owner.kill()
        owner.wait()
    cluster.wait(60)


def test_invalid_runs_are_not_stored(app):
    refused = [
        (SimulationConfig(corpus="nowhere"), CorpusError),
        (SimulationConfig(corpus="conll2003"), CorpusError),
        (SimulationConfig(embeddings="en_core_web_xl"), VectorsMissing),
        (SimulationConfig(data_fraction=1e-5), InvalidConfig),
        (SimulationConfig(training=TrainingConfig(batch_size=4_401)), InvalidConfig),
    ]
    for config, kind in refused:
        with pytest.raises(kind):
            app.runs.submit(config)
    assert app.queries.recent() == []


def test_changed_corpus_fails_the_run(trained_settings, tmp_path):
    from engine.cluster.worker import compute
    from engine.store.run_store import RunStore

    file = tmp_path / "notes.conll"
    file.write_text("".join(f"w{i} O\nName B-PER\n\n" for i in range(40)))
    config = dataclasses.replace(SMALL, corpus=str(file), data_fraction=1.0)
    app = Application(trained_settings)
    identity = app.queries.identity(config)
    store = RunStore(trained_settings.store_url)
    store.submit(identity, config, "another checksum")
    compute(identity, trained_settings, "here")
    assert app.queries.status(identity).state == RunState.FAILED
    assert "was changed since" in app.queries.status(identity).error


@pytest.mark.parametrize("averaging", [0.0, 0.9])
def test_saved_model_equals_scored_model(trained_settings, averaging):
    from engine.cluster.worker import compute
    from engine.store.run_store import RunStore
    from engine.taggers.decoding import Decoder
    from engine.training.compiled.backend import CompiledBackend
    from engine.training.dpsgd import predict

    training = dataclasses.replace(SMALL.training, averaging=averaging)
    config, app = dataclasses.replace(SMALL, training=training), Application(trained_settings)
    identity = app.queries.identity(config)
    RunStore(trained_settings.store_url).submit(identity, config, app.queries.corpus(config).checksum)
    with pytest.raises(RunNotFound, match="has no saved tagger"):
        app.models.load(identity)
    compute(identity, trained_settings, "here")
    last, kept = app.queries.get(identity).final, app.models.load(identity)
    assert (kept.run_id, kept.config, kept.epsilon) == (identity, config, last.privacy.epsilon)
    of_another = app.settings.artefacts.get(paths.model_name(identity))
    other = dataclasses.replace(config, seed=config.seed + 1)
    others = app.queries.identity(other)
    RunStore(trained_settings.store_url).submit(others, other, app.queries.corpus(config).checksum)
    shutil.copy(of_another, of_another.with_name(f"{others}.npz"))
    with pytest.raises(StoreError, match=f"refused: .*other settings than run {others}"):
        app.models.load(others)
    app.models.delete([others])

    encoded = prepare(config, trained_settings).sides[0].encoded
    assert kept.tags == encoded.tags

    def scored(model):
        backend, decoder = CompiledBackend(model.tagger), Decoder(model.tags, well_formed=False)
        found = predict(backend, decoder, model.weights, None, encoded.test, encoded.vectors, lambda: None)
        return score(*(tag_sequences(encoded.test, tags, encoded.tags) for tags in (encoded.test.tags, found)))

    assert scored(kept) == last.test
    path = app.runs.publish(identity, model=True)
    published = app.settings.published / "models" / f"{identity}.npz"
    assert published.stat().st_size < 0.6 * app.models.sizes()[identity]
    assert path.parent == published.parent.parent
    app.models.delete(["f" * 16])
    assert identity in app.models.sizes()
    app.models.delete([identity])
    assert app.models.sizes() == {}
    assert scored(app.models.load(identity)).f1 == pytest.approx(
        last.test.f1, abs=0.01
    )  # the published model, in half precision


def test_run_with_clients_saves_one_model_per_client(trained_settings, tmp_path):
    from engine.cluster.worker import compute
    from engine.store.run_store import RunStore

    file = tmp_path / "drugs.conll"
    file.write_text("Take O\nAspirin B-Drug\n\n" * 40)
    config, app = dataclasses.replace(SMALL, corpus=f"synthetic + {file}"), Application(trained_settings)
    identity = app.queries.identity(config)
    RunStore(trained_settings.store_url).submit(identity, config, app.queries.corpus(config).checksum)
    compute(identity, trained_settings, "here")
    first, second = (app.models.load(identity, platform) for platform in (0, 1))
    assert first.platform == "synthetic"
    assert second.platform == str(file)
    assert second.tags == ("O", "B-Drug", "I-Drug")
    assert first.epsilon == second.epsilon == app.queries.get(identity).final.privacy.epsilon
    (size,) = app.models.sizes().values()
    app.runs.publish(identity, model=True)
    published = sorted((app.settings.published / "models").glob("*.npz"))
    assert [path.name for path in published] == [f"{identity}-2.npz", f"{identity}.npz"]
    assert sum(path.stat().st_size for path in published) < 0.6 * size
    app.models.delete([identity])
    assert app.models.sizes() == {}
    assert app.models.load(identity, 1).platform == str(file)  # the published model


def test_deleted_run_deletes_its_model(settings):
    from engine.store.run_store import RunStore

    app, identity = Application(settings), "a" * 16
    RunStore(settings.store_url).submit(identity, SMALL, "checksum")
    with settings.artefacts.write(paths.model_name(identity), "The tagger") as path:
        path.write_bytes(b"weights")
    app.runs.delete(identity)
    assert app.models.sizes() == {}


def test_failed_run_stores_its_error(trained_settings, monkeypatch):
    from engine.cluster.worker import compute
    from engine.simulation import run as simulation
    from engine.store.run_store import RunStore

    def broken(*_, **__):
        raise ZeroDivisionError("surprise")
        yield

    monkeypatch.setattr(simulation, "simulate", broken)
    app = Application(trained_settings)
    checksum = corpus.resolve(SMALL.corpus, trained_settings).checksum
    RunStore(trained_settings.store_url).submit(app.queries.identity(SMALL), SMALL, checksum)
    (run,) = app.queries.recent()
    compute(run.run_id, trained_settings, "here")
    assert "ZeroDivisionError: surprise" in app.queries.status(run.run_id).error


class TestQueries:
    def test_empty_store_has_no_results(self, settings):
        app = Application(settings)
        assert app.queries.find(SMALL) is None
        assert app.queries.recent() == []
        assert app.queries.runs_by_noise(SMALL) == []
        assert app.queries.problems() == []
        with pytest.raises(RunNotFound):
            app.queries.get("0123456789abcdef")

    def test_published_runs_are_available_with_damaged_store(self, with_published):
        database = with_published.home / "runs.sqlite"
        database.write_bytes(b"no database at all, but long enough to be looked at" * 30)
        app = Application(with_published)
        default = SimulationConfig()
        assert app.queries.find(default).published
        assert len(app.queries.runs_by_noise(default)) >= 5
        assert any("damaged" in problem for problem in app.queries.problems())
        with pytest.raises(StoreError):
            app.runs.submit(SMALL)
        assert app.queries.find_all([default])[default].published
        with pytest.raises(StoreError):
            app.queries.find_all([default, SMALL])

    def test_many_runs_take_one_query(self, with_published, monkeypatch):
        from engine.store.run_store import RunStore

        app = Application(with_published)
        app.runs.submit(SMALL)
        other = dataclasses.replace(SMALL, seed=7)
        asked, existing = [], RunStore.existing
        monkeypatch.setattr(
            RunStore, "existing", lambda self, identities: asked.append(set(identities)) or existing(self, identities)
        )
        found = app.queries.find_all([SMALL, other, SimulationConfig(), SMALL])
        assert list(found) == [SMALL, other, SimulationConfig()]
        assert [run and run.published for run in found.values()] == [False, None, True]
        assert asked == [{app.queries.identity(SMALL), app.queries.identity(other)}]

    @pytest.mark.repeats(area="processes")
    def test_features_of_published_private_runs_were_not_fitted_on_their_sentences(self, with_published, data_dir):
        app = Application(dataclasses.replace(with_published, data_dir=data_dir))
        private = [run for run in app.queries.published() if run.records[-1].privacy.epsilon < math.inf]
        settings = {(run.config.corpus, run.config.features): run.config for run in private}
        overlaps = [app.queries.overlap(config) for config in settings.values()]
        assert sum(found.sentences[0] > 0 for found in overlaps) > 5  # of corpora that are there, and fitted features
        assert not any(found.breaks_privacy for found in overlaps)

    def test_overview_reads_no_corpus_for_published_runs(self, with_published, monkeypatch):
        app = Application(with_published)
        monkeypatch.setattr(app.queries, "corpus", lambda config: pytest.fail(f"{config.corpus} was read"))
        assert len(app.queries.overview()) > 700

    def test_preview_of_a_run(self, settings):
        preview = Application(settings).previews.preview(SMALL)
        assert (preview.train_sentences, preview.steps) == (220, 55)
        assert preview.privacy.epsilon == pytest.approx(2.053, abs=0.01)  # as `engine epsilon` prints for n = 220
        assert preview.tier == "reasonable"
        assert preview.estimate is None
        assert (
            Application(settings).previews.preview(SimulationConfig(privacy=PrivacyConfig(noise_multiplier=0))).tier
            == "none"
        )

    def test_person_epsilon_is_group_privacy(self, settings):
        app, config = Application(settings), dataclasses.replace(SMALL, privacy=PrivacyConfig(noise_multiplier=5.0))
        assert app.previews.person_epsilon(config, 1) == app.previews.preview(config).privacy.epsilon
        assert app.previews.person_epsilon(config, 10) > 10 * app.previews.person_epsilon(config, 1)
        shuffled = dataclasses.replace(config, privacy=PrivacyConfig(sampling="shuffle"))
        assert app.previews.person_epsilon(shuffled, 10) is None
        clients = FederationConfig(clients=4)
        whole = dataclasses.replace(config, federation=clients, privacy=PrivacyConfig(mechanism="dp-fedavg"))
        assert app.previews.person_epsilon(whole, 10) is None
        assert app.previews.person_epsilon(
            dataclasses.replace(config, federation=clients), 10
        ) > app.previews.person_epsilon(config, 10)

    def test_longest_document(self, data_dir, settings):
        found = Application(dataclasses.replace(settings, data_dir=data_dir)).previews.longest_document
        assert found("conll2003") == 197
        assert found("synthetic") is None
        assert Application(settings).previews.longest_document("conll2003") is None

    def test_preview_with_contaminated_features_has_infinite_epsilon(self, settings, monkeypatch):
        whole = corpus.resolve("synthetic", settings).load()
        fitted = [whole.train[3].tokens, *(sentence.tokens for sentence in whole.test)]
        config = dataclasses.replace(SMALL, features="names")
        assert Application(settings).previews.preview(config).privacy.epsilon == pytest.approx(2.053, abs=0.01)
        shutil.rmtree(settings.home)
        contamination._read.cache_clear()
        monkeypatch.setattr(contamination, "fitted_on", lambda part: contamination.checksums(fitted))
        preview = Application(settings).previews.preview(config)
        assert math.isinf(preview.privacy.epsilon)
        assert preview.tier == "none"
        assert preview.privacy.assumptions == preview.warnings[:1]
        assert "of 4,400 training sentences" in preview.warnings[0]
        assert all(part in preview.warnings[1] for part in ("1,000 of 1,000 test", "(100.0%)"))
        assert not Application(settings).previews.preview(SMALL).warnings

    def test_older_run_with_contaminated_features_is_not_published(self, settings, monkeypatch):
        from engine.store.run_store import RunStore

        fitted = [corpus.resolve("synthetic", settings).load().train[3].tokens]
        monkeypatch.setattr(contamination, "fitted_on", lambda part: contamination.checksums(fitted))
        app, store = Application(settings), RunStore(settings.store_url)
        for config in (SMALL, dataclasses.replace(SMALL, features="names")):
            checksum = corpus.resolve(config.corpus, settings).checksum
            store.submit(app.queries.identity(config), config, checksum)
            claim = store.claim(app.queries.identity(config), "here")
            for number in range(3):
                store.append(claim, record(number))
            store.finish(claim, provenance(checksum))
            believed = config.features == "vectors"
            ends = [
                app.queries.find(config),
                app.queries.get(app.queries.identity(config)),
                *app.queries.runs_by_noise(config),
            ]
            assert len(ends) == (3 if believed else 2)
            for run in ends:
                assert all(math.isfinite(each.privacy.epsilon) == believed for each in run.records)
        assert sorted(math.isinf(each.last_record.privacy.epsilon) for each in app.queries.overview()) == [False, True]
        assert app.runs.publish(app.queries.identity(SMALL)).is_file()
        with pytest.raises(InvalidConfig, match=r"ε is ∞\. [12] of 4,400\b"):
            app.runs.publish(app.queries.identity(config))
        store.close()

    def test_older_run_with_masked_entities_has_infinite_epsilon(self, settings):
        from engine.store.run_store import RunStore

        app, store = Application(settings), RunStore(settings.store_url)
        config = SimulationConfig.from_flat({"corpus": "wnut17 + btc", "masked": 0.5})
        store.submit("0123456789abcdef", config, "0" * 64)
        claim = store.claim("0123456789abcdef", "here")
        store.append(claim, record(0, of=1))
        store.finish(claim, provenance())
        (last,) = app.queries.get("0123456789abcdef").records
        assert math.isinf(last.privacy.epsilon)
        assert "masking" in last.privacy.assumptions[0]
        store.close()
        app.close()

    def test_preview_warns_of_large_delta(self, settings):
        config = SimulationConfig(privacy=PrivacyConfig(delta=0.01))
        (warning,) = Application(settings).previews.preview(config).warnings
        assert all(part in warning for part in ("delta=0.01 ", "not below 1/n"))

    def test_runs_by_noise_differ_in_noise_only(self, settings):
        real = dataclasses.replace(settings, published=type(settings).from_environment().published)
        found = Application(real).queries.runs_by_noise(SimulationConfig(privacy=PrivacyConfig(noise_multiplier=3)))
        assert [run.config.privacy.noise_multiplier for run in found] == [
            *(50.0, 10.0, 5.0, 2.0, 1.26, 1.0, 0.77, 0.57, 0.5, 0.0)
        ]
        assert math.isinf(found[-1].records[-1].privacy.epsilon)
        assert (
            Application(real).queries.runs_by_noise(SimulationConfig(seed=3)) == found
        )  # another seed belongs to the same configuration
        assert Application(real).queries.runs_by_noise(SimulationConfig(data_fraction=0.5)) == []


class TestOutdatedRuns:
    """Published runs of older engines: shown, marked, and recomputed on request."""

    @pytest.fixture
    def app(self, settings, monkeypatch):
        monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
        opened = Application(settings)
        yield opened
        opened.close()

    @staticmethod
    def made(app: Application, version: str, config: SimulationConfig = SMALL, day: int = 21) -> Run:
        checksum = corpus.resolve(config.corpus, app.settings).checksum
        identity = run_id(config, checksum, version)
        return Run(
            run_id=identity,
            config=config,
            status=RunStatus(run_id=identity, state=RunState.DONE),
            records=tuple(record(number) for number in range(3)),
            provenance=dataclasses.replace(provenance(checksum, version), created=f"2026-11-{day}T10:00:00+00:00"),
        )

    @classmethod
    def publish(cls, app: Application, *run: object, **more: object) -> Run:
        made = cls.made(app, *run, **more)
        published.write(made, app.settings.published)
        return made

    @staticmethod
    def computed(app: Application, config: SimulationConfig = SMALL) -> None:
        """Store the results that a worker would have stored."""
        from engine.store.run_store import RunStore

        store = RunStore(app.settings.store_url)
        claim = store.claim(app.queries.identity(config), "here")
        for number in range(3):
            store.append(claim, record(number))
        store.finish(claim, provenance(corpus.resolve(config.corpus, app.settings).checksum, PRIVATE_VERSION))
        store.close()

    def test_older_run_is_found_and_outdated(self, app):
        old = self.publish(app, "5")
        assert app.queries.find(SMALL).run_id == old.run_id != app.queries.identity(SMALL)
        assert app.queries.find(SMALL).outdated
        assert app.queries.get(old.run_id).outdated
        assert [(run.run_id, run.outdated) for run in app.queries.published()] == [(old.run_id, True)]
        assert [run.outdated for run in app.queries.recent()] == [True]
        assert [run.outdated for run in app.queries.runs_by_noise(SMALL)] == [True]

    def test_submit_recomputes_outdated_run(self, app):
        old = self.publish(app, "5")
        status = app.runs.submit(SMALL)
        assert status.run_id == app.queries.identity(SMALL) != old.run_id
        assert status.state == RunState.QUEUED
        assert app.queries.find(SMALL).run_id == status.run_id
        self.computed(app)
        found = app.queries.find(SMALL)
        assert (found.run_id, found.outdated, found.published) == (status.run_id, False, False)
        assert app.runs.submit(SMALL).state == RunState.DONE
        (point,) = app.queries.runs_by_noise(SMALL)
        assert point.run_id == status.run_id
        app.runs.publish(status.run_id)
        assert [(run.run_id, run.outdated) for run in app.queries.published()] == [(status.run_id, False)]
        assert app.queries.find(SMALL).published

    def test_resubmit_recomputes_outdated_run(self, app):
        self.publish(app, "5")
        status = app.runs.resubmit(SMALL)
        assert status.run_id == app.queries.identity(SMALL)
        self.computed(app)
        assert app.runs.resubmit(SMALL).run_id == repeat_id(status.run_id)

    def test_current_published_run_is_returned_without_computation(self, app):
        self.publish(app, "5", day=28)
        today = self.publish(app, PRIVATE_VERSION)
        assert app.runs.submit(SMALL) == app.queries.find(SMALL).status
        assert app.queries.find(SMALL).run_id == today.run_id == app.queries.identity(SMALL)
        assert len(app.queries.recent()) == 1

    def test_preview_ignores_epsilon_of_outdated_run(self, app):
        self.publish(app, "5")  # its made-up ε is 1.5
        assert app.previews.preview(SMALL).privacy.epsilon == pytest.approx(2.053, abs=0.01)

    def test_outdated_run_without_local_corpus_is_found(self, app):
        config = dataclasses.replace(SMALL, corpus="conll2003")
        made = dataclasses.replace(self.made(app, "5"), config=config, run_id=run_id(config, "1" * 64, "5"))
        told = dataclasses.replace(made.provenance, corpus_checksum="1" * 64)
        published.write(dataclasses.replace(made, provenance=told), app.settings.published)
        assert app.queries.find(config).outdated
        with pytest.raises(CorpusError):
            app.runs.submit(config)


def test_batch_runs_are_queued_after_single_runs(settings, monkeypatch):
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    app = Application(settings)
    configs = [dataclasses.replace(SMALL, seed=seed) for seed in range(3)]
    batch = app.runs.submit_all(configs, batch=True)
    alone = app.runs.submit(dataclasses.replace(SMALL, seed=9))
    assert alone.queue_place == 1
    assert [app.queries.status(each.run_id).queue_place for each in batch] == [2, 3, 4]
    assert app.runs.submit(configs[2]).queue_place == 1  # submitted earlier than the other one
    app.close()
