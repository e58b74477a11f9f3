"""Cost of large corpora: ``python -m benchmarks.large_corpus [--sentences N ...] [--json] [--save]``.

Sentences from the templates of the embedded corpus, in a column file. For each size a new process reads and encodes the
file (word vectors), trains a linear tagger privately for some steps at a constant expected batch size, and scores it.
Printed are the seconds of each part, all processor seconds, the peak resident memory, and the microseconds of each
token, which are constant if the time is linear in tokens.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarks.report import finish, markdown
from engine.config import SimulationConfig, TaggerConfig, TrainingConfig
from engine.settings import Settings

SIZES = (10_000, 100_000, 1_000_000)
STEPS, BATCH = 50, 256
COMMAND = [sys.executable, "-m", "benchmarks.large_corpus"]


def write(path: Path, sentences: int) -> int:
    """Write a column file with this number of sentences; return the number of tokens."""
    from engine.corpus import synthetic

    tokens = 0
    with path.open("w", encoding="utf-8") as file:
        for sentence in islice(synthetic.more(0), sentences):
            pairs = zip(sentence.tokens, sentence.tags, strict=True)
            file.write("".join(f"{token}\t{tag}\n" for token, tag in pairs) + "\n")
            tokens += len(sentence.tokens)
    return tokens


def measure(path: Path, home: Path) -> dict[str, float]:
    """Return the seconds of each part in this process, the processor seconds and the peak memory in MB."""
    from engine import embeddings
    from engine.corpus import CorpusHandle
    from engine.simulation import run, setup

    settings = replace(Settings.from_environment(), home=home)
    setup.warm_up(settings)  # compiles, and builds the table of vectors: the same for any corpus
    took, begun, processor = {}, time.perf_counter(), time.process_time()

    def note(name: str) -> None:
        nonlocal begun
        took[name], begun = time.perf_counter() - begun, time.perf_counter()

    handle = CorpusHandle(str(path), settings)
    train = len(handle.load().train)
    note("read")
    embeddings.encode(handle, SimulationConfig().embeddings, "vectors")
    note("encode")
    training = TrainingConfig(batch_size=BATCH, epochs=STEPS * BATCH / train)
    config = SimulationConfig(corpus=str(path), tagger=TaggerConfig(name="linear-crf"), training=training)
    for record in run.simulate(config, settings):
        last = record
    note("train and score")
    took["processor"] = time.process_time() - processor
    took["f1"] = last.test.f1 if last.test else 0.0
    return took | {"memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, action="append", help="default: 10,000, 100,000 and 1,000,000")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", action="store_true", help="save the result")
    parser.add_argument("--measure", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        sys.stdout.write(json.dumps(measure(*options.measure)) + "\n")
        return
    rows, cells = [], []
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sentences or SIZES:
            path = Path(folder) / f"{size}.conll"
            tokens, bytes_ = write(path, size), os.path.getsize(path)
            command = [*COMMAND, "--measure", str(path), str(Path(folder) / "home")]
            measured = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            path.unlink()
            cells.append({"sentences": size, "tokens": tokens, "bytes": bytes_} | measured)
            parts = [f"{measured[name]:,.1f}" for name in ("read", "encode", "train and score", "processor")]
            per_token = f"{1e6 * measured['processor'] / tokens:.1f}"
            rows.append(
                (f"{size:,}", f"{tokens:,}", f"{bytes_ / 1e6:,.0f}", *parts, per_token, f"{measured['memory_mb']:,.0f}")
            )
    head = ("sentences", "tokens", "MB", "read, s", "encode, s", "train and score, s", "processor, s")
    text = markdown((*head, "processor, µs a token", "memory, MB"), rows)
    finish(
        "large_corpus", {"steps": STEPS, "batch": BATCH, "cells": cells}, text, as_json=options.json, save=options.save
    )


if __name__ == "__main__":
    main()
