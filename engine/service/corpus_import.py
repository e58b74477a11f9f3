"""Reading of an uploaded corpus in a separate process with limits on time and memory.

A file that needs too much time or memory therefore affects neither the page nor the server.
``python -m engine.service.corpus_import FILE`` prints its stages as lines of JSON and the summary in the last line. It
also caches what pages need later: the sentence metadata, the checksums of the sentences, and the overlap with the data
that features were fitted on. With ``--inspect`` it caches nothing.
"""

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config.feature_registry import MOST_FITTED
from engine.corpus import CorpusHandle, shared_sentences
from engine.corpus.declared_types import mentions
from engine.corpus.sentences import Corpus, Sentence
from engine.corpus.text_decoding import MAX_BYTES
from engine.corpus.uploads import called
from engine.embeddings.contamination import overlap
from engine.errors import CorpusError, EpsilonError
from engine.service.import_queue import ImportQueue
from engine.settings import REPOSITORY, Settings

SECONDS, BYTES = 600, 6_000_000_000
"""Limits for reading a corpus of the largest size: seconds of time and bytes of address space."""
LARGE = MAX_BYTES // 10
"""Bytes of a file from which on it is read alone, apart from small ones, which have a fifth of the time."""
_INSPECT = "--inspect"
_WORDS = 40
"""Maximum number of words of the example sentence."""
_queue = ImportQueue()
"""Files of all users of this process."""


@dataclass(frozen=True)
class ImportSummary:
    """Summary of a corpus.

    Attributes:
        sentences: Number of training, validation and test sentences.
        names: Number of entities of each type, in all three sets.
        declared: Entity types that the corpus declares; empty if it declares none.
        left_out: Number of mentions without tags, by reason.
        first: The first training sentence with an entity, its entities in brackets.
    """

    sentences: tuple[int, int, int]
    names: Mapping[str, int]
    declared: tuple[str, ...]
    left_out: Mapping[str, int]
    first: str

    @property
    def text(self) -> str:
        """The summary in sentences."""
        train, validation, test = self.sentences
        entities = ", ".join(f"{number:,} {kind}" for kind, number in sorted(self.names.items()))
        left_out = "".join(f" Excluded: {number:,} mentions {reason}." for reason, number in self.left_out.items())
        return (
            f"{train + validation + test:,} sentences ({train:,} for training, {validation:,} for validation, "
            f"{test:,} for testing). Entities: {entities}.{left_out} First sentence with an entity: {self.first}"
        )


def read(
    path: Path, shown: str, user: str, settings: Settings, tell: Callable[[str], None], *, inspect: bool = False
) -> ImportSummary:
    """Read a corpus in a separate process, in turns with the files of other users.

    Args:
        path: File or folder of the corpus.
        shown: Name of the file in messages.
        user: Name of its user.
        settings: The settings.
        tell: Callback with each stage, in words.
        inspect: Whether to cache nothing.

    Raises:
        CorpusError: If the corpus cannot be read within the limits.
    """
    large = sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file()) >= LARGE
    with _queue.turn(user, large=large, waiting=lambda: tell("Waiting while other files are read")):
        return _read(path, shown, SECONDS if large else SECONDS / 5, settings, tell, inspect=inspect)


def _read(
    path: Path, shown: str, seconds: float, settings: Settings, tell: Callable[[str], None], *, inspect: bool
) -> ImportSummary:
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.service.corpus_import", *([_INSPECT] if inspect else []), str(path)],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"EPSILON_HOME": str(settings.home)} | settings.address_variables | _ONE_THREAD,
    )
    timeout = threading.Timer(seconds, process.kill)
    timeout.start()
    message: dict[str, Any] = {}
    try:
        for line in process.stdout or ():
            message = json.loads(line)
            if stage := message.get("stage"):
                tell(str(stage))
    finally:
        timeout.cancel()
        process.kill()
        process.wait()
    if "error" in message:
        raise CorpusError(called(str(message["error"]), path, shown))
    if "names" not in message:
        raise CorpusError(
            f"{shown} could not be read: it needs more than {seconds / 60:.0f} minutes or too much memory"
        )
    train, validation, test = message["sentences"]
    return ImportSummary(
        (train, validation, test),
        message["names"],
        tuple(message["declared"]),
        message["left_out"],
        message["first"],
    )


_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""Limits libraries to one thread, since each thread uses address space."""


def main() -> int:
    """Read the file that the command line names; return the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    handle = CorpusHandle(sys.argv[-1], Settings.from_environment())
    try:
        _say(stage="Reading sentences and tags")
        corpus = handle.load()
        if _INSPECT not in sys.argv:
            shared_sentences.remember(handle)
            _say(stage="Counting entities")
            _ = handle.layout
            _say(stage="Comparing with the sentences that features were fitted on")
            overlap(handle, MOST_FITTED.name)
    except EpsilonError as error:
        _say(error=str(error))
        return 2
    except MemoryError:
        return 1
    parts = (corpus.train, corpus.validation, corpus.test)
    _say(
        sentences=[len(part) for part in parts],
        names=mentions(sentence for part in parts for sentence in part),
        declared=corpus.entity_types if corpus.declared else (),
        left_out=corpus.left_out,
        first=_first(corpus),
    )
    return 0


def _say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def _first(corpus: Corpus) -> str:
    first = next((sentence for sentence in corpus.train if any(tag != "O" for tag in sentence.tags)), corpus.train[0])
    return _bracketed(first)


def _bracketed(sentence: Sentence) -> str:
    """Return the sentence with its entities in brackets: "[Rosa PER] lives in [Ulm LOC]"."""
    words: list[str] = []
    for index, (token, tag) in enumerate(zip(sentence.tokens, sentence.tags, strict=True)):
        after = sentence.tags[index + 1] if index + 1 < len(sentence.tags) else "O"
        begins, ends = tag.startswith("B-"), tag != "O" and after != f"I-{tag[2:]}"
        words.append(f"{'[' if begins else ''}{token}{f' {tag[2:]}]' if ends else ''}")
    return " ".join(words[:_WORDS]) + (" …" if len(words) > _WORDS else "")


if __name__ == "__main__":
    sys.exit(main())
