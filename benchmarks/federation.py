"""Training time by number of clients: ``python -m benchmarks.federation [--corpus NAME] [--json] [--save]``.

The same sentences with one client and split over up to 200 clients: one round with privacy at the paper's settings,
except for the epochs. Measurements are interleaved and without evaluation. The unit is microseconds per sampled
sentence, since batches of small shards round the number of steps.
"""

import argparse
import statistics
import time
from typing import Any

from benchmarks.report import finish, markdown
from engine.config import FederationConfig, SimulationConfig, TrainingConfig
from engine.settings import Settings
from engine.simulation import setup

CLIENTS = (1, 2, 5, 20, 50, 100, 200)
ROUNDS, EPOCHS = 5, 1.0


def once(clients: int, corpus: str, settings: Settings) -> tuple[float, int]:
    """Return the microseconds per sampled sentence, and the number of steps of all clients together."""
    config = SimulationConfig(
        corpus=corpus, training=TrainingConfig(epochs=EPOCHS), federation=FederationConfig(clients=clients)
    )
    run = setup.prepare(config, settings).run
    drawn, start = 0, time.perf_counter()
    for progress in run.train():
        drawn += len(progress.step.norms) if progress.step else 0
    return 1e6 * (time.perf_counter() - start) / drawn, run.plan.steps


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="conll2003", help="default: conll2003")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options = parser.parse_args()
    settings = Settings.from_environment()
    setup.warm_up(settings)
    times: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    steps: dict[int, int] = {}
    for _ in range(ROUNDS):
        for clients in CLIENTS:
            took, steps[clients] = once(clients, options.corpus, settings)
            times[clients].append(took)
    medians = {clients: statistics.median(values) for clients, values in times.items()}
    rows: list[dict[str, Any]] = [
        {"clients": n, "steps": steps[n], "us_per_sentence": round(m, 1), "to_one": round(m / medians[1], 3)}
        for n, m in medians.items()
    ]
    text = markdown(
        ("clients", "steps", "µs a sampled sentence", "÷ one client"), [tuple(row.values()) for row in rows]
    )
    finish("federation", {"corpus": options.corpus, "rows": rows}, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
