"""Backup of a home while its dashboard runs, and restoration into an empty home.

The database is copied between the checkpoints and the other files. A run then continues from a checkpoint that is not
newer than its records, and a run that is done has its tagger, which is saved before.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from engine import VERSION, file_access
from engine.artifact_store import atomic_write
from engine.cluster.supervisor import ClusterFiles
from engine.errors import InvalidConfig, StoreAddressError, StoreError
from engine.records import RunState
from engine.service.access_service import AccessService, shell_user
from engine.service.context import ServiceContext
from engine.settings import Settings
from engine.store import backup_archive
from engine.store.backup_archive import Manifest, Tell
from engine.store.paths import checkpoint_name

_CHECKPOINTS = "checkpoints/"
_SPARE = 50_000_000
"""Bytes that stay free on the disk after a restoration."""


@dataclass(frozen=True, kw_only=True)
class Restored:
    """The result of a restoration.

    Attributes:
        manifest: The content of the backup.
        unfinished: Identities of queued runs, which start or continue with the next dashboard.
        lost: Identities of those that have begun with system noise: their keys are in no backup, so they will fail.
    """

    manifest: Manifest
    unfinished: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def create(settings: Settings, path: Path, tell: Tell = lambda stage, share: None) -> Manifest:
    """Write a backup of a home to a new file and verify it; other programs may use the home meanwhile.

    Args:
        settings: Of the installation.
        path: The file to write.
        tell: Callback with the stage and the progress.

    Returns:
        The content of the backup.

    Raises:
        InvalidConfig: If the file exists or is in the home, there is no home, or the home has links.
        StoreError: If a file cannot be read or written. Nothing remains of the backup.
    """
    path, home, database = path.absolute(), settings.home, _database(settings)
    if path.exists():
        raise InvalidConfig(f"file={path} exists, expected a new file: a backup never replaces another")
    if path.resolve().is_relative_to(home):
        raise InvalidConfig(f"file={path} is in EPSILON_HOME={home}, expected another folder")
    if not home.is_dir() or (database and not (home / database).is_file()):
        raise InvalidConfig(f"EPSILON_HOME={home} has nothing to save, expected the folder of a dashboard's data")
    context = ServiceContext(settings)
    try:
        AccessService(context).authorize("back up", path.name)
    finally:
        context.close()
    secrets = {file.resolve() for file in settings.secret_files}
    try:
        listed = {name: size for name, file, size in _files(home) if name != database and file not in secrets}
    except OSError as error:
        raise StoreError(f"{home} cannot be read: {error.strerror or error}.") from error
    first = [name for name in listed if name.startswith(_CHECKPOINTS)]
    total, done = max(1, sum(listed.values())), 0
    with atomic_write(path, "The backup") as temporary:
        with backup_archive.writing(temporary, database) as writer:
            for name in first:
                done += writer.add(name, home / name)
            if database:
                copy = temporary.with_name("database")
                backup_archive.copy_database(home / database, copy)
                writer.add(database, copy)
                copy.unlink()
            for name in sorted(listed.keys() - set(first)):
                done += writer.add(name, home / name)
                tell("saving", min(1.0, done / total))
            manifest = writer.finish()
        try:
            verified = backup_archive.verify(temporary, tell)
        except InvalidConfig as error:
            raise StoreError(f"The backup that was written cannot be read back: {error}. It was deleted.") from error
        if verified != manifest:
            raise StoreError("The backup that was written differs from its files. It was deleted.")
    return manifest


def restore(settings: Settings, path: Path, tell: Tell = lambda stage, share: None) -> Restored:
    """Restore a backup into a home that is empty or does not exist, completely or not at all.

    All files are written into a folder beside the home, which is then renamed. If the home cannot be renamed, since it
    is a mounted disk, they are written into a folder inside it and then moved up, the database last. Runs that were
    running are queued. A database of an older version is upgraded.

    Args:
        settings: Of the installation.
        path: The backup.
        tell: Callback with the stage and the progress.

    Raises:
        InvalidConfig: If the home is in use or not empty, the backup is damaged or of a newer version, or the settings
            name another database.
        StoreError: If a file cannot be written.
    """
    path, home, database = path.absolute(), settings.home, _database(settings)
    _refuse_use(settings)
    manifest = backup_archive.verify(path, tell)
    if manifest.database != database:
        raise InvalidConfig(
            f"{path} has {'no' if manifest.database is None else 'an SQLite'} database of runs, but EPSILON_STORE_URL "
            f"names {'an SQLite database' if database else 'a PostgreSQL database'}: expected the setting of the backup"
        )
    free = shutil.disk_usage(next(each for each in (home, *home.parents) if each.is_dir())).free
    if manifest.size + _SPARE > free:
        raise StoreError(f"{path} needs {manifest.size:,} bytes, and the disk of {home} has {free:,} free.")
    beside = _remove_empty(home)
    with atomic_write(home if beside else home / ".restored", "The restored data", folder=True) as folder:
        backup_archive.extract(path, manifest, folder, tell)
        restored = _requeued(settings, path, manifest, folder)
        file_access.correct(folder)
        made = folder.stat()
    try:
        if not beside:
            _move_up(home / ".restored", home, database)
        elif not os.path.samestat(made, home.stat()):
            raise StoreError(f"Another program created {home} meanwhile, so nothing was restored.")
    except OSError as error:
        raise StoreError(f"The restored data cannot be moved to {home}: {error.strerror or error}.") from error
    return restored


def without_database(settings: Settings) -> str:
    """Return what a backup does not contain because it is elsewhere, and how to save it; "" if it contains all."""
    told = []
    if settings.shared and settings.artefacts.folder != settings.home:
        told.append(f"The files that runs share are not in the backup: first copy {settings.shared}, without keys.")
    elif settings.artefacts.elsewhere:
        told.append(f"The files that runs share are not in the backup: they are at {settings.shared}.")
    if _database(settings) is None:
        told.append("The database is not in the backup: save it with pg_dump afterwards.")
    return " ".join([*told, "docs/deploy.md (PostgreSQL) has the commands."]) if told else ""


def _database(settings: Settings) -> str | None:
    """Return the name of the SQLite database in the home; None for PostgreSQL. Raises InvalidConfig."""
    try:
        url = make_url(settings.store_url)
    except ArgumentError as error:
        raise InvalidConfig("EPSILON_STORE_URL is not a valid SQLAlchemy URL") from error
    if url.get_backend_name() != "sqlite":
        return None
    path = Path(url.database or "").absolute()
    if not path.resolve().is_relative_to(settings.home):
        raise InvalidConfig(
            f"EPSILON_STORE_URL names the SQLite database {path}, expected one in EPSILON_HOME={settings.home}"
        )
    return path.resolve().relative_to(settings.home).as_posix()


def _files(home: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the name, path and size of each file to save. Raises InvalidConfig for links, OSError."""

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # a folder that was just removed
            raise error

    for parent, folders, names in os.walk(home, onerror=fail):
        here = Path(parent)
        folders[:] = [
            name for name in folders if backup_archive.is_saved((here / name / "_").relative_to(home).as_posix())
        ]
        for entry in (*folders, *names):
            path = here / entry
            name = path.relative_to(home).as_posix()
            if not backup_archive.is_saved(name):
                continue
            with suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    try:
                        name.encode()
                    except UnicodeEncodeError as error:
                        raise InvalidConfig(f"{path!r} has a name that is not UTF-8: rename it") from error
                    yield name, path, status.st_size
                elif not stat.S_ISDIR(status.st_mode):
                    raise InvalidConfig(
                        f"{path} is a link or a special file, expected files and folders: replace it by its content"
                    )


def _refuse_use(settings: Settings) -> None:
    """Raise InvalidConfig if a dashboard or workers use the home, or it is not empty."""
    files, home = ClusterFiles(settings), settings.home
    owners = files.living_owners() if files.owners.is_dir() else []
    process = files.process()
    if process or owners:
        number = owners[0] if owners else process.pid if process else 0
        raise InvalidConfig(f"EPSILON_HOME={home} is in use by a dashboard (process {number}): stop it first")
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise InvalidConfig(
            f"EPSILON_HOME={home} is not empty, and a restoration replaces nothing: move this folder to another name, "
            "or set EPSILON_HOME to a new one"
        )


def _remove_empty(home: Path) -> bool:
    """Remove an empty home, which a folder beside it will replace; return whether that is possible."""
    try:
        home.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # a mounted disk, or a folder of another user
        return False
    return True


def _move_up(folder: Path, home: Path, database: str | None) -> None:
    """Move all entries of a folder to the home, the database last. Raises OSError."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name == database):
        entry.rename(home / entry.name)
    folder.rmdir()


def _requeued(settings: Settings, path: Path, manifest: Manifest, folder: Path) -> Restored:
    """Upgrade the restored database, queue its running runs, and log the restoration. Raises InvalidConfig."""
    from engine.store.access_store import AccessStore
    from engine.store.run_store import RunStore

    if manifest.database is None:
        return Restored(manifest=manifest)
    store = RunStore(f"sqlite:///{folder / manifest.database}")
    try:
        for run in store.unfinished():
            if run.state == RunState.RUNNING and run.holder is not None:
                store.release(run.holder, in_order=True)
        unfinished = store.newest(100_000, RunState.QUEUED, RunState.RUNNING)[0]
        begun = store.last_records([run.run_id for run in unfinished])
        lost = [
            run.run_id
            for run in unfinished
            if run.config.privacy.noise_source == "system"
            and (run.run_id in begun or checkpoint_name(run.run_id) in manifest.members)
        ]
        if settings.access:
            AccessStore(store).log_action(shell_user(), "restore", f"{path.name} of {manifest.created}")
    except StoreAddressError as error:
        raise InvalidConfig(
            f"{path} is a backup of version {manifest.version}, and its database cannot be read by {VERSION}: "
            "install that version"
        ) from error
    finally:
        store.close()
    return Restored(manifest=manifest, unfinished=tuple(run.run_id for run in unfinished), lost=tuple(lost))
