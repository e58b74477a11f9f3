"""Parallel runs on one machine: ``python -m benchmarks.workers [--corpus NAME] [--json] [--save]``.

First plain processes: sequential runs with all cores, parallel runs with one thread each, and parallel runs with all
threads each, which compete. Then the cluster of the dashboard: two sequential and two parallel runs, the delay until a
warm worker starts the next run, and the peak memory of a worker. Last training steps with memory returned to the system
after each step, as the C library does by default, and with memory kept: three processes of each. ``--throughput``
measures only 1, 2 and 4 parallel runs, in turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks.report import finish, markdown
from engine.cluster.supervisor import ClusterFiles, stop_cluster
from engine.cluster.worker import environment
from engine.config import SimulationConfig, TrainingConfig
from engine.records import RunState
from engine.service import Application
from engine.settings import Settings

EPOCHS = 3.0
WORKERS, TURNS = (1, 2, 4), 3
STARTS = 5
"""Number of short runs whose start delay is measured."""
COMMAND = [sys.executable, "-m", "benchmarks.workers"]


def configured(corpus: str, seed: int, epochs: float) -> SimulationConfig:
    """Return the paper settings with another number of epochs."""
    return SimulationConfig(corpus=corpus, training=TrainingConfig(epochs=epochs), seed=seed)


def alone(corpus: str, seed: int) -> None:
    """Compute one run in this process.

    It writes a line when it is warm, waits for a line, and then writes its processor seconds.
    """
    from engine.simulation import run, setup

    settings = Settings.from_environment()
    setup.warm_up(settings)
    config = configured(corpus, seed, EPOCHS)
    setup.prepare(config, settings)
    sys.stdout.write("warm\n")
    sys.stdout.flush()
    sys.stdin.readline()
    processor = time.process_time()
    list(run.simulate(config, settings))
    sys.stdout.write(f"{time.process_time() - processor}\n")


def side_by_side(corpus: str, runs: int, threads: int) -> tuple[float, float]:
    """Return the wall seconds until parallel runs are finished, and the mean processor seconds of a run.

    Args:
        corpus: Name of the corpus.
        runs: Number of runs, each in a process of its own.
        threads: Threads of each process.
    """
    command = [*COMMAND, "--corpus", corpus, "--alone"]
    processes = [
        subprocess.Popen(
            [*command, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment(threads),
        )
        for seed in range(runs)
    ]
    for process in processes:
        if process.stdout is None or process.stdout.readline() != "warm\n":
            raise SystemExit("A run failed during warm-up.")
    start = time.perf_counter()
    for process in processes:
        if process.stdin:
            process.stdin.write("\n")
            process.stdin.flush()
    took = [float(process.communicate()[0] or 0) for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("A run failed.")
    return time.perf_counter() - start, statistics.fmean(took)


def throughput(corpus: str) -> list[dict[str, float]]:
    """Return wall seconds until each worker has finished a run, and processor seconds of a run, by number of workers.

    Workers have one thread each; values are medians over turns. On a machine with other work processor seconds are more
    reliable.
    """
    times: dict[int, list[tuple[float, float]]] = {number: [] for number in WORKERS}
    for number in WORKERS * TURNS:
        times[number].append(side_by_side(corpus, number, 1))
    return [
        {"workers": number}
        | dict(zip(("wall_s", "processor_s"), map(statistics.median, zip(*turns, strict=True)), strict=True))
        for number, turns in times.items()
    ]


class Cluster:
    """Workers with a home of their own, started as by a dashboard."""

    def __init__(self, home: str, corpus: str) -> None:
        self.settings = replace(Settings.from_environment(), home=Path(home), store_url=f"sqlite:///{home}/runs.sqlite")
        self.runs, self.corpus, self.seed, self.memory = Application(self.settings), corpus, 1000, 0
        self._measured = 0.0

    def submit(self, epochs: float) -> str:
        """Queue a new run."""
        self.seed += 1
        return self.runs.runs.submit(configured(self.corpus, self.seed, epochs), owner_pid=os.getpid()).run_id

    def wait(self, *identities: str) -> float:
        """Wait until these runs are finished and measure the workers' memory meanwhile; return the wall seconds."""
        start = time.perf_counter()
        for identity in identities:
            while not (status := self.runs.queries.status(identity)).state.final:
                if time.perf_counter() - self._measured > 2:  # a measurement uses the same cores
                    self._measure_memory()
                time.sleep(0.1)
            if status.state != RunState.DONE:
                raise SystemExit(f"A run failed: {status.error}")
        return time.perf_counter() - start

    def delay(self) -> float:
        """Return the seconds from the submission of a short run to its start by a worker."""
        identity = self.submit(0.05)
        self.wait(identity)
        status = self.runs.queries.status(identity)
        return float(status.started or 0) - float(status.created or 0)

    def _measure_memory(self) -> None:
        self._measured = time.perf_counter()
        process = ClusterFiles(self.settings).process()
        for worker in process.children(recursive=True) if process else ():
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(worker.cmdline()):
                    self.memory = max(self.memory, worker.memory_info().rss)


def in_cluster(corpus: str) -> dict[str, float]:
    """Return seconds and megabytes of runs in the cluster by name."""
    with tempfile.TemporaryDirectory() as home:
        cluster = Cluster(home, corpus)
        try:
            cluster.wait(cluster.submit(0.05), cluster.submit(0.05))  # every worker has encoded the corpus
            delays = [cluster.delay() for _ in range(STARTS)]
            one = cluster.wait(cluster.submit(EPOCHS)) + cluster.wait(cluster.submit(EPOCHS))
            two = cluster.wait(cluster.submit(EPOCHS), cluster.submit(EPOCHS))
        finally:
            stop_cluster(cluster.settings, os.getpid())
    return {
        "cluster_in_turn_s": round(one, 1),
        "cluster_together_s": round(two, 1),
        "start_s": round(statistics.median(delays), 3),
        "slowest_start_s": round(max(delays), 3),
        "worker_memory_mb": round(cluster.memory / 1e6),
    }


def steps_ms(keep: bool) -> float:
    """Return the median milliseconds of private steps; ``keep``: whether memory is kept, as the engine does."""
    from benchmarks.step import ours, sentences
    from engine.training.compiled import backend

    if not keep:
        backend._keep_memory = lambda: None
    split, table = sentences()
    step: Callable[[int], None] = ours(split, table, private=True)
    times = []
    for number in range(300):
        start = time.perf_counter()
        step(number)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times[50:])


def measure(corpus: str) -> dict[str, Any]:
    """Return all measurements by name, in seconds and milliseconds."""
    cores = os.cpu_count() or 1
    values: dict[str, Any] = {"corpus": corpus, "epochs": EPOCHS, "cores": cores}
    values["in_turn_s"] = round(sum(side_by_side(corpus, 1, cores)[0] for _ in range(cores)), 1)
    values["one_thread_each_s"] = round(side_by_side(corpus, cores, 1)[0], 1)
    values["all_threads_each_s"] = round(side_by_side(corpus, cores, cores)[0], 1)
    values |= in_cluster(corpus)
    steps: dict[str, list[float]] = {"kept": [], "given": []}
    for choice in ("kept", "given") * 3:
        answer = subprocess.run([*COMMAND, "--steps", choice], capture_output=True, text=True, check=True)
        steps[choice].append(float(answer.stdout.split()[-1]))
    values["memory_kept_ms"] = round(statistics.median(steps["kept"]), 2)
    values["memory_given_back_ms"] = round(statistics.median(steps["given"]), 2)
    return values


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="conll2003", help="default: conll2003")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result for the page Performance")
    parser.add_argument("--throughput", action="store_true", help="measure only 1, 2 and 4 parallel runs")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--steps", choices=("kept", "given"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone is not None:
        alone(options.corpus, options.alone)
        return
    if options.steps:
        sys.stdout.write(json.dumps(steps_ms(options.steps == "kept")) + "\n")
        return
    if options.throughput:
        by_workers = throughput(options.corpus)
        lines = [(row["workers"], *(f"{row[name]:.1f}" for name in ("wall_s", "processor_s"))) for row in by_workers]
        text = markdown(("workers, one thread each", "s until each has finished a run", "processor, s a run"), lines)
        finish(
            "throughput",
            {"corpus": options.corpus, "by_workers": by_workers},
            text,
            module="workers --throughput",
            as_json=options.json,
            save=options.save,
        )
        return
    values = measure(options.corpus)
    cores = values["cores"]
    rows = [
        (f"{cores} sequential runs of {EPOCHS:g} epochs, all cores each", values["in_turn_s"]),
        (f"{cores} parallel runs, one thread each", values["one_thread_each_s"]),
        (f"{cores} parallel runs, {cores} threads each", values["all_threads_each_s"]),
        ("two sequential runs in the cluster", values["cluster_in_turn_s"]),
        ("two parallel runs in the cluster", values["cluster_together_s"]),
        (f"from submission to start by a warm worker, median of {STARTS}", values["start_s"]),
        ("from submission to start, slowest", values["slowest_start_s"]),
    ]
    text = markdown(("", "seconds"), rows)
    text += f"\n\nPeak memory of a worker: {values['worker_memory_mb']} MB. A private step: "
    text += f"{values['memory_kept_ms']} ms with memory kept, {values['memory_given_back_ms']} ms with memory returned."
    finish("workers", values, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
