"""Coverage-guided fuzzing of two file readers, with atheris where it can be installed.

    uv venv --python 3.11 FOLDER && uv pip install --python FOLDER atheris==3.0.0
    PYTHONPATH=.venv/lib/python3.11/site-packages FOLDER/bin/python -m benchmarks.guided_fuzzing corpora 300

The fuzz tests (tests/engine/fuzz) mutate valid files at random and run everywhere; this command searches further, from
the same files. It has an environment of its own, since nothing else needs atheris. It ends at the first crash and
keeps the file that caused it.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["engine.corpus", "engine.config", "engine.experiments", "engine.validation"]):
    from engine.config import SimulationConfig
    from engine.corpus import brat, conll, rel
    from engine.experiments import sweeps

from engine.errors import EpsilonError

MAX_BYTES = 4096
SWEEP_FILE = Path(tempfile.mkdtemp()) / "a.toml"
"""File of the sweep, since the reader takes files only."""


def corpora(data: bytes) -> None:
    """Read a column file, relations or a text with offsets; the first byte chooses the format."""
    kind, rest = data[:1], data[1:]
    if kind == b"c":
        conll.read(rest, "x.conll")
    elif kind == b"r":
        rel.read({"DRUG-AE.rel": rest})
    else:
        text, _, mentions = rest.partition(b"\0")
        brat.read({"a.txt": text, "a.ann": mentions})


def settings(data: bytes) -> None:
    """Read a configuration in JSON and a sweep file."""
    if data[:1] == b"{":
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return
        SimulationConfig.from_dict(value)
    else:
        SWEEP_FILE.write_bytes(data)
        sweeps.read(SWEEP_FILE)


READERS: dict[str, Callable[[bytes], None]] = {"corpora": corpora, "settings": settings}


def valid(reader: str) -> list[bytes]:
    """Return the valid files that fuzzing starts from."""
    from tests.engine.fuzz.test_corpora import BIOES, COLUMNS, MENTIONS, REL, TEXT
    from tests.engine.fuzz.test_kept import SMALL, SWEEP

    if reader == "corpora":
        return [b"c" + COLUMNS, b"c" + BIOES, b"r" + REL, b"t" + TEXT + b"\0" + MENTIONS]
    return [json.dumps(SMALL.to_dict()).encode(), SWEEP]


def main() -> None:
    """Fuzz a reader for the given number of seconds."""
    parser = argparse.ArgumentParser(description="Fuzz a reader, guided by code coverage.")
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("seconds", type=int)
    chosen = parser.parse_args()
    read, folder = READERS[chosen.reader], Path(tempfile.mkdtemp())
    for number, data in enumerate(valid(chosen.reader)):
        (folder / str(number)).write_bytes(data)

    def once(data: bytes) -> None:
        try:
            read(data)
        except EpsilonError as error:
            if not str(error).strip():
                raise AssertionError("an error without a message") from error

    limits = [f"-max_total_time={chosen.seconds}", f"-max_len={MAX_BYTES}", "-timeout=10", "-rss_limit_mb=3000"]
    atheris.Setup([sys.argv[0], *limits, str(folder)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
