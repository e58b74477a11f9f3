"""Noise from the operating system: never twice the same, the same again where a run goes on, and gone when it ends."""

import base64
import contextlib
import dataclasses
import json
import logging
import os
import stat
from collections.abc import Callable

import pytest

from engine import corpus
from engine.cluster import supervisor
from engine.cluster.worker import compute
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig, run_id
from engine.errors import InvalidConfig, StoreError
from engine.privacy.accounting import SEEDED, SYSTEM
from engine.records import Run, RunState
from engine.seeds import Secrets
from engine.service import Application
from engine.simulation.run import simulate
from engine.store import noise_keys, paths
from engine.store.run_store import RunStore
from engine.training.checkpoint import Checkpoint
from tests.engine.factories import provenance, record

CONFIG = SimulationConfig(
    data_fraction=0.05,
    tagger=TaggerConfig(name="linear-softmax"),
    training=TrainingConfig(batch_size=8, epochs=1.0),
    privacy=PrivacyConfig(noise_multiplier=1.0, noise_source="system"),
)
SEEDED_TWIN = dataclasses.replace(CONFIG, privacy=dataclasses.replace(CONFIG.privacy, noise_source="seeded"))


def timeless(records):
    return [dataclasses.replace(record, seconds=0.0) for record in records]


class Killed(BaseException):
    """Stands for kill -9: nothing that catches errors sees it."""


class Place:
    """A home in which runs are computed in this process, without a cluster."""

    def __init__(self, settings, monkeypatch) -> None:
        self.settings, self._patch = settings, monkeypatch
        monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
        self.runs, self.id = Application(settings), run_id(CONFIG, corpus.resolve(CONFIG.corpus, settings).checksum)
        self.checkpoint = settings.artefacts.local_path(paths.checkpoint_name(self.id))
        self.keys = self.checkpoint.with_suffix(".key")

    def compute(self) -> Run:
        self.runs.runs.submit(CONFIG)
        compute(self.id, self.settings, "here")
        return self.runs.queries.get(self.id)

    def interrupt(self, records: int, how: Callable[[], None], *, saved: bool = True) -> bytes:
        """Compute until so many records are written, then ``how``; saved: whether the checkpoint of the last one is
        too. The keys that were there."""
        save, count = Checkpoint.save, []

        def interrupted(self: Checkpoint, path) -> None:
            count.append(self)
            if saved or len(count) < records:
                save(self, path)
            if len(count) == records:
                how()

        with self._patch.context() as patch:
            patch.setattr(Checkpoint, "save", interrupted)
            self.runs.runs.submit(CONFIG)
            with contextlib.suppress(Killed):
                compute(self.id, self.settings, "here")
        return self.keys.read_bytes()

    def undisturbed(self, keys: bytes):
        return timeless(simulate(CONFIG, self.settings, secrets=Secrets(keys)))


@pytest.fixture
def place(trained_settings, monkeypatch):
    made = Place(trained_settings, monkeypatch)
    yield made
    made.runs.close()


def killed() -> None:
    raise Killed


def test_without_noise_there_is_nothing_to_keep_secret():
    assert PrivacyConfig(noise_multiplier=0, noise_source="system") == PrivacyConfig(noise_multiplier=0)
    assert CONFIG != SEEDED_TWIN
    assert run_id(CONFIG, "0" * 64) != run_id(SEEDED_TWIN, "0" * 64)


def test_two_runs_differ_and_both_pass_their_check(trained_settings):
    first, second = (list(simulate(CONFIG, trained_settings)) for _ in range(2))
    assert first[-1].loss != second[-1].loss
    assert first[-1].examples_seen != second[-1].examples_seen or first[3].loss != second[3].loss
    for records in (first, second):
        assert records[-1].noise_check.passed
        assert SYSTEM in records[-1].privacy.assumptions
        assert SEEDED not in records[-1].privacy.assumptions
    (seeded, *_) = simulate(SEEDED_TWIN, trained_settings)
    assert SEEDED in seeded.privacy.assumptions
    assert SYSTEM not in seeded.privacy.assumptions
    assert seeded.privacy.epsilon == first[0].privacy.epsilon


def test_a_run_that_goes_on_draws_the_same_again(trained_settings):
    secrets, kept = Secrets.drawn(), []
    whole = timeless(simulate(CONFIG, trained_settings, secrets=secrets, on_checkpoint=kept.append))
    rest = timeless(simulate(CONFIG, trained_settings, secrets=secrets, resume=kept[3]))
    assert rest == whole[4:]
    others = timeless(simulate(CONFIG, trained_settings, secrets=Secrets.drawn(), resume=kept[3]))
    assert others != whole[4:]


class TestTheWorker:
    def test_the_keys_are_gone_when_the_run_ends(self, place):
        run = place.compute()
        assert run.status.state == RunState.DONE, run.status.error
        assert run.provenance.noise_source == "system"
        assert "--noise-source system" in run.provenance.command
        assert not list(place.checkpoint.parent.iterdir())

    def test_a_run_whose_worker_died_goes_on_with_its_keys(self, place):
        keys = place.interrupt(4, killed)
        assert len(place.runs.queries.rounds(place.id)) == 4
        assert stat.S_IMODE(place.keys.stat().st_mode) == 0o600
        run = place.compute()
        assert run.status.state == RunState.DONE, run.status.error
        assert timeless(run.records) == place.undisturbed(keys)
        assert not place.keys.exists()

    @pytest.mark.parametrize("records", [1, 3])
    def test_so_does_one_that_died_between_a_record_and_its_checkpoint(self, place, records):
        keys = place.interrupt(records, killed, saved=False)
        assert len(place.runs.queries.rounds(place.id)) == records
        run = place.compute()
        assert run.status.state == RunState.DONE, run.status.error
        assert timeless(run.records) == place.undisturbed(keys)

    def test_a_run_that_is_cancelled_and_taken_up_goes_on_with_its_keys(self, place):
        keys = place.interrupt(3, lambda: place.runs.runs.cancel(place.id))
        assert place.runs.queries.status(place.id).state == RunState.CANCELLED
        assert place.keys.read_bytes() == keys
        run = place.compute()
        assert run.status.state == RunState.DONE, run.status.error
        assert timeless(run.records) == place.undisturbed(keys)

    @pytest.mark.parametrize(
        ("damage", "words"),
        [
            (lambda path: path.unlink(), "The noise keys of this run are missing"),
            (lambda path: path.write_bytes(b"short"), "are damaged"),
            (lambda path: path.write_bytes(bytes(32)), "are damaged"),
            (lambda path: path.write_bytes(b""), "are damaged"),
        ],
    )
    def test_without_its_keys_it_fails_and_loses_nothing(self, place, damage, words):
        place.interrupt(3, killed)
        before, saved = place.runs.queries.rounds(place.id), place.checkpoint.read_bytes()
        damage(place.keys)
        run = place.compute()
        assert run.status.state == RunState.FAILED
        assert words in run.status.error
        assert "\n" not in run.status.error
        assert run.records == before
        assert place.checkpoint.read_bytes() == saved

    def test_its_keys_are_deleted_with_it(self, place):
        place.interrupt(2, lambda: place.runs.runs.cancel(place.id))
        assert place.keys.exists()
        place.runs.runs.delete(place.id)
        assert not list(place.checkpoint.parent.iterdir())

    def test_its_keys_stand_nowhere_else(self, place, caplog):
        caplog.set_level(logging.DEBUG)
        keys = place.interrupt(3, killed)
        checkpoint = place.checkpoint.read_bytes()
        run = place.compute()
        path = place.runs.runs.publish(place.id)
        derived = Secrets(keys).of(part=0).stream("noise", step=0).key
        stored = [each.read_bytes() for each in place.settings.home.iterdir() if each.is_file()]
        assert any(place.id.encode() in each for each in stored)
        everything = [checkpoint, path.read_bytes(), caplog.text.encode(), repr(run).encode(), *stored]
        everything.append(json.dumps([each.to_dict() for each in run.records]).encode())
        for secret in (keys, derived):
            forms = [
                secret,
                secret.hex().encode(),
                base64.b64encode(secret),
                repr(secret).encode(),
                str(list(secret)).encode(),
            ]
            assert not any(form in one for form in forms for one in everything)


class TestTheFile:
    def test_what_it_keeps_is_there_again(self, tmp_path):
        path = tmp_path / "checkpoints" / "run.key"
        first = noise_keys.secrets_for(path, begun=False)
        assert noise_keys.secrets_for(path, begun=False) == first == noise_keys.secrets_for(path, begun=True)
        assert path.read_bytes() == first.entropy
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert noise_keys.secrets_for(tmp_path / "another.key", begun=False) != first

    def test_nobody_else_may_read_it_whatever_the_umask(self, tmp_path):
        before = os.umask(0)
        try:
            noise_keys.secrets_for(tmp_path / "run.key", begun=False)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "run.key").stat().st_mode) == 0o600

    def test_it_is_written_over_before_it_goes(self, tmp_path):
        """Another name of the same file sees what became of it."""
        path, other = tmp_path / "run.key", tmp_path / "other"
        noise_keys.secrets_for(path, begun=False)
        other.hardlink_to(path)
        noise_keys.destroy(path)
        assert not path.exists()
        assert other.read_bytes() == bytes(32)
        noise_keys.destroy(path)  # nothing is there: nothing to do

    def test_a_onethat_cannot_be_written_is_said(self, tmp_path):
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StoreError, match="cannot be saved"):
            noise_keys.secrets_for(tmp_path / "file" / "run.key", begun=False)


def ended(settings) -> str:
    """A run with noise from the system that is done, with made-up records; its identity."""
    store, checksum = RunStore(settings.store_url), corpus.resolve(CONFIG.corpus, settings).checksum
    identity = run_id(CONFIG, checksum)
    store.submit(identity, CONFIG, checksum)
    claim = store.claim(identity, "here")
    for number in range(3):
        store.append(claim, record(number))
    store.finish(claim, dataclasses.replace(provenance(checksum, "6"), noise_source="system"))
    store.close()
    return identity


def test_it_cannot_be_run_again(place):
    identity = ended(place.settings)
    with pytest.raises(InvalidConfig, match=f"{identity} .*noise_source='system'.*keys"):
        place.runs.runs.resubmit(CONFIG)
    place.runs.runs.publish(identity)
    with pytest.raises(InvalidConfig, match="its keys were destroyed"):
        place.runs.runs.resubmit(CONFIG)
    assert [run.run_id for run in place.runs.queries.recent()] == [identity]


def test_a_shell_is_told_so(place, monkeypatch, capsys):
    from engine.cli.main import main

    identity = ended(place.settings)
    monkeypatch.setenv("EPSILON_HOME", str(place.settings.home))
    monkeypatch.setenv("EPSILON_STORE_URL", place.settings.store_url)
    monkeypatch.setattr("sys.argv", ["engine", "again", identity])
    assert main() == 2
    said = capsys.readouterr()
    assert all(part in said.err for part in (identity, "noise_source='system'", "another seed"))
    assert len(said.err.strip().splitlines()) == 1
    assert not said.out
