"""Files that runs share: whole or not at all, and found on a machine that has none of them."""

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
def places(request, tmp_path):
    """Two machines that share files, and what the second one has to begin with: all of it where the folder is one."""
    if request.param == "a folder":
        return tuple(ArtifactStore(str(tmp_path / "home"), tmp_path / "home") for _ in range(2))
    system = fsspec.filesystem("memory")
    if system.exists("/shared"):
        system.rm("/shared", recursive=True)
    return tuple(ArtifactStore("memory://shared", tmp_path / name) for name in ("one", "two"))


def test_what_one_writes_the_other_finds(places) -> None:
    one, two = places
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


def test_what_changes_is_brought_again_and_what_is_removed_is_gone(places) -> None:
    one, two = places
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


def test_nothing_remains_of_what_was_not_written_to_its_end(places) -> None:
    one, _ = places
    with one.write("models/a.npz", "The tagger") as path:
        path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), one.write("models/a.npz", "The tagger") as path:
        path.write_bytes(b"half of the ne"[: 1 // 0])
    found = one.get("models/a.npz")
    assert found.read_bytes() == b"old"
    assert [each.name for each in found.parent.iterdir()] == ["a.npz"]


def test_what_a_killed_process_had_begun_is_swept_and_what_others_write_is_not(tmp_path: Path) -> None:
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


def test_what_another_machine_writes_is_left_alone_whatever_it_is_called(tmp_path: Path) -> None:
    """Two machines that share a folder, one called like the other and a number that is no process here."""
    here, dead = socket.gethostname(), 2**22 + 1
    for name in (f".passing-{dead}@{here}-5@x", f".passing-{dead}@5-{here}@x", f".passing-{here}-{dead}-x"):
        (tmp_path / name).mkdir()
    (tmp_path / f".passing-{dead}@{here}@x").mkdir()
    with atomic_write(tmp_path / "a", "It") as path:
        path.write_bytes(b"")
    assert len(os.listdir(tmp_path)) == 4
    assert not (tmp_path / f".passing-{dead}@{here}@x").exists()


def test_the_first_of_two_that_make_the_same_folder_wins(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "made", "It", folder=True) as slow:
        (slow / "a").write_text("slow")
        with atomic_write(tmp_path / "made", "It", folder=True) as quick:
            (quick / "a").write_text("quick")
    assert (tmp_path / "made" / "a").read_text() == "quick"
    assert os.listdir(tmp_path) == ["made"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("in the way")
    making = ArtifactStore(str(tmp_path), tmp_path).write("models/a.npz", "The tagger")
    with pytest.raises(StoreError, match=r"The tagger .*not be written .*models/a\.npz: "), making as path:
        path.write_bytes(b"")


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "models/../../out", ""])
def test_no_name_leaves_the_folder(places, name: str) -> None:
    for ask in (places[0].local_path, places[0].get, places[0].remove):
        with pytest.raises(StoreError, match="is not a valid name"):
            ask(name)


def test_an_address_that_nothing_knows_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"EPSILON_ARTIFACT_URL"):
        ArtifactStore("nowhere://x", tmp_path).get("models/a.npz")


def test_a_copy_that_would_unpack_elsewhere_is_refused(tmp_path: Path) -> None:
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


def test_of_two_processes_one_waits_for_what_the_other_makes(tmp_path: Path) -> None:
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
