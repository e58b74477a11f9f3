"""Backup while the dashboard runs, and restoration into an empty home, completely or not at all."""

import contextlib
import errno
import io
import json
import os
import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cluster import supervisor
from engine.cluster.supervisor import ClusterFiles
from engine.cluster.worker import compute
from engine.config import run_id
from engine.corpus import resolve
from engine.errors import InvalidConfig, StoreError
from engine.records import RunState
from engine.service import Application, backup
from engine.settings import REPOSITORY, Settings
from engine.store import backup_archive
from engine.store.run_store import RunStore
from engine.store.schema import notes
from engine.training.checkpoint import Checkpoint
from tests.conftest import share
from tests.engine.access.test_roles import text as access_text
from tests.engine.cluster.test_system_noise import CONFIG, SEEDED_TWIN, Killed, timeless, trained
from tests.engine.factories import SMALL, provenance, record
from tests.engine.store.test_migrations import FIRST, database

CONLL = b"Rosa B-PER\nlives O\n\n" * 5
SAVED = {
    "corpora/my-letters.conll": CONLL,
    "models/0123.npz": bytes(range(256)),
    "checkpoints/0123.npz": b"sealed",
    "tuning/search.json": b"{}",
    "audits/0123.json": b"{}",
    "corpora/my-notes/a.key": b"a text with an odd name",
}
NOT_SAVED = (
    "checkpoints/0123.key",
    "cluster/key.pem",
    "cluster.pem",
    "encoded/rows.npy",
    "incoming/session/letters.conll",
    "locks/encoded/a",
    "vectors/words.npy",
    "corpora/.upload-x/a.conll",
    ".passing-1@here@x/models.npz",
    "published-index.sqlite",
)


def fill(home: Path) -> None:
    for name, content in SAVED.items() | {(name, b"") for name in NOT_SAVED}:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
    os.utime(home / "corpora/my-letters.conll", (1_700_000_000, 1_700_000_000))


@pytest.fixture
def saved(settings) -> Iterator[RunStore]:
    """Fill the home, and return its store with a finished run."""
    fill(settings.home)
    store = RunStore(settings.store_url)
    store.submit("0123", SMALL, "0" * 64)
    claim = store.claim("0123", "here/1")
    store.append(claim, record(0))
    store.finish(claim, provenance())
    yield store
    store.close()


@pytest.fixture
def other(settings, tmp_path) -> Settings:
    """Return settings with a home that does not exist."""
    home = tmp_path / "parent" / "other"
    return replace(settings, home=home, store_url=f"sqlite:///{home / 'runs.sqlite'}")


def files(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if not path.is_dir()}


class TestCreate:
    def test_restored_home_has_all_data_and_no_keys(self, settings, saved, other, tmp_path):
        file = tmp_path / "copies" / "epsilon.zip"
        backup.create(settings, file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [path.name for path in file.parent.iterdir()] == ["epsilon.zip"]
        with zipfile.ZipFile(file) as archive:
            assert set(archive.namelist()) == {*SAVED, "runs.sqlite", "manifest.json"}
        restored = backup.restore(other, file)
        assert files(other.home) == {*SAVED, "runs.sqlite"}
        assert {name: (other.home / name).read_bytes() for name in SAVED} == SAVED
        assert (other.home / "corpora/my-letters.conll").stat().st_mtime == 1_700_000_000
        assert stat.S_IMODE(other.home.stat().st_mode) & 0o077 == 0
        assert [path.name for path in other.home.parent.iterdir()] == ["other"]
        store = RunStore(other.store_url)
        assert store.get("0123") == saved.get("0123")
        assert restored.unfinished == ()
        store.close()

    def test_database_is_copied_while_a_program_writes(self, settings, saved, other, tmp_path):
        """A copy of the file alone would miss the database's log, in which the latest writes are."""
        saved.write_note("0123", "kept")
        with saved.exclusive() as connection:
            connection.execute(notes.update().values(text="not yet"))
            backup.create(settings, tmp_path / "epsilon.zip")
        assert saved.notes() == {"0123": "not yet"}
        backup.restore(other, tmp_path / "epsilon.zip")
        store = RunStore(other.store_url)
        assert store.notes() == {"0123": "kept"}
        store.close()

    def test_checkpoint_is_not_newer_than_the_database_and_tagger_is_not_older(self, settings, saved, tmp_path):
        order = []
        copy = backup_archive.copy_database
        add = backup_archive.Writer.add
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backup_archive, "copy_database", lambda *given: (order.append("database"), copy(*given)))
            patch.setattr(
                backup_archive.Writer, "add", lambda self, name, path: (order.append(name), add(self, name, path))[1]
            )
            backup.create(settings, tmp_path / "epsilon.zip")
        assert order.index("checkpoints/0123.npz") < order.index("database") < order.index("models/0123.npz")

    def test_keys_in_the_home_are_not_saved(self, settings, saved, tmp_path):
        key, token = settings.home / "secret", settings.home / "token"
        for path in (key, token):
            path.write_text("secret")
        given = replace(settings, cluster_key=key, metrics_token=token)
        manifest = backup.create(given, tmp_path / "epsilon.zip")
        assert not {"secret", "token"} & manifest.members.keys()

    def test_file_that_exists_or_is_in_the_home_is_refused(self, settings, saved, tmp_path):
        file = tmp_path / "epsilon.zip"
        file.write_bytes(b"an earlier backup")
        with pytest.raises(InvalidConfig, match=r"file=.* exists"):
            backup.create(settings, file)
        assert file.read_bytes() == b"an earlier backup"
        with pytest.raises(InvalidConfig, match="is in EPSILON_HOME"):
            backup.create(settings, settings.home / "epsilon.zip")

    def test_link_is_refused_by_name(self, settings, saved, tmp_path):
        (settings.home / "models" / "link.npz").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(InvalidConfig, match=r"link\.npz is a link"):
            backup.create(settings, tmp_path / "epsilon.zip")
        assert not (tmp_path / "epsilon.zip").exists()

    def test_backup_that_reads_back_differently_is_deleted(self, settings, saved, tmp_path, monkeypatch):
        chunks = backup_archive._chunks

        def flipped(file: io.BufferedReader) -> Iterator[bytes]:
            reading_back = isinstance(file, zipfile.ZipExtFile)
            yield from (bytes([chunk[0] ^ 1]) + chunk[1:] if reading_back else chunk for chunk in chunks(file))

        monkeypatch.setattr(backup_archive, "_chunks", flipped)
        with pytest.raises(StoreError, match="read back"):
            backup.create(settings, tmp_path / "epsilon.zip")
        assert not list(tmp_path.glob("*.zip"))

    def test_damaged_database_is_reported(self, settings, saved, tmp_path):
        saved.close()
        path = settings.home / "runs.sqlite"
        path.write_bytes(path.read_bytes()[:8192] + bytes(8192))
        with pytest.raises(StoreError, match="The database"):
            backup.create(settings, tmp_path / "epsilon.zip")
        assert not list(tmp_path.glob("*.zip"))

    def test_backup_with_sign_in_is_in_the_audit_log(self, settings, saved, other, tmp_path):
        access = tmp_path / "access.toml"
        access.write_text(access_text())
        access.chmod(0o600)
        backup.create(replace(settings, access=access), tmp_path / "epsilon.zip")
        backup.restore(replace(other, access=access), tmp_path / "epsilon.zip")
        app = Application(replace(other, access=access))
        restored, saved_to = app.access.audit_log()
        app.close()
        assert (saved_to.action, saved_to.subject) == ("back up", "epsilon.zip")
        assert (restored.action, restored.subject.split(" of ")[0]) == ("restore", "epsilon.zip")

    @pytest.mark.parametrize("settings", ["PostgreSQL"], indirect=True)
    def test_backup_without_database_says_so(self, settings, tmp_path):
        fill(settings.home)
        manifest = backup.create(settings, tmp_path / "epsilon.zip")
        assert manifest.database is None
        assert "pg_dump" in backup.without_database(settings)
        sqlite = replace(settings, home=tmp_path / "new", store_url=f"sqlite:///{tmp_path / 'new' / 'runs.sqlite'}")
        with pytest.raises(InvalidConfig, match=r"has no database .* EPSILON_STORE_URL names an SQLite"):
            backup.restore(sqlite, tmp_path / "epsilon.zip")
        backup.restore(replace(settings, home=tmp_path / "new"), tmp_path / "epsilon.zip")
        assert files(tmp_path / "new") == {*SAVED}


@pytest.fixture
def archive(settings, saved, tmp_path) -> Path:
    backup.create(settings, tmp_path / "epsilon.zip")
    return tmp_path / "epsilon.zip"


def changed(archive: Path, change: Callable[[dict[str, bytes], dict], None], mode: int = 0o600) -> Path:
    """Write a copy of a backup after a change of its members and its manifest, with this file mode of all members."""
    with zipfile.ZipFile(archive) as before:
        members = {name: before.read(name) for name in before.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    change(members, manifest)
    hostile = archive.with_name("hostile.zip")
    with zipfile.ZipFile(hostile, "w") as after:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            after.writestr(entry, content)
        after.writestr("manifest.json", json.dumps(manifest))
    return hostile


def planted(name: str) -> Callable[[dict[str, bytes], dict], None]:
    def change(members: dict[str, bytes], manifest: dict) -> None:
        members[name] = members["models/0123.npz"]
        manifest["members"][name] = manifest["members"]["models/0123.npz"]

    return change


class TestRestore:
    @pytest.mark.parametrize(
        "name",
        [
            "../outside",
            "/outside",
            "models/../../outside",
            "models//a",
            "./a",
            "models/0123.npz/a",
            "checkpoints/4567.key",
            "cluster/ready.json",
            "cluster.pem",
            "x" * 256,
            "a\0b",
        ],
    )
    def test_no_name_leads_out_or_plants_keys(self, archive, other, tmp_path, name):
        before = set(tmp_path.rglob("*"))
        hostile = changed(archive, planted(name))
        with pytest.raises(InvalidConfig):
            backup.restore(other, hostile)
        assert set(tmp_path.rglob("*")) - before == {hostile}

    def test_links_are_written_as_files(self, archive, other):
        """A zip marks links by a mode, which is not used."""
        hostile = changed(archive, planted("models/link.npz"), mode=stat.S_IFLNK | 0o777)
        backup.restore(other, hostile)
        assert stat.S_ISREG((other.home / "models/link.npz").lstat().st_mode)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda members, manifest: members.update({"models/0123.npz": bytes(256)}), "differs from its checksum"),
            (lambda members, manifest: members.update({"models/0123.npz": b"short"}), "another size"),
            (lambda members, manifest: members.pop("models/0123.npz"), "not in both"),
            (lambda members, manifest: members.update(more=b""), "not in both"),
            (lambda members, manifest: manifest.update(format=2), "install a newer version"),
            (lambda members, manifest: manifest.update(members=7), "manifest cannot be read"),
            (lambda members, manifest: manifest.update(database="nothing"), "manifest cannot be read"),
            (lambda members, manifest: manifest["members"]["models/0123.npz"].update(size=-1), "cannot be read"),
        ],
    )
    def test_changed_backup_is_refused(self, archive, other, change, message):
        with pytest.raises(InvalidConfig, match=message):
            backup.restore(other, changed(archive, change))
        assert not other.home.parent.exists()

    @pytest.mark.parametrize("kept", [0, 100, 0.5, 0.99])
    def test_backup_that_was_cut_off_is_refused(self, archive, other, kept):
        content = archive.read_bytes()
        archive.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
        with pytest.raises(InvalidConfig, match="not a complete backup"):
            backup.restore(other, archive)
        assert not other.home.parent.exists()

    def test_backup_larger_than_the_disk_is_refused_before_it_is_written(self, archive, other, monkeypatch):
        monkeypatch.setattr(backup.shutil, "disk_usage", lambda _: _Usage())
        with pytest.raises(StoreError, match="free"):
            backup.restore(other, archive)
        assert not other.home.parent.exists()

    def test_home_that_is_not_empty_is_refused_unchanged(self, archive, settings):
        before = files(settings.home)
        with pytest.raises(InvalidConfig, match=r"is not empty.*move this folder"):
            backup.restore(settings, archive)
        assert files(settings.home) == before

    def test_home_of_a_running_dashboard_is_refused(self, archive, other):
        cluster = ClusterFiles(other)
        cluster.make()
        cluster.add_owner(os.getpid())
        with pytest.raises(InvalidConfig, match=rf"in use by a dashboard \(process {os.getpid()}\): stop it"):
            backup.restore(other, archive)

    @pytest.mark.parametrize("mounted", [False, True])
    def test_full_disk_leaves_nothing(self, archive, other, monkeypatch, mounted):
        other.home.mkdir(parents=True)
        number = iter(range(100))

        def full(_: int) -> None:
            if next(number) == 3:
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(backup_archive.os, "fsync", full)
        if mounted:
            monkeypatch.setattr(backup, "_remove_empty", lambda home: False)
        with pytest.raises(StoreError, match="No space left"):
            backup.restore(other, archive)
        assert not files(other.home.parent)

    def test_kill_leaves_no_home_and_the_next_restoration_succeeds(self, archive, other):
        code = f"""
import os, signal
from engine.service import backup
from engine.settings import REPOSITORY, Settings
from engine.store import backup_archive
from pathlib import Path
left = iter(range(2, -1, -1))
backup_archive.os.fsync = lambda number: next(left) or os.kill(os.getpid(), signal.SIGKILL)
backup.restore(Settings(home=Path({str(other.home)!r}), data_dir=None, store_url={str(other.store_url)!r}),
    Path({str(archive)!r}))
"""
        killed = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert not other.home.exists()
        assert files(other.home.parent)
        backup.restore(other, archive)
        assert files(other.home) == {*SAVED, "runs.sqlite"}
        assert [path.name for path in other.home.parent.iterdir()] == ["other"]

    def test_mounted_home_is_filled_in_place(self, archive, other, monkeypatch):
        other.home.mkdir(parents=True)

        def busy(path: Path) -> None:
            raise OSError(errno.EBUSY, "Device or resource busy")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rmdir", lambda path: busy(path) if path == other.home else os.rmdir(path))
            backup.restore(other, archive)
        assert files(other.home) == {*SAVED, "runs.sqlite"}
        assert not [path for path in other.home.iterdir() if path.name.startswith(".")]

    def test_home_that_appears_meanwhile_is_not_taken_for_the_restored_one(self, archive, other, monkeypatch):
        extract = backup_archive.extract

        def and_create(*given) -> None:
            extract(*given)
            (other.home / "cluster").mkdir(parents=True)

        monkeypatch.setattr(backup_archive, "extract", and_create)
        with pytest.raises(StoreError, match="nothing was restored"):
            backup.restore(other, archive)
        assert [path.name for path in other.home.iterdir()] == ["cluster"]

    def test_disk_that_returns_other_content_is_detected(self, archive, other, monkeypatch):
        utime = os.utime

        def damage(path: Path, times: tuple[float, float]) -> None:
            if path.name == "0123.npz":
                path.write_bytes(bytes(len(path.read_bytes())))
            utime(path, times)

        monkeypatch.setattr(backup_archive.os, "utime", damage)
        with pytest.raises(StoreError, match="after it was written"):
            backup.restore(other, archive)
        assert not files(other.home.parent)

    @pytest.mark.parametrize("version", [1, 2])
    def test_database_of_an_older_version_is_upgraded(self, settings, other, tmp_path, version):
        settings.home.mkdir()
        database(settings.home / "runs.sqlite", version)
        backup.create(settings, tmp_path / "epsilon.zip")
        backup.restore(other, tmp_path / "epsilon.zip")
        store = RunStore(other.store_url)
        assert store.get(FIRST).status.state == RunState.DONE
        store.close()

    def test_database_of_a_newer_version_is_refused(self, settings, saved, other, tmp_path):
        with saved.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '99'")
        backup.create(settings, tmp_path / "epsilon.zip")
        with pytest.raises(InvalidConfig, match="install that version"):
            backup.restore(other, tmp_path / "epsilon.zip")
        assert not files(other.home.parent)


class _Usage:
    free = 1000


@pytest.mark.repeats(area="processes", after=1)
@pytest.mark.parametrize("config", [CONFIG, SEEDED_TWIN], ids=["system", "seeded"])
def test_running_run_continues_unless_its_noise_keys_are_gone(
    trained_settings, other, encoded, tmp_path, monkeypatch, config
):
    """A run with system noise fails and says why: with new keys it would release the same steps with other noise."""
    monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)
    app, save, count = Application(trained_settings), Checkpoint.save, iter(range(100))
    identity = run_id(config, resolve(config.corpus, trained_settings).checksum)

    def interrupted(found: Checkpoint, *arguments: object) -> None:
        save(found, *arguments)
        if next(count) == 2:
            raise Killed

    app.runs.submit(config)
    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(Checkpoint, "save", interrupted)
        compute(identity, trained_settings, "here/1")
    assert app.queries.status(identity).state == RunState.RUNNING
    backup.create(trained_settings, tmp_path / "epsilon.zip")
    app.close()
    restored = backup.restore(other, tmp_path / "epsilon.zip")
    assert restored.unfinished == (identity,)
    assert restored.lost == ((identity,) if config is CONFIG else ())
    share(encoded, other.home)
    there = Application(other)
    assert there.queries.status(identity).state == RunState.QUEUED
    assert len(there.queries.rounds(identity)) == 3
    compute(identity, other, "there/1")
    run = there.queries.get(identity)
    there.close()
    if config is CONFIG:
        assert run.status.state == RunState.FAILED
        assert "noise keys of this run are missing" in run.status.error
        assert len(run.records) == 3
    else:
        assert run.status.state == RunState.DONE
        assert timeless(run.records) == trained(trained_settings, config)[0]
