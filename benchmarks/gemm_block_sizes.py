"""Throughput of matrix products by block size: ``python -m benchmarks.gemm_block_sizes [--json]``.

The matrix products of a step on one thread, interleaved, with the block sizes for L1 caches of 16 to 128 KB, compared
with a large product of a BLAS. The results are bit-identical with all block sizes.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import finish, markdown
from benchmarks.step import DIMENSIONS, HIDDEN
from engine.gemm import BLOCKS, Blocks, add_product, packed, use
from engine.hardware import processor

KILOBYTES = (16, 24, 32, 48, 128)
ROUNDS = 60
TOKENS = 438, 7400
"""Tokens in batches of 32 and of 512 sentences."""
EDGE = 1536
MIN_OPERATIONS = 5_000_000
"""Operations that are timed together, at least; fewer are too quick for the clock."""


def products(random: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return both factors of each product by its name."""

    def of(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    gates = 4 * HIDDEN
    found = {"recurrence, 32 sentences": (of(32, HIDDEN), of(HIDDEN, gates))}
    for tokens in TOKENS:
        inputs, slopes = of(tokens, DIMENSIONS), of(tokens, gates)
        found[f"input projection, {tokens:,} tokens"] = inputs, of(DIMENSIONS, gates)
        found[f"weight gradient, {tokens:,} tokens"] = inputs.T, slopes
    return found


def speeds(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """Return GFLOP/s by kilobytes of the L1 cache: medians of ``ROUNDS`` turns, in processor time of this thread."""
    panels, out = packed(b), np.zeros((a.shape[0], b.shape[1]), np.float32)
    operations = 2 * a.shape[0] * a.shape[1] * b.shape[1]
    calls = -(-MIN_OPERATIONS // operations)
    took: dict[str, list[float]] = {f"{size} KB": [] for size in KILOBYTES}
    for turn in range(ROUNDS + 2):
        for size, times in zip(KILOBYTES, took.values(), strict=True):
            use(Blocks.that_fit(size * 2**10, processor().second_cache))
            start = time.thread_time()
            for _ in range(calls):
                add_product(a, panels, out)
            if turn > 1:
                times.append((time.thread_time() - start) / calls)
    use(BLOCKS)
    return {name: round(operations / float(np.median(times)) / 1e9, 1) for name, times in took.items()}


def blas(random: np.random.Generator) -> float:
    """Return the median GFLOP/s of large products on one thread."""
    a, took = random.standard_normal((EDGE, EDGE)).astype(np.float32), []
    with threadpool_limits(1, "blas"):
        for _ in range(12):
            start = time.thread_time()
            a @ a
            took.append(time.thread_time() - start)
    return round(2 * EDGE**3 / float(np.median(took)) / 1e9, 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    gflops = {name: speeds(*factors) for name, factors in products(random).items()}
    large = blas(random)
    rows = [(name, *by_size.values()) for name, by_size in gflops.items()]
    text = f"GFLOP/s of one thread by L1 cache size of the blocks; a large product of a BLAS: {large}\n\n"
    text += markdown(("product", *(f"{size} KB" for size in KILOBYTES)), rows)
    finish("blocks", {"gflops": gflops, "blas": large}, text, as_json=options.json, save=False)


if __name__ == "__main__":
    main()
