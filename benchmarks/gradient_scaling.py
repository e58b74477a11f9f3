"""Scaling and breakdown of the time of a private gradient: ``python -m benchmarks.gradient_scaling [--json] [--save]``.

Batches of 32 to 8,192 sentences of CoNLL-like lengths; sentences of 10 to 1,000 tokens at a constant number of tokens;
the share of the arithmetic minimum, the time of the matrix products alone at the speed of a large product on each
core; and the layers' shares at batch 32. Words hardly repeat, so caching of repeated words saves nothing.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.report import finish, interleaved, markdown
from benchmarks.step import BATCH, DIMENSIONS, HIDDEN, TAGS, WORDS, sentences
from engine.config import TaggerConfig
from engine.embeddings import EncodedSplit
from engine.hardware import processor
from engine.privacy.mechanisms import add_gaussian_noise
from engine.seeds import Secrets
from engine.taggers import build
from engine.training.batches import batch_of, physical_batches
from engine.training.compiled.backend import CompiledBackend

BATCHES = (32, 128, 512, 2048, 4096, 8192)
LENGTHS = (10, 30, 100, 300, 1000)
TOKENS = 6000
CLIP = 1.5
ROUNDS = 9
EDGE = 1536
CORES = processor().cores
PRODUCTS = CORES * 2 * EDGE**3


def gradient(
    backend: CompiledBackend, weights: np.ndarray, split: EncodedSplit, table: np.ndarray
) -> Callable[[int], None]:
    """Return a function that computes the clipped sum over all sentences of ``split``, physical batching included."""

    def work(_: int) -> None:
        for batch in physical_batches(split, table, np.arange(len(split))):
            backend.clipped_gradient(weights, batch, CLIP)

    return work


def equal_lengths(length: int, random: np.random.Generator) -> EncodedSplit:
    """Return about ``TOKENS`` random words in sentences of one length."""
    number = max(1, TOKENS // length)
    rows, tags = random.integers(0, WORDS, number * length), random.integers(0, TAGS, number * length)
    return EncodedSplit(rows.astype(np.int32), tags.astype(np.int16), np.arange(number + 1) * length)


@contextmanager
def large_products() -> Iterator[Callable[[int], None]]:
    """Yield a function that computes large float32 products, one on each core, of ``PRODUCTS`` operations."""
    a = [np.random.default_rng(i).standard_normal((EDGE, EDGE)).astype(np.float32) for i in range(CORES)]
    with ThreadPoolExecutor(CORES) as pool:

        def work(_: int) -> None:
            list(pool.map(lambda x: x @ x, a))

        yield work


def operations(tokens: int) -> int:
    """Return the number of multiplications and additions in the matrix products of one gradient, without norms.

    A token's share: the input and the recurrent product forward, the recurrent one back, and both weight gradients, in
    two directions; the dense layer three times.
    """
    gates = 4 * HIDDEN
    lstm = 2 * gates * (DIMENSIONS + HIDDEN + HIDDEN + DIMENSIONS + HIDDEN)
    return tokens * (2 * lstm + 3 * 2 * 2 * HIDDEN * TAGS)


def shares(backend: CompiledBackend, weights: np.ndarray, split: EncodedSplit, table: np.ndarray) -> dict[str, float]:
    """Return the median milliseconds of the parts of a step at batch size 32."""
    chosen = np.random.default_rng(1).choice(len(split), BATCH, replace=False)
    batch = batch_of(split, table, chosen)
    parts = [weights[part] for part in backend.tagger.slices]
    (lstm, dense), head = backend.layers, backend.head
    factors, squares, total = np.ones(BATCH, np.float32), np.zeros(BATCH), np.zeros(weights.size, np.float32)
    stretches = [total[part] for part in backend.tagger.slices]
    times: dict[str, list[float]] = {}
    secrets = Secrets.seeded(0, "growth")

    def timed(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = work(*arguments)
        times.setdefault(name, []).append(1000 * (time.perf_counter() - start))
        return result

    for number in range(300):
        timed("gather the words", batch_of, split, table, chosen)
        hidden, tape = timed("LSTM forward", lstm.forward, parts[0], batch.words, batch.places, batch)
        scores, upper = timed("dense forward", dense.forward, parts[1], hidden, batch.each, batch)
        top = timed("loss", head.losses, parts[2], scores, batch)
        slope = timed("dense back", dense.backward, parts[1], upper, top.slope, batch, False)
        timed("LSTM back", lstm.backward, parts[0], tape, slope, batch, True)
        timed("norms, dense", dense.add_squared_norms, upper, batch, squares)
        timed("norms, LSTM", lstm.add_squared_norms, tape, batch, squares)
        timed("weight gradient, dense", dense.weighted_gradient, upper, factors, batch, stretches[1])
        timed("weight gradient, LSTM", lstm.weighted_gradient, tape, factors, batch, stretches[0])
        timed("noise", add_gaussian_noise, total, secrets.stream("noise", step=number), 1.5)
    return {name: round(statistics.median(values), 3) for name, values in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result for the page Performance")
    options = parser.parse_args()
    tagger = build(TaggerConfig(hidden_size=HIDDEN), DIMENSIONS, TAGS)
    backend, weights = CompiledBackend(tagger), tagger.initial_weights(np.random.default_rng(0))
    random, works, tokens = np.random.default_rng(2), {}, {}
    for size in BATCHES:
        split, table = sentences(size)
        works[f"batch {size}"], tokens[f"batch {size}"] = gradient(backend, weights, split, table), len(split.rows)
    for length in LENGTHS:
        split = equal_lengths(length, random)
        works[f"length {length}"] = gradient(backend, weights, split, table)
        tokens[f"length {length}"] = len(split.rows)
    with large_products() as products:
        took = interleaved(works | {"peak": products}, ROUNDS, {})
    speed = PRODUCTS / took["peak"]
    by_batch, by_length = [], []
    for size in BATCHES:
        number, ms = tokens[f"batch {size}"], took[f"batch {size}"]
        by_batch.append(
            {
                "batch": size,
                "tokens": number,
                "ms": ms,
                "us_per_token": round(1000 * ms / number, 2),
                "floor_ms": round(operations(number) / speed, 2),
            }
        )
    for length in LENGTHS:
        number, ms = tokens[f"length {length}"], took[f"length {length}"]
        by_length.append({"length": length, "tokens": number, "us_per_token": round(1000 * ms / number, 2)})
    split, table = sentences()
    values = {
        "gflops": round(speed / 1e6, 1),
        "by_batch": by_batch,
        "by_length": by_length,
        "parts_ms": shares(backend, weights, split, table),
    }
    batches = [(*row.values(), f"{row['floor_ms'] / row['ms']:.0%}") for row in by_batch]
    text = "\n\n".join(
        [
            f"Private gradients (clipped sum, no noise); large products reach {values['gflops']} GFLOP/s on all cores",
            markdown(("batch", "tokens", "ms", "µs a token", "minimum, ms", "minimum ÷ measured"), batches),
            markdown(("sentence length", "tokens", "µs a token"), [tuple(row.values()) for row in by_length]),
            markdown(("part of a step at batch 32", "ms"), list(values["parts_ms"].items())),  # type: ignore[attr-defined]
        ]
    )
    finish("growth", values, text, as_json=options.json, save=options.save, module="gradient_scaling")


if __name__ == "__main__":
    main()
