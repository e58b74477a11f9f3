"""The client of the process that tags texts, which keeps TensorFlow, spaCy and their memory out of the server."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from engine.errors import InvalidConfig, TrainingFailed
from engine.records import Run
from engine.settings import REPOSITORY, Settings
from engine.tagging.entities import Entity, Tagged

MOST_CHARACTERS = 20_000
"""Largest number of characters of a text on a page."""
IDLE_SECONDS = 900
"""Seconds without a request after which the process ends."""
SILENT_SECONDS = 300
"""Seconds without output after which the process counts as broken."""


@dataclass(frozen=True)
class AvailableModel:
    """A run whose tagger can be used.

    Attributes:
        run: The run.
        epsilon: Name of a published tagger's ε; None for the user's own.
    """

    run: Run
    epsilon: str | None


@dataclass(frozen=True)
class TaggingResult:
    """Results of tagging a text.

    Attributes:
        tagged: Results by run.
        missing: For each run without a result, the reason.
    """

    tagged: Mapping[str, Tagged]
    missing: Mapping[str, str] = field(default_factory=dict)


class TaggingClient:
    """Send texts to the tagging process, one at a time. The process starts with the first text."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._one = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._heard = b""

    def tag(self, text: str, identities: Collection[str], tell: Callable[[str], None]) -> TaggingResult:
        """Tag a text with the taggers of these runs.

        Args:
            text: At most ``MOST_CHARACTERS`` characters.
            identities: Of the runs.
            tell: Called with each stage; it may raise to leave the request.

        Raises:
            InvalidConfig: The text is empty or too long.
            TrainingFailed: The process broke down.
        """
        if not text.strip():
            raise InvalidConfig("The text is empty")
        if len(text) > MOST_CHARACTERS:
            raise InvalidConfig(f"The text has {len(text):,} characters, expected at most {MOST_CHARACTERS:,}")
        with self._one:
            self._number += 1
            asked = json.dumps({"number": self._number, "text": text, "runs": list(identities)}).encode() + b"\n"
            for attempt in range(2):
                process = self._running(tell)
                try:
                    _input(process).write(asked)
                    _input(process).flush()
                    return self._answer(process, self._number, tell)
                except (BrokenPipeError, EOFError):  # it ended after idling, or broke down
                    self._end()
                    if attempt:
                        break
            raise TrainingFailed("The text could not be tagged: the tagging process broke down or does not answer")

    def close(self) -> None:
        """End the process."""
        with self._one:
            self._end()

    def _running(self, tell: Callable[[str], None]) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            tell("starting the taggers")
            self._heard = b""
            here = {"EPSILON_HOME": str(self._settings.home)} | self._settings.address_variables
            self._process = subprocess.Popen(
                [sys.executable, "-m", "engine.service.tagging_process", str(self._settings.published)],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | here | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            )
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], number: int, tell: Callable[[str], None]) -> TaggingResult:
        """Return the answer to a request, skipping answers to abandoned ones. Raises EOFError without an answer."""
        while said := self._line(process):
            fields = json.loads(said)
            if fields["number"] != number:
                continue
            if "stage" not in fields:
                return _answer(fields)
            tell(str(fields["stage"]))
        raise EOFError

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        """Return the next line; empty at the end or after ``SILENT_SECONDS``."""
        while b"\n" not in self._heard:
            output = process.stdout
            if output is None or not select.select([output], [], [], SILENT_SECONDS)[0]:
                return b""
            some = os.read(output.fileno(), 1 << 16)
            if not some:
                return b""
            self._heard += some
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    if pipe:
                        pipe.close()
            self._process = None


def _input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdin is None:
        raise EOFError
    return process.stdin


def _answer(fields: Mapping[str, Any]) -> TaggingResult:
    spans = tuple((int(start), int(end)) for start, end in fields["spans"])
    return TaggingResult(
        tagged={
            run: Tagged(
                spans=spans,
                tags=tuple(each["tags"]),
                confidence=tuple(each["confidence"]),
                entities=tuple(Entity(*entity) for entity in each["entities"]),
            )
            for run, each in fields["tagged"].items()
        },
        missing=fields["missing"],
    )
