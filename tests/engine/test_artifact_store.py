"""Shared files are written atomically and found from other machines."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from engine.artifact_store import ArtifactStore, atomic_write
from engine.errors import RunStopped, StoreError
from engine.settings import REPOSITORY


@pytest.fixture(params=["a folder", "elsewhere"])
def stores(request, tmp_path):
    """Return the artifact stores of two machines that share files, in one folder or through remote storage."""
    if request.param == "a folder":
        return tuple(ArtifactStore(str(tmp_path / "home"), tmp_path / "home") for _ in range(2))
    system = fsspec.filesystem("memory")
    if system.exists("/shared"):
        system.rm("/shared", recursive=True)
    return tuple(ArtifactStore("memory://shared", tmp_path / name) for name in ("one", "two"))


def test_files_are_found_by_the_other_machine(stores) -> None:
    one, two = stores
    assert one.get("models/a.npz") is None
    with one.write("models/a.npz", "The tagger") as path:
        path.write_bytes(b"weights")
    with one.write("encoded/b", "The corpus", folder=True) as folder:
        (folder / "rows.npy").write_bytes(b"rows")
        (folder / "tags.json").write_text("[]")
    for artefacts in (two, one):
        assert artefacts.get("models/a.npz").read_bytes() == b"weights"
        assert sorted(file.name for file in artefacts.get("encoded/b").iterdir()) == ["rows.npy", "tags.json"]
        assert artefacts.sizes("models") == {"models/a.npz": 7}
    assert two.get("encoded/c") is None
    assert two.sizes("nothing") == {}


def test_changed_file_is_downloaded_again_and_removed_file_is_gone(stores) -> None:
    one, two = stores
    for content in (b"first", b"second"):
        with one.write("checkpoints/a.npz", "The checkpoint") as path:
            path.write_bytes(content)
        assert two.get("checkpoints/a.npz", changes=True).read_bytes() == content
    two.remove("checkpoints/a.npz")
    assert two.get("checkpoints/a.npz", changes=True) is None
    with one.write("encoded/b", "The corpus", folder=True) as folder:
        (folder / "rows.npy").write_bytes(b"rows")
    one.remove("encoded/b")
    assert two.get("encoded/b") is None
    two.remove("never/there")


def test_failed_write_keeps_the_old_file(stores) -> None:
    one, _ = stores
    with one.write("models/a.npz", "The tagger") as path:
        path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), one.write("models/a.npz", "The tagger") as path:
        path.write_bytes(b"half of the ne"[: 1 // 0])
    found = one.get("models/a.npz")
    assert found.read_bytes() == b"old"
    assert [each.name for each in found.parent.iterdir()] == ["a.npz"]


def test_files_of_killed_processes_only_are_removed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from engine.artifact_store import atomic_write\n"
        "with atomic_write(Path(sys.argv[1]), 'It') as path:\n"
        "    path.write_bytes(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], cwd=REPOSITORY, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1
    with atomic_write(tmp_path / "b", "It") as mine:
        mine.write_bytes(b"mine")
        with atomic_write(tmp_path / "c", "It") as other:
            other.write_bytes(b"other")
    assert sorted(os.listdir(tmp_path)) == ["b", "c"]


def test_files_of_other_machines_are_not_removed(tmp_path: Path) -> None:
    """Machines that share a folder may have names that contain each other's name and process numbers."""
    here, dead = socket.gethostname(), 2**22 + 1
    for name in (f".passing-{dead}@{here}-5@x", f".passing-{dead}@5-{here}@x", f".passing-{here}-{dead}-x"):
        (tmp_path / name).mkdir()
    (tmp_path / f".passing-{dead}@{here}@x").mkdir()
    with atomic_write(tmp_path / "a", "It") as path:
        path.write_bytes(b"")
    assert len(os.listdir(tmp_path)) == 4
    assert not (tmp_path / f".passing-{dead}@{here}@x").exists()


def test_first_of_two_concurrent_folders_wins(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "made", "It", folder=True) as slow:
        (slow / "a").write_text("slow")
        with atomic_write(tmp_path / "made", "It", folder=True) as quick:
            (quick / "a").write_text("quick")
    assert (tmp_path / "made" / "a").read_text() == "quick"
    assert os.listdir(tmp_path) == ["made"]


def test_unwritable_path_raises(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("in the way")
    making = ArtifactStore(str(tmp_path), tmp_path).write("models/a.npz", "The tagger")
    with pytest.raises(StoreError, match=r"The tagger .*not be written .*models/a\.npz: "), making as path:
        path.write_bytes(b"")


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "models/../../out", ""])
def test_names_outside_the_folder_are_refused(stores, name: str) -> None:
    for ask in (stores[0].local_path, stores[0].get, stores[0].remove):
        with pytest.raises(StoreError, match="is not a valid name"):
            ask(name)


def test_unknown_address_raises(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"EPSILON_ARTIFACT_URL"):
        ArtifactStore("nowhere://x", tmp_path).get("models/a.npz")


def test_archive_with_path_traversal_is_refused(tmp_path: Path) -> None:
    import io
    import tarfile

    bad = io.BytesIO()
    with tarfile.open(fileobj=bad, mode="w") as file:
        entry = tarfile.TarInfo("../escaped")
        entry.size = 1
        file.addfile(entry, io.BytesIO(b"x"))
    system = fsspec.filesystem("memory")
    system.pipe("/hostile/encoded/a.tar", bad.getvalue())
    with pytest.raises(StoreError, match="cannot be downloaded"):
        ArtifactStore("memory://hostile", tmp_path / "near").get("encoded/a")
    assert not list(tmp_path.rglob("escaped"))


def test_lock_blocks_other_processes(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from engine.artifact_store import ArtifactStore\n"
        f"with ArtifactStore({str(tmp_path)!r}, Path({str(tmp_path)!r})).lock('features/a.npy', lambda: None):\n"
        "    print('has it', flush=True); sys.stdin.readline()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    assert other.stdin
    assert other.stdout
    assert other.stdout.readline() == "has it\n"
    ours, waited = ArtifactStore(str(tmp_path), tmp_path), []

    def waiting() -> None:
        waited.append(True)
        if len(waited) == 3:
            other.kill()  # a lock ends with its process

    with ours.lock("features/b.npy", lambda: pytest.fail("another file")), ours.lock("features/a.npy", waiting):
        assert len(waited) >= 3
    other.wait()

    def stop() -> None:
        raise RunStopped("stopped")

    with ours.lock("features/a.npy", waiting), pytest.raises(RunStopped), ours.lock("features/a.npy", stop):
        pytest.fail("it is held")
