"""Download of public corpora from their pinned source, with checksum verification."""

from collections.abc import Callable
from pathlib import Path

from engine.corpus.catalogue import NAMED, CorpusFile, Entry
from engine.corpus.files import fetched_folder
from engine.errors import CorpusError
from engine.settings import Settings

TIMEOUT = 20
"""Seconds without a response after which a download is aborted."""
_CHUNK = 8192


def fetch(name: str, settings: Settings, progress: Callable[[float], None] = lambda share: None) -> Path:
    """Download the corpus ``name`` and return its folder.

    Args:
        name: Name of a corpus that may be downloaded.
        settings: Folders of this machine.
        progress: Called with the share of bytes received, 0 to 1.

    Raises:
        CorpusError: If the name is unknown, the corpus may not be downloaded, or a file has the wrong checksum.
    """
    entry = NAMED.get(name)
    if entry is None or entry.base is None:
        available = ", ".join(entry.name for entry in NAMED.values() if entry.base)
        why = f" {entry.note}" if entry else ""
        raise CorpusError(f"corpus={name!r} cannot be downloaded, expected one of {available}.{why}")
    return fetch_entry(entry, settings, progress)


def fetch_entry(entry: Entry, settings: Settings, progress: Callable[[float], None] = lambda share: None) -> Path:
    """Download all files of ``entry`` that are missing and return their folder.

    Args:
        entry: The corpus.
        settings: Folders of this machine.
        progress: Called with the share of bytes received, 0 to 1.

    Raises:
        CorpusError: If a file cannot be downloaded or stored, or has the wrong checksum.
    """
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
            raise CorpusError(f"{url} cannot be downloaded: the server answers {error}") from error
        except requests.RequestException as error:
            raise CorpusError(f"{url} cannot be downloaded: no connection, or it was interrupted") from error
        except ValueError as error:
            raise CorpusError(
                f"{url} is not the expected file of {entry.name} (wrong SHA-256); it was discarded"
            ) from error
        except OSError as error:
            raise CorpusError(f"{url} cannot be saved in {folder}: {error.strerror or error}") from error
        done += file.size
    progress(1.0)
    return folder


class _Meter:
    """Progress meter for pooch; it also aborts a download that is longer than expected."""

    def __init__(self, file: CorpusFile, on_progress: Callable[[int], None]) -> None:
        self.total = 0
        self._file, self._on_progress, self._got = file, on_progress, 0

    def update(self, received: int) -> None:
        """Count received bytes; the last chunk may be shorter than reported."""
        self._got += received
        if self._got > self._file.size + _CHUNK:
            raise CorpusError(f"{self._file.name} is longer than the {self._file.size:,} bytes expected")
        self._on_progress(min(self._got, self._file.size))

    def reset(self) -> None:
        """Reset the count: pooch counts the whole file once more at the end."""
        self._got = 0

    def close(self) -> None:
        """Do nothing: no resource is open."""
