"""Runs in the background: real clusters, real crashes."""

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
    """Run a test with one kind of database; with the other one at night, since each starts a cluster."""
    kinds = ("SQLite", "PostgreSQL")
    marked = [pytest.param(kind, marks=() if kind == name else pytest.mark.nightly) for kind in kinds]
    return pytest.mark.parametrize("settings", marked, indirect=True)


@pytest.fixture
def runs(trained_settings):
    opened = Application(trained_settings)
    yield opened
    opened.close()
    end_cluster(trained_settings)


def end_cluster(settings) -> None:
    supervisor.stop_cluster(settings, os.getpid())


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def finished(runs: Application, run_id: str) -> None:
    wait_for(lambda: runs.status(run_id).state.final)
    status = runs.status(run_id)
    assert status.state == RunState.DONE, status.error


def workers_of(cluster: psutil.Process) -> list[psutil.Process]:
    """The processes that compute: children of the cluster that were spawned with Dask's worker in them."""
    return [each for each in cluster.children(recursive=True) if "spawn_main" in " ".join(each.cmdline())]


def comparable(records):
    return [dataclasses.replace(record, seconds=0.0) for record in records]


@in_store("PostgreSQL")
def test_a_run_survives_its_worker_and_its_cluster(runs, trained_settings):
    """kill -9 of the workers, then of the whole cluster: the records are those of a run that was never disturbed."""
    status = runs.submit(LONG)
    wait_for(lambda: len(runs.rounds(status.run_id)) >= 2)
    cluster = supervisor.ClusterFiles(trained_settings).process()
    for worker in workers_of(cluster):
        worker.send_signal(signal.SIGKILL)
    so_far = len(runs.rounds(status.run_id))
    wait_for(lambda: len(runs.rounds(status.run_id)) >= so_far + 2)
    family = [cluster, *cluster.children(recursive=True)]
    cluster.send_signal(signal.SIGKILL)
    _, left = psutil.wait_procs(family, 120)
    assert left == []
    assert not runs.status(status.run_id).state.final
    Application(trained_settings).resume()  # what the next start of the app does
    finished(runs, status.run_id)
    undisturbed = list(simulate(LONG, trained_settings))
    assert comparable(runs.rounds(status.run_id)) == comparable(undisturbed)
    assert not list((trained_settings.home / "checkpoints").iterdir())


@in_store("SQLite")
def test_equal_work_is_done_once(runs):
    first, second = runs.submit(SMALL), runs.submit(SMALL)
    assert first.run_id == second.run_id
    finished(runs, first.run_id)
    started = runs.status(first.run_id).started
    assert runs.submit(SMALL).state == RunState.DONE
    assert runs.status(first.run_id).started == started
    assert len(runs.recent()) == 1
    path = runs.publish(first.run_id)
    assert path.parent == runs.settings.published
    assert runs.find(SMALL).published
    elsewhere = Application(dataclasses.replace(runs.settings, store_url="sqlite:///:memory:"))
    assert elsewhere.submit(SMALL).state == RunState.DONE  # answered from what is published: nothing is started
    assert runs.find(SMALL).provenance.command == (
        "python -m engine simulate --corpus synthetic --data-fraction 0.05 --tagger bilstm-tddl --hidden-size 8 "
        "--batch-size 8 --epochs 2 --noise-multiplier 1"
    )


def test_a_run_that_is_done_can_be_run_again_beside_the_first(runs):
    first = runs.submit(SMALL).run_id
    finished(runs, first)
    before = runs.get(first)
    again = runs.resubmit(SMALL).run_id
    assert again == repeat_id(first) != first
    assert runs.repeated([before])[first].outcome is None
    finished(runs, again)
    assert runs.repeated([before])[first].outcome == RerunComparison(identical=True, f1_difference=0.0)
    assert runs.get(first) == before
    assert [each.run.run_id for each in runs.overview()] == [first], "a repetition is no further seed"
    assert {each.run.run_id for each in runs.overview(repeats=True)} == {first, again}
    with pytest.raises(InvalidConfig, match="repeats another"):
        runs.publish(again)
    assert not runs.resubmit(SMALL).state.final, "the earlier repetition makes room"
    assert runs.cancel(again).state == RunState.CANCELLED
    runs.publish(first)  # the same beside a published run
    assert runs.resubmit(SMALL).run_id == again
    finished(runs, again)
    assert runs.repeated([runs.find(SMALL)])[first].comparison.identical


@in_store("SQLite")
def test_cancelling_keeps_the_records_and_frees_the_worker(runs):
    first = runs.submit(LONG)
    second = runs.submit(SMALL)
    assert runs.status(second.run_id).state == RunState.QUEUED
    wait_for(lambda: len(runs.rounds(first.run_id)) >= 1)
    assert runs.cancel(first.run_id).state == RunState.CANCELLED
    kept = runs.rounds(first.run_id)
    finished(runs, second.run_id)
    assert runs.rounds(first.run_id) == kept
    again = runs.submit(LONG)
    wait_for(lambda: len(runs.rounds(again.run_id)) > len(kept))
    assert runs.rounds(again.run_id)[: len(kept)] == kept
    runs.cancel(again.run_id)
    queued = runs.submit(dataclasses.replace(LONG, seed=5))
    assert runs.cancel(queued.run_id).state == RunState.CANCELLED


def test_stopping_leaves_no_process_and_loses_no_run(runs, trained_settings):
    status = runs.submit(LONG, owner_pid=os.getpid())
    wait_for(lambda: len(runs.rounds(status.run_id)) >= 1)
    cluster = supervisor.ClusterFiles(trained_settings).process()
    family = [cluster, *cluster.children(recursive=True)]
    end_cluster(trained_settings)
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family)
    assert runs.status(status.run_id).state == RunState.QUEUED


def test_a_cluster_ends_with_its_last_owner(runs, trained_settings):
    owners = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    for owner in owners:
        supervisor.ensure_cluster(trained_settings, owner.pid)
    cluster = supervisor.ClusterFiles(trained_settings).process()
    supervisor.stop_cluster(trained_settings, owners[0].pid)
    assert cluster.is_running()  # the other one still needs it
    for owner in owners:
        owner.kill()
        owner.wait()
    cluster.wait(30)


def test_a_cluster_is_there_although_another_was_just_ending(runs, trained_settings, monkeypatch):
    place, honest, attempts = supervisor.ClusterFiles(trained_settings), supervisor._start, []
    monkeypatch.setattr(supervisor, "_start", lambda *where: attempts.append(honest(*where)) or attempts[-1])
    with place.exclusive_lock():
        started = threading.Thread(target=supervisor.ensure_cluster, args=(trained_settings, os.getpid()))
        started.start()
        wait_for(lambda: len(attempts) > 1)  # the first has found the lock held, and ended
        assert place.process() is None  # the lock is still held
    started.join()
    assert place.process()


def test_what_cannot_be_run_is_not_stored(runs):
    refused = [
        (SimulationConfig(corpus="nowhere"), CorpusError),
        (SimulationConfig(corpus="conll2003"), CorpusError),
        (SimulationConfig(embeddings="en_core_web_xl"), VectorsMissing),
        (SimulationConfig(data_fraction=1e-5), InvalidConfig),
        (SimulationConfig(training=TrainingConfig(batch_size=4_401)), InvalidConfig),
    ]
    for config, kind in refused:
        with pytest.raises(kind):
            runs.submit(config)
    assert runs.recent() == []


def test_a_corpus_that_changes_after_submission_fails_the_run(trained_settings, tmp_path):
    from engine.cluster.worker import compute
    from engine.store.run_store import RunStore

    file = tmp_path / "notes.conll"
    file.write_text("".join(f"w{i} O\nName B-PER\n\n" for i in range(40)))
    config = dataclasses.replace(SMALL, corpus=str(file), data_fraction=1.0)
    runs = Application(trained_settings)
    identity = runs.identity(config)
    store = RunStore(trained_settings.store_url)
    store.submit(identity, config, "another checksum")
    compute(identity, trained_settings, "here")
    assert runs.status(identity).state == RunState.FAILED
    assert "was changed since" in runs.status(identity).error


@pytest.mark.parametrize("averaging", [0.0, 0.9])
def test_a_finished_run_keeps_the_tagger_that_was_scored(trained_settings, averaging):
    from engine.cluster.worker import compute
    from engine.store.run_store import RunStore
    from engine.taggers.decoding import Decoder
    from engine.training.compiled.backend import CompiledBackend
    from engine.training.dpsgd import predict

    training = dataclasses.replace(SMALL.training, averaging=averaging)
    config, runs = dataclasses.replace(SMALL, training=training), Application(trained_settings)
    identity = runs.identity(config)
    RunStore(trained_settings.store_url).submit(identity, config, runs.corpus(config).checksum)
    with pytest.raises(RunNotFound, match="no tagger"):
        runs.model(identity)
    compute(identity, trained_settings, "here")
    last, kept = runs.get(identity).final, runs.model(identity)
    assert (kept.run_id, kept.config, kept.epsilon) == (identity, config, last.privacy.epsilon)
    of_another = runs.settings.artefacts.get(paths.model_name(identity))
    shutil.copy(of_another, of_another.with_name(f"{'b' * 16}.npz"))
    with pytest.raises(StoreError, match=f"refused: .*run {identity}"):
        runs.model("b" * 16)
    shutil.copy(of_another, of_another.with_name(f"r{identity[1:]}.npz"))
    assert runs.model(f"r{identity[1:]}").run_id == identity, "one that repeats it"
    runs.forget_models(["b" * 16, f"r{identity[1:]}"])

    encoded = prepare(config, trained_settings).sides[0].encoded
    assert kept.tags == encoded.tags

    def scored(model):
        backend, decoder = CompiledBackend(model.tagger), Decoder(model.tags, well_formed=False)
        found = predict(backend, decoder, model.weights, None, encoded.test, encoded.vectors, lambda: None)
        return score(*(tag_sequences(encoded.test, tags, encoded.tags) for tags in (encoded.test.tags, found)))

    assert scored(kept) == last.test
    path = runs.publish(identity, model=True)
    published = runs.settings.published / "models" / f"{identity}.npz"
    assert published.stat().st_size < 0.6 * runs.models()[identity]
    assert path.parent == published.parent.parent
    runs.forget_models(["f" * 16])
    assert identity in runs.models()
    runs.forget_models([identity])
    assert runs.models() == {}
    assert scored(runs.model(identity)).f1 == pytest.approx(last.test.f1, abs=0.01)  # the published one, half as fine


def test_a_run_of_platforms_keeps_a_tagger_for_each(trained_settings, tmp_path):
    from engine.cluster.worker import compute
    from engine.store.run_store import RunStore

    file = tmp_path / "drugs.conll"
    file.write_text("Take O\nAspirin B-Drug\n\n" * 40)
    config, runs = dataclasses.replace(SMALL, corpus=f"synthetic + {file}"), Application(trained_settings)
    identity = runs.identity(config)
    RunStore(trained_settings.store_url).submit(identity, config, runs.corpus(config).checksum)
    compute(identity, trained_settings, "here")
    first, second = (runs.model(identity, platform) for platform in (0, 1))
    assert first.platform == "synthetic"
    assert second.platform == str(file)
    assert second.tags == ("O", "B-Drug", "I-Drug")
    assert first.epsilon == second.epsilon == runs.get(identity).final.privacy.epsilon
    (size,) = runs.models().values()
    runs.publish(identity, model=True)
    published = sorted((runs.settings.published / "models").glob("*.npz"))
    assert [path.name for path in published] == [f"{identity}-2.npz", f"{identity}.npz"]
    assert sum(path.stat().st_size for path in published) < 0.6 * size
    runs.forget_models([identity])
    assert runs.models() == {}
    assert runs.model(identity, 1).platform == str(file)  # the published one


def test_a_run_takes_its_tagger_with_it(settings):
    from engine.store.run_store import RunStore

    runs, identity = Application(settings), "a" * 16
    RunStore(settings.store_url).submit(identity, SMALL, "checksum")
    with settings.artefacts.write(paths.model_name(identity), "The tagger") as path:
        path.write_bytes(b"weights")
    runs.delete(identity)
    assert runs.models() == {}


def test_a_run_that_breaks_says_so(trained_settings, monkeypatch):
    from engine.cluster.worker import compute
    from engine.simulation import run as simulation
    from engine.store.run_store import RunStore

    def broken(*_, **__):
        raise ZeroDivisionError("surprise")
        yield

    monkeypatch.setattr(simulation, "simulate", broken)
    runs = Application(trained_settings)
    checksum = corpus.resolve(SMALL.corpus, trained_settings).checksum
    RunStore(trained_settings.store_url).submit(runs.identity(SMALL), SMALL, checksum)
    (run,) = runs.recent()
    compute(run.run_id, trained_settings, "here")
    assert "ZeroDivisionError: surprise" in runs.status(run.run_id).error


class TestAsking:
    def test_nothing_is_found_where_nothing_is(self, settings):
        runs = Application(settings)
        assert runs.find(SMALL) is None
        assert runs.recent() == []
        assert runs.runs_by_noise(SMALL) == []
        assert runs.problems() == []
        with pytest.raises(RunNotFound):
            runs.get("0123456789abcdef")

    def test_a_damaged_store_does_not_hide_what_is_published(self, settings):
        (settings.home).mkdir()
        (settings.home / "runs.sqlite").write_bytes(b"no database at all, but long enough to be looked at" * 30)
        real = dataclasses.replace(settings, published=type(settings).from_environment().published)
        runs = Application(real)
        default = SimulationConfig()
        assert runs.find(default).published
        assert len(runs.runs_by_noise(default)) >= 5
        assert any("damaged" in problem for problem in runs.problems())
        with pytest.raises(StoreError):
            runs.submit(SMALL)

    def test_a_preview_says_what_a_run_would_be(self, settings):
        preview = Application(settings).preview(SMALL)
        assert (preview.train_sentences, preview.steps) == (220, 55)
        assert preview.privacy.epsilon == pytest.approx(2.053, abs=0.01)  # as `engine epsilon` prints for n = 220
        assert preview.tier == "reasonable"
        assert preview.estimate is None
        assert Application(settings).preview(SimulationConfig(privacy=PrivacyConfig(noise_multiplier=0))).tier == "none"

    def test_a_person_with_several_sentences(self, settings):
        runs, config = Application(settings), dataclasses.replace(SMALL, privacy=PrivacyConfig(noise_multiplier=5.0))
        assert runs.person_epsilon(config, 1) == runs.preview(config).privacy.epsilon
        assert runs.person_epsilon(config, 10) > 10 * runs.person_epsilon(config, 1)
        shuffled = dataclasses.replace(config, privacy=PrivacyConfig(sampling="shuffle"))
        assert runs.person_epsilon(shuffled, 10) is None
        clients = FederationConfig(clients=4)
        whole = dataclasses.replace(config, federation=clients, privacy=PrivacyConfig(mechanism="dp-fedavg"))
        assert runs.person_epsilon(whole, 10) is None
        assert runs.person_epsilon(dataclasses.replace(config, federation=clients), 10) > runs.person_epsilon(
            config, 10
        )

    def test_the_longest_document(self, data_dir, settings):
        found = Application(dataclasses.replace(settings, data_dir=data_dir)).longest_document
        assert found("conll2003") == 197
        assert found("synthetic") is None
        assert Application(settings).longest_document("conll2003") is None

    def test_a_preview_promises_nothing_where_the_features_were_fitted_on_the_sentences(self, settings, monkeypatch):
        whole = corpus.resolve("synthetic", settings).load()
        fitted = [whole.train[3].tokens, *(sentence.tokens for sentence in whole.test)]
        config = dataclasses.replace(SMALL, features="names")
        assert Application(settings).preview(config).privacy.epsilon == pytest.approx(2.053, abs=0.01)
        shutil.rmtree(settings.home)
        contamination._read.cache_clear()
        monkeypatch.setattr(contamination, "fitted_on", lambda part: contamination.checksums(fitted))
        preview = Application(settings).preview(config)
        assert math.isinf(preview.privacy.epsilon)
        assert preview.tier == "none"
        assert preview.privacy.assumptions == preview.warnings[:1]
        assert "of 4,400 training sentences" in preview.warnings[0]
        assert all(part in preview.warnings[1] for part in ("1,000 of 1,000 test", "(100.0%)"))
        assert not Application(settings).preview(SMALL).warnings

    def test_an_older_run_that_claims_it_is_not_believed_and_not_published(self, settings, monkeypatch):
        from engine.store.run_store import RunStore

        fitted = [corpus.resolve("synthetic", settings).load().train[3].tokens]
        monkeypatch.setattr(contamination, "fitted_on", lambda part: contamination.checksums(fitted))
        runs, store = Application(settings), RunStore(settings.store_url)
        for config in (SMALL, dataclasses.replace(SMALL, features="names")):
            checksum = corpus.resolve(config.corpus, settings).checksum
            store.submit(runs.identity(config), config, checksum)
            claim = store.claim(runs.identity(config), "here")
            for number in range(3):
                store.append(claim, record(number))
            store.finish(claim, provenance(checksum))
            believed = config.features == "vectors"
            ends = [runs.find(config), runs.get(runs.identity(config)), *runs.runs_by_noise(config)]
            assert len(ends) == (3 if believed else 2)
            for run in ends:
                assert all(math.isfinite(each.privacy.epsilon) == believed for each in run.records)
        assert sorted(math.isinf(each.last_record.privacy.epsilon) for each in runs.overview()) == [False, True]
        assert runs.publish(runs.identity(SMALL)).is_file()
        with pytest.raises(InvalidConfig, match=r"ε is ∞\. [12] of 4,400\b"):
            runs.publish(runs.identity(config))
        store.close()

    def test_an_older_run_of_platforms_that_masked_names_is_not_believed(self, settings):
        from engine.store.run_store import RunStore

        runs, store = Application(settings), RunStore(settings.store_url)
        config = SimulationConfig.from_flat({"corpus": "wnut17 + btc", "masked": 0.5})
        store.submit("0123456789abcdef", config, "0" * 64)
        claim = store.claim("0123456789abcdef", "here")
        store.append(claim, record(0, of=1))
        store.finish(claim, provenance())
        (last,) = runs.get("0123456789abcdef").records
        assert math.isinf(last.privacy.epsilon)
        assert "masked" in last.privacy.assumptions[0]
        store.close()
        runs.close()

    def test_a_preview_warns_of_a_delta_that_is_too_large(self, settings):
        config = SimulationConfig(privacy=PrivacyConfig(delta=0.01))
        (warning,) = Application(settings).preview(config).warnings
        assert all(part in warning for part in ("delta=0.01 ", "not below 1/n"))

    def test_the_trade_off_holds_runs_that_differ_in_noise_only(self, settings):
        real = dataclasses.replace(settings, published=type(settings).from_environment().published)
        found = Application(real).runs_by_noise(SimulationConfig(privacy=PrivacyConfig(noise_multiplier=3)))
        assert [run.config.privacy.noise_multiplier for run in found] == [
            *(50.0, 10.0, 5.0, 2.0, 1.26, 1.0, 0.77, 0.57, 0.5, 0.0)
        ]
        assert math.isinf(found[-1].records[-1].privacy.epsilon)
        assert Application(real).runs_by_noise(SimulationConfig(seed=3)) == found  # another seed is the same setting
        assert Application(real).runs_by_noise(SimulationConfig(data_fraction=0.5)) == []


class TestOlderEngines:
    """Published runs that today's engine would compute otherwise: shown, marked, and computed anew when asked for."""

    @pytest.fixture
    def door(self, settings, monkeypatch):
        monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
        opened = Application(settings)
        yield opened
        opened.close()

    @staticmethod
    def made(runs: Application, version: str, config: SimulationConfig = SMALL, day: int = 21) -> Run:
        checksum = corpus.resolve(config.corpus, runs.settings).checksum
        identity = run_id(config, checksum, version)
        return Run(
            run_id=identity,
            config=config,
            status=RunStatus(run_id=identity, state=RunState.DONE),
            records=tuple(record(number) for number in range(3)),
            provenance=dataclasses.replace(provenance(checksum, version), created=f"2026-11-{day}T10:00:00+00:00"),
        )

    @classmethod
    def publish(cls, runs: Application, *run: object, **more: object) -> Run:
        made = cls.made(runs, *run, **more)
        published.write(made, runs.settings.published)
        return made

    @staticmethod
    def computed(runs: Application, config: SimulationConfig = SMALL) -> None:
        """What a worker would have stored."""
        from engine.store.run_store import RunStore

        store = RunStore(runs.settings.store_url)
        claim = store.claim(runs.identity(config), "here")
        for number in range(3):
            store.append(claim, record(number))
        store.finish(claim, provenance(corpus.resolve(config.corpus, runs.settings).checksum, PRIVATE_VERSION))
        store.close()

    def test_an_older_run_is_found_and_marked(self, door):
        old = self.publish(door, "5")
        assert door.find(SMALL).run_id == old.run_id != door.identity(SMALL)
        assert door.find(SMALL).outdated
        assert door.get(old.run_id).outdated
        assert [(run.run_id, run.outdated) for run in door.published()] == [(old.run_id, True)]
        assert [run.outdated for run in door.recent()] == [True]
        assert [run.outdated for run in door.runs_by_noise(SMALL)] == [True]

    def test_it_is_computed_anew_when_asked_for(self, door):
        old = self.publish(door, "5")
        status = door.submit(SMALL)
        assert status.run_id == door.identity(SMALL) != old.run_id
        assert status.state == RunState.QUEUED
        assert door.find(SMALL).run_id == status.run_id
        self.computed(door)
        found = door.find(SMALL)
        assert (found.run_id, found.outdated, found.published) == (status.run_id, False, False)
        assert door.submit(SMALL).state == RunState.DONE
        (point,) = door.runs_by_noise(SMALL)
        assert point.run_id == status.run_id
        door.publish(status.run_id)
        assert [(run.run_id, run.outdated) for run in door.published()] == [(status.run_id, False)]
        assert door.find(SMALL).published

    def test_again_computes_it_anew_too(self, door):
        self.publish(door, "5")
        status = door.resubmit(SMALL)
        assert status.run_id == door.identity(SMALL)
        self.computed(door)
        assert door.resubmit(SMALL).run_id == repeat_id(status.run_id)

    def test_todays_is_answered_at_once(self, door):
        self.publish(door, "5", day=28)
        today = self.publish(door, PRIVATE_VERSION)
        assert door.submit(SMALL) == door.find(SMALL).status
        assert door.find(SMALL).run_id == today.run_id == door.identity(SMALL)
        assert len(door.recent()) == 1

    def test_what_an_older_engine_spent_is_not_taken_for_what_todays_would(self, door):
        self.publish(door, "5")  # its made-up ε is 1.5
        assert door.preview(SMALL).privacy.epsilon == pytest.approx(2.053, abs=0.01)

    def test_without_its_corpus_it_is_taken_at_its_word(self, door):
        config = dataclasses.replace(SMALL, corpus="conll2003")
        made = dataclasses.replace(self.made(door, "5"), config=config, run_id=run_id(config, "1" * 64, "5"))
        told = dataclasses.replace(made.provenance, corpus_checksum="1" * 64)
        published.write(dataclasses.replace(made, provenance=told), door.settings.published)
        assert door.find(config).outdated
        with pytest.raises(CorpusError):
            door.submit(config)


def test_a_sweep_comes_after_what_is_asked_for_alone(settings, monkeypatch):
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    runs = Application(settings)
    configs = [dataclasses.replace(SMALL, seed=seed) for seed in range(3)]
    batch = runs.submit_all(configs, batch=True)
    alone = runs.submit(dataclasses.replace(SMALL, seed=9))
    assert alone.queue_place == 1
    assert [runs.status(each.run_id).queue_place for each in batch] == [2, 3, 4]
    assert runs.submit(configs[2]).queue_place == 1  # it has waited longer than the other one
    runs.close()
