"""Cost of secure aggregation: ``python -m benchmarks.secure_aggregation [--json] [--save]``.

One round by number of silos and of weights: bytes that one silo sends and receives, apart from its upload, and
milliseconds on one thread. A silo's time excludes its training. The server's time is that of unmasking the sum: once if
all uploads arrive, and once if a third of the silos drop out after sending their encrypted shares, so that their masks
remain in the sum. Medians of some rounds.
"""

import argparse
import statistics
import time
from typing import Any

import numba
import numpy as np

from benchmarks.report import finish, markdown
from engine.federated.secagg.distributed_noise import per_client_noise_std
from engine.federated.secagg.protocol import WORD_BYTES, SecAggClient, SecAggParams, SecureSum
from engine.federated.secagg.quantization import FixedPoint

PLATFORMS = (3, 5, 10, 20)
WEIGHTS = (10_000, 100_000, 600_500)
ROUNDS = 5
HEAD = (
    "silos",
    "weights",
    "kB sent, masked upload",
    "kB sent, other",
    "kB received",
    "ms, keys and encrypted shares",
    "ms, quantisation",
    "ms, masking",
    "ms, server",
    "ms, server, a third dropped out",
)


def once(plan: SecAggParams, gone: int) -> dict[str, float]:
    """Return the bytes and milliseconds of one round, of one silo but for ``server_ms``.

    Args:
        plan: Parameters of secure aggregation.
        gone: Number of silos that drop out before their uploads.
    """
    grid = FixedPoint(
        parties=plan.parties, clip_norm=1.0, noise_std=per_client_noise_std(1.0, plan.parties, plan.max_dropouts)
    )
    upload = np.random.default_rng(plan.round).normal(0, grid.noise_std, plan.weights)
    server, parties = SecureSum(plan), [SecAggClient(plan, number) for number in range(plan.parties)]
    start = time.perf_counter()
    public = server.advertise({party.number: party.keys() for party in parties})
    shares = {party.number: party.shares(public) for party in parties}
    agreeing, posted = time.perf_counter() - start, server.post(shares)

    rounding = masking = 0.0
    left = parties[gone:]
    for party in left:
        start = time.perf_counter()
        integers = grid.integers(upload)
        middle = time.perf_counter()
        masked = party.masked(integers, posted[party.number])
        rounding, masking = rounding + middle - start, masking + time.perf_counter() - middle
        server.receive(party.number, masked)
    question = server.question()
    answers = {party.number: party.answer(question) for party in left}
    start = time.perf_counter()
    total = grid.values(server.open(answers))
    opening = time.perf_counter() - start
    if np.abs(total - len(left) * upload).max() > grid.error(len(left)):
        raise RuntimeError("the unmasked sum is wrong")
    number = left[0].number
    return {
        "upload_bytes": WORD_BYTES * plan.weights,
        "more_bytes_up": public[number].size + shares[number].size + answers[number].size,
        "bytes_down": sum(keys.size for keys in public.values()) + sum(map(len, posted[number].values())),
        "agreeing_ms": 1000 * agreeing / plan.parties,
        "rounding_ms": 1000 * rounding / len(left),
        "masking_ms": 1000 * masking / len(left),
        "server_ms": 1000 * opening,
    }


def medians(platforms: int, weights: int) -> dict[str, float]:
    """Return medians over ``ROUNDS`` rounds, after one for warm-up: without dropouts, and with a third of the silos."""
    third = platforms // 3
    rounds = {
        gone: [
            once(SecAggParams(parties=platforms, weights=weights, max_dropouts=third, round=number), gone)
            for number in range(ROUNDS + 1)
        ][1:]
        for gone in (0, third)
    }
    middle = {name: statistics.median(result[name] for result in rounds[0]) for name in rounds[0][0]}
    middle["server_without_a_third_ms"] = statistics.median(result["server_ms"] for result in rounds[third])
    return {name: round(value, 2) for name, value in middle.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    numba.set_num_threads(1)  # the protocol uses one thread; the report states their number
    rows: list[dict[str, Any]] = [
        {"platforms": platforms, "weights": weights, **medians(platforms, weights)}
        for weights in WEIGHTS
        for platforms in PLATFORMS
    ]
    lines: list[tuple[Any, ...]] = [
        (
            row["platforms"],
            f"{row['weights']:,}",
            *(f"{row[name] / 1000:,.1f}" for name in ("upload_bytes", "more_bytes_up", "bytes_down")),
            *(f"{row[name]:.1f}" for name in row if name.endswith("_ms")),
        )
        for row in rows
    ]
    finish(
        "secure_sum",
        {"rows": rows},
        markdown(HEAD, lines),
        as_json=options.json,
        save=options.save,
        module="secure_aggregation",
    )


if __name__ == "__main__":
    main()
