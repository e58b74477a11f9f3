"""Public corpora from their pinned source, checked before they are kept."""

from collections.abc import Callable
from pathlib import Path

from engine.corpus.catalogue import NAMED, CorpusFile, Entry
from engine.corpus.files import fetched_folder
from engine.errors import CorpusError
from engine.settings import Settings

TIMEOUT = 20
"""Seconds without an answer after which a download is given up."""
_CHUNK = 8192


def fetch(name: str, settings: Settings, progress: Callable[[float], None] = lambda share: None) -> Path:
    """Download the corpus ``name``; returns its folder. ``progress`` is given the share of bytes, 0 to 1.

    Raises CorpusError if the name is unknown, may not be fetched, or a file does not arrive as promised.
    """
    entry = NAMED.get(name)
    if entry is None or entry.base is None:
        can = ", ".join(known.name for known in NAMED.values() if known.base)
        why = f" {entry.note}" if entry else ""
        raise CorpusError(f"corpus={name!r} cannot be fetched, expected one of {can}.{why}")
    return fetch_entry(entry, settings, progress)


def fetch_entry(entry: Entry, settings: Settings, progress: Callable[[float], None] = lambda share: None) -> Path:
    """Download all files of ``entry``. A file that is here already is not fetched again."""
    import pooch
    import requests

    folder = fetched_folder(entry.name, settings)
    done = 0
    pooch.get_logger().setLevel("WARNING")
    for file in entry.files:
        url = f"{entry.base}{file.name}"
        meter = _Meter(file, lambda got, before=done: progress((before + got) / entry.size))  # type: ignore[misc]
        downloader = pooch.HTTPDownloader(progressbar=meter, chunk_size=_CHUNK, timeout=TIMEOUT)
        try:
            pooch.retrieve(url, f"sha256:{file.sha256}", fname=file.name, path=folder, downloader=downloader)
        except requests.HTTPError as error:
            raise CorpusError(f"{url} cannot be fetched: the server answers {error}") from error
        except requests.RequestException as error:
            raise CorpusError(f"{url} cannot be fetched: no connection, or it was cut") from error
        except ValueError as error:
            raise CorpusError(
                f"{url} is not the file that the name {entry.name} promises (wrong SHA-256); it was not kept"
            ) from error
        except OSError as error:
            raise CorpusError(f"{url} cannot be kept in {folder}: {error.strerror or error}") from error
        done += file.size
    progress(1.0)
    return folder


class _Meter:
    """What pooch reports its progress to; it also ends a download that is longer than the file should be."""

    def __init__(self, file: CorpusFile, tell: Callable[[int], None]) -> None:
        self.total = 0
        self._file, self._tell, self._got = file, tell, 0

    def update(self, received: int) -> None:
        """Count bytes; the last piece may be shorter than reported."""
        self._got += received
        if self._got > self._file.size + _CHUNK:
            raise CorpusError(f"{self._file.name} is longer than the {self._file.size:,} bytes that it should have")
        self._tell(min(self._got, self._file.size))

    def reset(self) -> None:
        """Start again: pooch counts the whole file once more at the end."""
        self._got = 0

    def close(self) -> None:
        """Nothing is left open."""
