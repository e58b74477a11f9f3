"""Texts of pages are tagged in a process of their own: TensorFlow, spaCy and their memory stay out of the server.

``python -m engine.service.tagging_client PUBLISHED`` answers one request after another, a line of JSON each, and keeps
what takes seconds to load. It ends when nobody has asked for a while, and when the server does, since nobody then holds
its input open. Nothing of a text is written anywhere.
"""

import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from engine.errors import EpsilonError, InvalidConfig, TrainingFailed
from engine.records import Run, RunKind
from engine.settings import REPOSITORY, Settings
from engine.tagging import published_taggers
from engine.tagging.entities import Entity, Tagged

if TYPE_CHECKING:
    from engine.service.run_service import Application

MOST_CHARACTERS = 20_000
"""Of a text on a page."""
IDLE_SECONDS = 900
SILENT_SECONDS = 300
"""Longest time between two words of the process."""


@dataclass(frozen=True)
class AvailableModel:
    """A run whose tagger can be used. epsilon: what a published one is asked for by, None of one's own."""

    run: Run
    epsilon: str | None


@dataclass(frozen=True)
class TaggingResult:
    """What taggers say of a text, by run. missing: a sentence for each that could say nothing."""

    tagged: Mapping[str, Tagged]
    missing: Mapping[str, str] = field(default_factory=dict)


def available_models(runs: "Application") -> list[AvailableModel]:
    """The published taggers, the least private first, then those that the user's own runs have kept. Of a run of
    several platforms there is none. Raises StoreError."""
    by_config = {run.config: run for run in runs.published()}
    wanted = [(name, by_config.get(config)) for name, config in published_taggers.published().items()]
    listed = [AvailableModel(run, name) for name, run in wanted if run and runs.has_model(run.run_id)]
    known, kept = {offer.run.run_id for offer in listed}, runs.models()
    own = [
        run
        for run in (runs.recent(5000) if kept else [])
        if run.run_id in kept and run.run_id not in known and run.kind == RunKind.RUN and not run.config.platforms
    ]
    return [*listed, *(AvailableModel(runs.get(run.run_id), None) for run in own)]


class TaggingClient:
    """Where texts are handed in; the process behind it is started at the first one. One text at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._one = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._heard = b""

    def tag(self, text: str, identities: Collection[str], tell: Callable[[str], None]) -> TaggingResult:
        """What the taggers of these runs say of a text. tell: is told what is going on; it may raise. Raises
        InvalidConfig for a text that is empty or too long, TrainingFailed if the process breaks down."""
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
                except (BrokenPipeError, EOFError):  # it had been idle for too long, or broke down
                    self._end()
                    if attempt:
                        break
            raise TrainingFailed("The text could not be tagged: the process that does it broke down, or says nothing")

    def close(self) -> None:
        """End the process."""
        with self._one:
            self._end()

    def _running(self, tell: Callable[[str], None]) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            tell("starting the taggers")
            self._heard = b""
            here = {"EPSILON_HOME": str(self._settings.home), "EPSILON_ARTIFACT_URL": self._settings.shared or ""}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "engine.service.tagging_client", str(self._settings.published)],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | here | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            )
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], number: int, tell: Callable[[str], None]) -> TaggingResult:
        """The answer to one request; those to requests that were left are passed over. Raises EOFError if there is
        none."""
        while said := self._line(process):
            fields = json.loads(said)
            if fields["number"] != number:
                continue
            if "stage" not in fields:
                return _answer(fields)
            tell(str(fields["stage"]))
        raise EOFError

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        """The next line; empty at the end, or where it takes too long."""
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


def main() -> int:
    """Answer requests until none has come for a while; the value is the exit code."""
    from engine.service.run_service import Application
    from engine.tagging.pipeline import TextTagger

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    runs, number = Application(replace(Settings.from_environment(), published=Path(sys.argv[1]))), 0

    def say(**values: object) -> None:
        answers.write(json.dumps({"number": number, **values}) + "\n")
        answers.flush()

    tagger = TextTagger(runs.settings, lambda stage: say(stage=stage))
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        try:
            asked = json.loads(requests.get(timeout=IDLE_SECONDS))
        except queue.Empty:
            return 0
        number = asked["number"]
        tagged, missing = _tagged(runs, tagger, asked["text"], asked["runs"])
        spans = next((each.spans for each in tagged.values()), ())
        fields = {
            run: {
                "tags": each.tags,
                "confidence": [round(share, 4) for share in each.confidence],
                "entities": [(one.start, one.end, one.type, round(one.score, 4)) for one in each.entities],
            }
            for run, each in tagged.items()
        }
        say(spans=spans, tagged=fields, missing=missing)


def _listen(requests: "queue.Queue[str]") -> None:
    """Hand on what is asked; where nobody can ask any more the process ends at once, whatever it is at."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def _tagged(
    runs: "Application", tagger: Any, text: str, identities: Sequence[str]
) -> tuple[dict[str, Tagged], dict[str, str]]:
    """What each tagger says; of those that cannot be used, why."""
    models, missing = {}, {}
    for identity in identities:
        try:
            models[identity] = runs.model(identity)
        except EpsilonError as error:
            missing[identity] = str(error)
    try:
        found = tagger.tag([text], list(models.values()))
        return {run: each[0] for run, each in zip(models, found, strict=True)}, missing
    except EpsilonError:  # say, no language model: others may need none
        tagged = {}
        for identity, model in models.items():
            try:
                tagged[identity] = tagger.tag([text], [model])[0][0]
            except EpsilonError as error:
                missing[identity] = str(error)
        return tagged, missing


if __name__ == "__main__":
    sys.exit(main())
