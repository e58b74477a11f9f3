"""Reading of an uploaded corpus in a separate process with limits on time and memory.

A file that needs too much time or memory therefore affects neither the page nor the server.
``python -m engine.service.corpus_import FILE`` prints its stages as lines of JSON and the summary in the last line. It
also caches what pages need later: the sentence metadata, and the overlap with the data that features were fitted on.
"""

import json
import os
import resource
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine import corpus as corpora
from engine.config.feature_registry import MOST_FITTED
from engine.corpus.sentences import Corpus, Sentence
from engine.corpus.uploads import called
from engine.embeddings.contamination import overlap
from engine.errors import CorpusError, EpsilonError
from engine.settings import REPOSITORY, Settings

SECONDS, BYTES = 600, 6_000_000_000
"""Limits for reading a corpus: seconds of time and bytes of address space."""
_WORDS = 40
"""Maximum number of words of the example sentence."""


@dataclass(frozen=True)
class ImportSummary:
    """Summary of a corpus.

    Attributes:
        sentences: Number of training, validation and test sentences.
        names: Number of entities of each type, in all three sets.
        first: The first training sentence with an entity, its entities in brackets.
    """

    sentences: tuple[int, int, int]
    names: Mapping[str, int]
    first: str


def read(path: Path, shown: str, settings: Settings, tell: Callable[[str], None]) -> ImportSummary:
    """Read a corpus in a separate process.

    Args:
        path: File of the corpus.
        shown: Name of the file in messages.
        settings: The settings.
        tell: Callback with each stage, in words.

    Raises:
        CorpusError: If the corpus cannot be read within the limits.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.service.corpus_import", str(path)],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ
        | {"EPSILON_HOME": str(settings.home), "EPSILON_ARTIFACT_URL": settings.shared or ""}
        | _ONE_THREAD,
    )
    timeout = threading.Timer(SECONDS, process.kill)
    timeout.start()
    message: dict[str, object] = {}
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
        raise CorpusError(f"{shown} could not be read: it needs more than {SECONDS // 60} minutes or too much memory")
    sentences, names = message["sentences"], message["names"]
    if not isinstance(sentences, list) or not isinstance(names, dict):
        raise CorpusError(f"{shown} could not be read")
    train, validation, test = map(int, sentences)
    return ImportSummary(
        (train, validation, test), {str(name): int(n) for name, n in names.items()}, str(message["first"])
    )


_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""Limits libraries to one thread, since each thread uses address space."""


def main() -> int:
    """Read the file that the command line names; return the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    handle = corpora.resolve(sys.argv[1], Settings.from_environment())
    try:
        _say(stage="Reading sentences and tags")
        corpus = handle.load()
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
    _say(sentences=[len(part) for part in parts], names=_entities(corpus), first=_first(corpus))
    return 0


def _say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def _entities(corpus: Corpus) -> Counter[str]:
    parts = (corpus.train, corpus.validation, corpus.test)
    return Counter(tag[2:] for part in parts for sentence in part for tag in sentence.tags if tag.startswith("B-"))


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
