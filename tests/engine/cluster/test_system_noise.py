"""Noise from the operating system: unique per run, repeated when a run resumes, with keys destroyed at its end."""

import base64
import contextlib
import dataclasses
import json
import logging
import os
import stat
from collections.abc import Callable

import pytest
from sqlalchemy import update

from engine import corpus
from engine.cluster import supervisor, worker
from engine.cluster.worker import compute
from engine.config import PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig, run_id
from engine.errors import InvalidConfig, StoreError
from engine.records import RoundRecord, Run, RunState
from engine.records.assumption_texts import SEEDED, SYSTEM
from engine.reports.privacy_report import summary
from engine.seeds import Secrets
from engine.service import Application, report_evidence
from engine.simulation.run import simulate
from engine.store import noise_keys, paths
from engine.store.run_store import RunStore
from engine.store.schema import runs
from engine.training.checkpoint import Checkpoint
from engine.training.model import Model
from tests.engine.factories import provenance, record
from tests.engine.training.test_checkpoint import unsealed

CONFIG = SimulationConfig(
    data_fraction=0.05,
    tagger=TaggerConfig(name="linear-softmax"),
    training=TrainingConfig(batch_size=8, epochs=1.0),
    privacy=PrivacyConfig(noise_multiplier=1.0, noise_source="system"),
)
SEEDED_TWIN = dataclasses.replace(CONFIG, privacy=dataclasses.replace(CONFIG.privacy, noise_source="seeded"))


def timeless(records):
    return [dataclasses.replace(record, seconds=0.0) for record in records]


def trained(settings, config=CONFIG, **more) -> tuple[list[RoundRecord], bytes]:
    """Return the records of a run without times, and its weights."""
    models: list[Model] = []
    records = timeless(simulate(config, settings, on_model=models.append, **more))
    return records, models[0].weights.tobytes()


class Killed(BaseException):
    """A simulated kill -9, which no handler of errors catches."""


class Home:
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

    def interrupt(self, records: int, stop: Callable[[], None], *, saved: bool = True) -> bytes:
        """Compute a run, interrupt it, and return its keys.

        Args:
            records: Number of records to write before the interruption.
            stop: Interrupts the run.
            saved: Whether the checkpoint of the last record is saved too.
        """
        save, count, keys = Checkpoint.save, [], []

        def interrupted(found: Checkpoint, *arguments) -> None:
            count.append(found)
            if saved or len(count) < records:
                save(found, *arguments)
            if len(count) == records:
                keys.append(self.keys.read_bytes())
                stop()

        with self._patch.context() as patch:
            patch.setattr(Checkpoint, "save", interrupted)
            self.runs.runs.submit(CONFIG)
            with contextlib.suppress(Killed):
                compute(self.id, self.settings, "here")
        return keys[0]

    def refuse_unless_undisturbed(self, run: Run, keys: bytes) -> None:
        """Compare a finished run with one that was not interrupted."""
        records, weights = trained(self.settings, secrets=Secrets(keys))
        assert timeless(run.records) == records
        assert Model.load(self.settings.artefacts.get(paths.model_name(self.id))).weights.tobytes() == weights


@pytest.fixture
def home(trained_settings, monkeypatch):
    made = Home(trained_settings, monkeypatch)
    yield made
    made.runs.close()


def kill() -> None:
    raise Killed


def test_noise_source_is_ignored_without_noise():
    assert PrivacyConfig(noise_multiplier=0, noise_source="system") == PrivacyConfig(noise_multiplier=0)
    assert CONFIG != SEEDED_TWIN
    assert run_id(CONFIG, "0" * 64) != run_id(SEEDED_TWIN, "0" * 64)


@pytest.mark.repeats(area="processes")
def test_system_noise_differs_between_runs_and_passes_the_noise_check(trained_settings):
    (first, weights), (second, others) = (trained(trained_settings) for _ in range(2))
    assert weights != others
    for records in (first, second):
        assert records[-1].noise_check.passed
        assert SYSTEM in records[-1].privacy.assumptions
        assert SEEDED not in records[-1].privacy.assumptions
    (seeded, *_) = simulate(SEEDED_TWIN, trained_settings)
    assert SEEDED in seeded.privacy.assumptions
    assert SYSTEM not in seeded.privacy.assumptions
    assert seeded.privacy.epsilon == first[0].privacy.epsilon


def test_a_resumed_run_repeats_its_noise_with_its_secrets_only(trained_settings):
    secrets, kept = Secrets.drawn(), []
    whole, weights = trained(trained_settings, secrets=secrets, on_checkpoint=kept.append)
    assert trained(trained_settings, secrets=secrets, resume=kept[3]) == (whole[4:], weights)
    assert trained(trained_settings, secrets=Secrets.drawn(), resume=kept[3])[1] != weights


class TestWorker:
    def test_keys_are_destroyed_when_the_run_ends(self, home):
        run = home.compute()
        assert run.status.state == RunState.DONE, run.status.error
        assert run.provenance.noise_source == "system"
        assert "--noise-source system" in run.provenance.command
        assert not list(home.checkpoint.parent.iterdir())

    @pytest.mark.repeats(area="processes")
    def test_a_report_finds_no_keys(self, home):
        """The worker was killed between the end of the run and the destruction of its keys."""
        home.compute()
        home.keys.write_bytes(bytes([1]) * 32)
        evidence = report_evidence.evidence(home.runs, home.id)
        assert "keys are destroyed" in dict(summary.label(evidence))["Source of the noise"]
        assert not home.keys.exists()

    def test_a_run_of_a_killed_worker_resumes_with_its_keys(self, home):
        keys = home.interrupt(4, kill)
        assert len(home.runs.queries.rounds(home.id)) == 4
        assert stat.S_IMODE(home.keys.stat().st_mode) == 0o600
        run = home.compute()
        assert run.status.state == RunState.DONE, run.status.error
        home.refuse_unless_undisturbed(run, keys)
        assert not home.keys.exists()

    @pytest.mark.parametrize("records", [1, 3])
    @pytest.mark.repeats(area="processes", after=1)
    def test_a_run_killed_between_record_and_checkpoint_resumes_with_its_keys(self, home, records):
        keys = home.interrupt(records, kill, saved=False)
        assert len(home.runs.queries.rounds(home.id)) == records
        run = home.compute()
        assert run.status.state == RunState.DONE, run.status.error
        home.refuse_unless_undisturbed(run, keys)

    def test_cancelling_destroys_keys_and_checkpoint_and_is_final(self, home):
        home.interrupt(3, lambda: home.runs.runs.cancel(home.id))
        assert not list(home.checkpoint.parent.iterdir())
        before = home.runs.queries.get(home.id)
        assert before.status.state == RunState.CANCELLED
        for submit in (
            home.runs.runs.submit,
            home.runs.runs.resubmit,
            lambda config: home.runs.runs.submit_all([config]),
        ):
            with pytest.raises(InvalidConfig, match=r"destroyed when it ended \(cancelled\).*another seed"):
                submit(CONFIG)
        assert home.runs.queries.get(home.id) == before
        assert len(before.records) == 3

    def test_cancelling_a_run_without_worker_destroys_its_keys_too(self, home):
        home.interrupt(3, kill)
        assert home.keys.exists()
        home.runs.runs.cancel(home.id)
        assert not list(home.checkpoint.parent.iterdir())

    def test_a_run_cancelled_before_its_first_record_starts_again_with_new_keys(self, home):
        home.runs.runs.submit(CONFIG)
        home.runs.runs.cancel(home.id)
        assert home.compute().status.state == RunState.DONE

    def test_failure_destroys_keys_and_checkpoint(self, home, monkeypatch):
        def fail() -> None:
            raise StoreError("The disk is full.")

        home.interrupt(3, fail)
        assert home.runs.queries.status(home.id).state == RunState.FAILED
        assert not list(home.checkpoint.parent.iterdir())
        with pytest.raises(InvalidConfig, match="failed"):
            home.runs.runs.submit(CONFIG)

    def test_unexpected_error_quotes_no_private_value(self, home, caplog):
        name = "Ada Lovelace"

        def fail() -> None:
            raise KeyError(name)

        home.interrupt(1, fail)
        error = home.runs.queries.status(home.id).error
        assert all(part in error for part in ("KeyError", "withheld", "log"))
        assert "in fail" in caplog.text
        assert "Lovelace" not in caplog.text + error

    @pytest.mark.parametrize("end", [RunState.DONE, RunState.FAILED, RunState.CANCELLED])
    def test_the_next_cluster_destroys_keys_that_an_ended_run_left(self, home, end):
        """A run that crashed its workers, or that another machine cancelled, could not destroy its own."""
        home.interrupt(3, kill)
        store = RunStore(home.settings.store_url)
        with store.begin() as connection:
            connection.execute(update(runs).values(state=end))
        (home.keys.parent / "of-another-database.key").write_bytes(bytes(32))
        noise_keys.sweep(home.settings, store.status)
        store.close()
        assert [path.name for path in home.checkpoint.parent.iterdir()] == ["of-another-database.key"]

    def test_the_first_task_of_a_worker_destroys_such_keys_on_its_machine(self, home, monkeypatch):
        """On another machine than the dispatcher's, nothing else runs before the next run."""
        home.interrupt(3, kill)
        home.runs.runs.cancel(home.id)
        home.keys.write_bytes(bytes([1]) * 32)  # another machine cancelled it
        monkeypatch.setattr("engine.simulation.setup.warm_up", lambda _: None)
        monkeypatch.setattr(worker, "_local_settings", lambda _: home.settings)
        worker.warm_up({})
        assert not home.keys.exists()

    @pytest.mark.repeats(area="processes")
    def test_unsealed_checkpoint_of_an_earlier_version_is_sealed_and_overwritten(self, home):
        keys = home.interrupt(3, kill)
        kept = Checkpoint.load(home.checkpoint, home.id, Secrets(keys))
        home.checkpoint.write_bytes(unsealed(kept))
        other = home.settings.home / "the same file"
        other.hardlink_to(home.checkpoint)
        run = home.compute()
        assert run.status.state == RunState.DONE, run.status.error
        home.refuse_unless_undisturbed(run, keys)
        assert not any(other.read_bytes())

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda path: path.unlink(), "The noise keys of this run are missing"),
            (lambda path: path.write_bytes(b"short"), "are damaged"),
            (lambda path: path.write_bytes(bytes(32)), "are damaged"),
            (lambda path: path.write_bytes(b""), "are damaged"),
        ],
    )
    def test_a_run_without_its_keys_fails_and_keeps_its_records(self, home, damage, message):
        home.interrupt(3, kill)
        before = home.runs.queries.rounds(home.id)
        damage(home.keys)
        run = home.compute()
        assert run.status.state == RunState.FAILED
        assert message in run.status.error
        assert "\n" not in run.status.error
        assert run.records == before
        assert not list(home.checkpoint.parent.iterdir())

    def test_deleting_a_run_destroys_its_keys(self, home):
        home.interrupt(2, kill)
        assert home.keys.exists()
        home.runs.runs.delete(home.id)
        assert not list(home.checkpoint.parent.iterdir())

    def test_keys_of_a_run_deleted_before_they_were_made_are_destroyed(self, home, monkeypatch):
        """A user deletes the run when its worker has claimed it and not yet made its keys."""
        make = noise_keys.secrets_for

        def delete_first(*given, **more):
            home.runs.runs.delete(home.id)
            return make(*given, **more)

        monkeypatch.setattr(noise_keys, "secrets_for", delete_first)
        home.runs.runs.submit(CONFIG)
        compute(home.id, home.settings, "here")
        assert not list(home.checkpoint.parent.iterdir())

    def test_a_deletion_that_is_killed_leaves_no_keys(self, home, monkeypatch):
        """No later search could tell them from the keys of another database."""
        home.interrupt(2, kill)
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(noise_keys, "destroy", lambda *_: kill())
            home.runs.runs.delete(home.id)
        assert not home.keys.exists()

    def test_a_run_whose_keys_cannot_be_destroyed_is_not_deleted(self, home, monkeypatch):
        def refuse(*_):
            raise StoreError("The noise keys cannot be destroyed: Permission denied.")

        home.interrupt(2, kill)
        monkeypatch.setattr(noise_keys, "destroy_keys", refuse)
        with pytest.raises(StoreError, match="Permission denied"):
            home.runs.runs.delete(home.id)
        assert len(home.runs.queries.get(home.id).records) == 2

    @pytest.mark.repeats(area="processes")
    def test_keys_are_stored_in_their_file_only(self, home, caplog):
        caplog.set_level(logging.DEBUG)
        keys = home.interrupt(3, kill)
        checkpoint = home.checkpoint.read_bytes()
        run = home.compute()
        path = home.runs.runs.publish(home.id)
        derived = Secrets(keys).of(part=0).stream("noise", step=0).key
        stored = [each.read_bytes() for each in home.settings.home.iterdir() if each.is_file()]
        assert any(home.id.encode() in each for each in stored)
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


class TestKeyFile:
    def test_secrets_for_returns_the_stored_secrets(self, tmp_path):
        path = tmp_path / "checkpoints" / "run.key"
        first = noise_keys.secrets_for(path, begun=False)
        assert noise_keys.secrets_for(path, begun=False) == first == noise_keys.secrets_for(path, begun=True)
        assert path.read_bytes() == first.entropy
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert noise_keys.secrets_for(tmp_path / "another.key", begun=False) != first

    def test_key_file_is_private_with_any_umask(self, tmp_path):
        before = os.umask(0)
        try:
            noise_keys.secrets_for(tmp_path / "run.key", begun=False)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "run.key").stat().st_mode) == 0o600

    def test_destroy_overwrites_the_key_file(self, settings):
        """A hard link to the file shows its last content."""
        path, other = paths.key_path(settings, "run"), settings.home / "other"
        noise_keys.secrets_for(path, begun=False)
        other.hardlink_to(path)
        noise_keys.destroy(settings, "run")
        assert not path.exists()
        assert other.read_bytes() == bytes(32)
        noise_keys.destroy(settings, "run")  # no error for a missing file

    def test_an_unwritable_key_file_raises_store_error(self, tmp_path):
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StoreError, match="cannot be saved"):
            noise_keys.secrets_for(tmp_path / "file" / "run.key", begun=False)


def finished_run(settings) -> str:
    """Store a finished run with noise from the system and made-up records; return its identity."""
    store, checksum = RunStore(settings.store_url), corpus.resolve(CONFIG.corpus, settings).checksum
    identity = run_id(CONFIG, checksum)
    store.submit(identity, CONFIG, checksum)
    claim = store.claim(identity, "here")
    for number in range(3):
        store.append(claim, record(number))
    store.finish(claim, dataclasses.replace(provenance(checksum, "6"), noise_source="system"))
    store.close()
    return identity


def test_a_finished_run_cannot_be_rerun(home):
    identity = finished_run(home.settings)
    with pytest.raises(InvalidConfig, match=f"{identity} .*noise_source='system'.*keys"):
        home.runs.runs.resubmit(CONFIG)
    home.runs.runs.publish(identity)
    with pytest.raises(InvalidConfig, match="its keys were destroyed"):
        home.runs.runs.resubmit(CONFIG)
    assert [run.run_id for run in home.runs.queries.recent()] == [identity]


def test_rerun_command_is_exit_code_2_and_one_sentence(home, monkeypatch, capsys):
    from engine.cli.main import main

    identity = finished_run(home.settings)
    monkeypatch.setenv("EPSILON_HOME", str(home.settings.home))
    monkeypatch.setenv("EPSILON_STORE_URL", home.settings.store_url)
    monkeypatch.setattr("sys.argv", ["engine", "again", identity])
    assert main() == 2
    printed = capsys.readouterr()
    assert all(part in printed.err for part in (identity, "noise_source='system'", "another seed"))
    assert len(printed.err.strip().splitlines()) == 1
    assert not printed.out
