"""Files belong to their owner: new ones, existing ones, and shared ones with their group; no process dumps core."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from engine import file_access
from engine.artifact_store import PUBLIC, ArtifactStore, atomic_write
from engine.settings import REPOSITORY


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def accessible(folder: Path) -> list[str]:
    """Return files and folders to which others have access; links have no mode of their own."""
    every = [folder, *folder.rglob("*")]
    return [str(path) for path in every if not path.is_symlink() and mode(path) & 0o077]


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_existing_files_are_corrected(tmp_path, open_umask):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home / "models", elsewhere):
        folder.mkdir(parents=True)
        (folder / "a.npz").touch()
    (home / "program").touch(0o755)
    (home / "link").symlink_to(elsewhere / "a.npz")
    (home / "folder").symlink_to(elsewhere)
    assert len(accessible(home)) == 4
    assert file_access.correct(home) == ""
    assert not accessible(home)
    assert (mode(home), mode(home / "models" / "a.npz"), mode(home / "program")) == (0o700, 0o600, 0o700)
    assert len(accessible(elsewhere)) == 2
    assert file_access.correct(tmp_path / "missing") == ""


def test_files_that_cannot_be_corrected_are_reported(tmp_path, monkeypatch, open_umask):
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError

    for name in "ab":
        (tmp_path / name).touch()
    monkeypatch.setattr(Path, "chmod", refuse)
    assert all(part in file_access.correct(tmp_path) for part in (str(tmp_path), "and 1 others"))


@pytest.mark.parametrize("inside", [".", ".."])
def test_a_users_own_home_folder_is_left_as_it_is(tmp_path, monkeypatch, open_umask, inside):
    own = tmp_path / "users" / "me"
    own.mkdir(parents=True)
    (own / "public.html").touch()
    monkeypatch.setenv("HOME", str(own))
    assert "choose another folder" in file_access.correct((own / inside).resolve())
    assert mode(own / "public.html") == 0o666


CORES = """
import os, resource, subprocess, sys
from pathlib import Path
from engine import file_access
file_access.protect_process()
child = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
subprocess.run([sys.executable, "-c", child], check=True)
print(Path("/proc/self/coredump_filter").read_text().strip() if os.path.exists("/proc/self/coredump_filter") else "")
"""


def test_processes_dump_no_core():
    made = subprocess.run([sys.executable, "-c", CORES], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    limits, kinds = made.stdout.splitlines()
    assert limits == "(0, 0)"
    assert int(kinds or "0", 16) == 0


@pytest.mark.repeats(area="processes")
def test_command_line_writes_for_its_owner_only(tmp_path, published_index):
    """A home of an earlier version, and a shell that lets others read."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    shutil.copy(published_index, home)
    (home / "old").touch(0o644)
    command = 'umask 0 && exec "$0" -m engine budget set synthetic --epsilon 1'
    variables = os.environ | {"EPSILON_HOME": str(home), "EPSILON_STORE_URL": "", "EPSILON_DATA_DIR": str(tmp_path)}
    made = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=REPOSITORY, env=variables, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert (home / "runs.sqlite").exists()
    assert not accessible(home)


def test_atomic_writes_belong_to_their_owner_unless_they_are_public(tmp_path, open_umask):
    for name, bits in {"private": {}, "published": {"mode": PUBLIC}}.items():
        with atomic_write(tmp_path / name, "The file", **bits) as path:
            path.touch()
    assert (mode(tmp_path / "private"), mode(tmp_path / "published")) == (0o600, 0o644)


class TestSharedFolder:
    @pytest.fixture(params=[0o700, 0o750, 0o2770, 0o777])
    def folder(self, request, tmp_path):
        folder = tmp_path / "shared"
        folder.mkdir()
        folder.chmod(request.param)
        before = os.umask(0o077)
        yield folder
        os.umask(before)

    def test_files_have_the_groups_access_to_the_folder_and_nobody_elses(self, folder, tmp_path):
        group = mode(folder) & 0o070
        store = ArtifactStore(str(folder), tmp_path / "home")
        with store.write("models/a.npz", "The tagger") as path:
            path.touch()
        with store.write("encoded/b", "The arrays", folder=True) as path:
            (path / "rows.npy").touch()
        with store.lock("encoded/b", lambda: None):
            pass
        paths = [path for path in folder.rglob("*") if not path.name.startswith(".passing")]
        assert len(paths) == 8
        for path in paths:
            assert mode(path) & 0o777 == (0o700 | group if path.is_dir() else 0o600 | group & 0o060), path
        assert store.readers == ("you alone" if not group else f"the group {folder.group()}")

    def test_files_in_the_home_belong_to_their_owner(self, folder):
        store = ArtifactStore(str(folder), folder)
        with store.write("models/a.npz", "The tagger") as path:
            path.touch()
        assert mode(folder / "models" / "a.npz") == 0o600
        assert mode(folder / "models") & 0o077 == 0
        assert store.readers == "you alone"
