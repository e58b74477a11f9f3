"""A user's own corpus, read once in a process of its own: its memory goes with it, and a file that takes for ever or
all memory takes neither page nor server along.

``python -m engine.service.corpus_import FILE`` prints what it does, a line each, and in the last one what was read.
What pages ask of a corpus later (layout, sentences shared with what features were fitted on) is kept for them on the
way.
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
from engine.config import FEATURES
from engine.corpus.sentences import Corpus, Sentence
from engine.corpus.uploads import called
from engine.embeddings.contamination import overlap
from engine.errors import CorpusError, EpsilonError
from engine.settings import REPOSITORY, Settings

SECONDS, BYTES = 600, 6_000_000_000
"""Most that the reading of a corpus may take, of time and of address space."""
_WORDS = 40
"""Of the first sentence that are shown."""


@dataclass(frozen=True)
class ImportSummary:
    """What was read. sentences: for training, validation and test. names: how many of each type, in all of them.
    first: the first training sentence with a name, its names in brackets."""

    sentences: tuple[int, int, int]
    names: Mapping[str, int]
    first: str


def read(path: Path, shown: str, settings: Settings, tell: Callable[[str], None]) -> ImportSummary:
    """Read the corpus in ``path``; shown: what its file is called in messages; tell: is told what is going on. Raises
    CorpusError."""
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
    late = threading.Timer(SECONDS, process.kill)
    late.start()
    said: dict[str, object] = {}
    try:
        for line in process.stdout or ():
            said = json.loads(line)
            if stage := said.get("stage"):
                tell(str(stage))
    finally:
        late.cancel()
        process.kill()
        process.wait()
    if "error" in said:
        raise CorpusError(called(str(said["error"]), path, shown))
    if "names" not in said:
        raise CorpusError(f"{shown} could not be read: it takes more than {SECONDS // 60} minutes, or all memory")
    sentences, names = said["sentences"], said["names"]
    if not isinstance(sentences, list) or not isinstance(names, dict):
        raise CorpusError(f"{shown} could not be read")
    train, validation, test = map(int, sentences)
    return ImportSummary(
        (train, validation, test), {str(name): int(n) for name, n in names.items()}, str(said["first"])
    )


_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""Each thread of a library takes address space."""


def main() -> int:
    """Read the file that the command line names; the value is the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    handle = corpora.resolve(sys.argv[1], Settings.from_environment())
    try:
        _say(stage="Reading its sentences and tags")
        whole = handle.load()
        _say(stage="Counting names")
        _ = handle.layout
        _say(stage="Comparing it with the sentences that features were fitted on")
        overlap(handle, FEATURES[-1])
    except EpsilonError as error:
        _say(error=str(error))
        return 2
    except MemoryError:
        return 1
    parts = (whole.train, whole.validation, whole.test)
    _say(sentences=[len(part) for part in parts], names=_names(whole), first=_first(whole))
    return 0


def _say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def _names(whole: Corpus) -> Counter[str]:
    parts = (whole.train, whole.validation, whole.test)
    return Counter(tag[2:] for part in parts for sentence in part for tag in sentence.tags if tag.startswith("B-"))


def _first(whole: Corpus) -> str:
    found = next((sentence for sentence in whole.train if any(tag != "O" for tag in sentence.tags)), whole.train[0])
    return _marked(found)


def _marked(sentence: Sentence) -> str:
    """The sentence with its names in brackets: "[Rosa PER] lives in [Ulm LOC]"."""
    words: list[str] = []
    for place, (token, tag) in enumerate(zip(sentence.tokens, sentence.tags, strict=True)):
        after = sentence.tags[place + 1] if place + 1 < len(sentence.tags) else "O"
        begins, ends = tag.startswith("B-"), tag != "O" and after != f"I-{tag[2:]}"
        words.append(f"{'[' if begins else ''}{token}{f' {tag[2:]}]' if ends else ''}")
    return " ".join(words[:_WORDS]) + (" …" if len(words) > _WORDS else "")


if __name__ == "__main__":
    sys.exit(main())
