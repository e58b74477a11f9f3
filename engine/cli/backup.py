"""The commands `backup` and `restore`: all data of a home in one file, and back."""

from pathlib import Path
from typing import Annotated

import typer

from engine.cli.output import Json, progress_bar, write
from engine.settings import Settings


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist.")],
    as_json: Json = False,
) -> None:
    """Save all data of EPSILON_HOME in one file and verify it. The dashboard may run."""
    from engine.service import backup as backups

    settings = Settings.from_environment()
    with progress_bar(quiet=as_json) as on_progress:
        manifest = backups.create(settings, file, on_progress)
    elsewhere = backups.without_database(settings)
    fields = {"file": str(file), "files": len(manifest.members), "bytes": manifest.size, "elsewhere": elsewhere}
    saved = f"{file}: {len(manifest.members):,} files of {manifest.size:,} bytes saved and verified."
    write(as_json, fields, "\n".join(filter(None, [saved, elsewhere])))


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    as_json: Json = False,
) -> None:
    """Restore a backup into an empty EPSILON_HOME, completely or not at all."""
    from engine.service import backup as backups

    settings = Settings.from_environment()
    with progress_bar(quiet=as_json) as on_progress:
        restored = backups.restore(settings, file, on_progress)
    manifest = restored.manifest
    fields = {
        "home": str(settings.home),
        "created": manifest.created,
        "version": manifest.version,
        "files": len(manifest.members),
        "unfinished": restored.unfinished,
        "lost": restored.lost,
    }
    lines = [
        f"{settings.home}: {len(manifest.members):,} files of {manifest.size:,} bytes, saved by version "
        f"{manifest.version} at {manifest.created}."
    ]
    if going := [run for run in restored.unfinished if run not in restored.lost]:
        lines.append(f"{len(going):,} runs are queued and continue when the dashboard starts: {', '.join(going)}.")
    if restored.lost:
        lines.append(
            f"{len(restored.lost):,} runs with system noise cannot continue, since no backup has their keys, and will "
            f"fail: {', '.join(restored.lost)}."
        )
    write(as_json, fields, "\n".join(lines))
