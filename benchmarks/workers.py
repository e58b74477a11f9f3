"""Runs beside each other on one machine: ``python -m benchmarks.workers [--corpus NAME] [--json] [--save]``.

First plain processes: runs after one another with all cores, side by side with one thread each, and side by side with
all threads each, which collide. Then a cluster as the dashboard has it: two runs one after the other and two at once,
how soon a warm worker starts the next run after it was asked for, and the most memory that a worker took. Last steps
with the memory of each given back to the system, as the C library would have it, and kept: three processes of each.
``--throughput`` measures 1, 2 and 4 runs side by side alone, in turns.
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
"""Short runs whose delay is looked at."""
COMMAND = [sys.executable, "-m", "benchmarks.workers"]


def configured(corpus: str, seed: int, epochs: float) -> SimulationConfig:
    """Return the paper's settings with other epochs."""
    return SimulationConfig(corpus=corpus, training=TrainingConfig(epochs=epochs), seed=seed)


def alone(corpus: str, seed: int) -> None:
    """One run in this process; says when it is warm, waits for a line, and says how many processor seconds it took."""
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
    """Wall seconds until as many runs are done, each in a process with so many threads, all started at once; and the
    processor seconds that a run took, mean."""
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
            raise SystemExit("A run did not become warm.")
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
    """Of each number of workers, with one thread each: wall seconds until each has done a run, and processor seconds of
    a run; medians of turns. On a machine with other work the second tells more."""
    found: dict[int, list[tuple[float, float]]] = {number: [] for number in WORKERS}
    for number in WORKERS * TURNS:
        found[number].append(side_by_side(corpus, number, 1))
    return [
        {"workers": number}
        | dict(zip(("wall_s", "processor_s"), map(statistics.median, zip(*each, strict=True)), strict=True))
        for number, each in found.items()
    ]


class Cluster:
    """Workers in a home of their own, as a dashboard would start them."""

    def __init__(self, home: str, corpus: str) -> None:
        self.settings = replace(Settings.from_environment(), home=Path(home), store_url=f"sqlite:///{home}/runs.sqlite")
        self.runs, self.corpus, self.seed, self.memory = Application(self.settings), corpus, 1000, 0
        self._looked = 0.0

    def submit(self, epochs: float) -> str:
        """Queue a new run."""
        self.seed += 1
        return self.runs.runs.submit(configured(self.corpus, self.seed, epochs), owner_pid=os.getpid()).run_id

    def wait(self, *identities: str) -> float:
        """Wall seconds until these are done; the workers' memory is looked at meanwhile."""
        start = time.perf_counter()
        for identity in identities:
            while not (status := self.runs.queries.status(identity)).state.final:
                if time.perf_counter() - self._looked > 2:  # a look costs time of the same cores
                    self._look()
                time.sleep(0.1)
            if status.state != RunState.DONE:
                raise SystemExit(f"A run failed: {status.error}")
        return time.perf_counter() - start

    def delay(self) -> float:
        """Seconds from asking for a short run to its worker's start on it."""
        identity = self.submit(0.05)
        self.wait(identity)
        status = self.runs.queries.status(identity)
        return float(status.started or 0) - float(status.created or 0)

    def _look(self) -> None:
        self._looked = time.perf_counter()
        process = ClusterFiles(self.settings).process()
        for worker in process.children(recursive=True) if process else ():
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(worker.cmdline()):
                    self.memory = max(self.memory, worker.memory_info().rss)


def in_cluster(corpus: str) -> dict[str, float]:
    """Seconds and megabytes by name."""
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
    """Return the median of private steps in this process; keep: whether memory is kept as the engine does."""
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
    """Everything, seconds and milliseconds by name."""
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
    parser.add_argument("--throughput", action="store_true", help="1, 2 and 4 runs side by side, and nothing else")
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
        each = throughput(options.corpus)
        lines = [(row["workers"], *(f"{row[name]:.1f}" for name in ("wall_s", "processor_s"))) for row in each]
        text = markdown(("workers, one thread each", "s until each has done a run", "processor, s a run"), lines)
        finish(
            "throughput", {"corpus": options.corpus, "by_workers": each}, text, as_json=options.json, save=options.save
        )
        return
    values = measure(options.corpus)
    cores = values["cores"]
    rows = [
        (f"{cores} runs of {EPOCHS:g} epochs one after another, all cores each", values["in_turn_s"]),
        (f"{cores} runs side by side, one thread each", values["one_thread_each_s"]),
        (f"{cores} runs side by side, {cores} threads each", values["all_threads_each_s"]),
        ("two runs in the cluster, one after the other", values["cluster_in_turn_s"]),
        ("two runs in the cluster, asked for at once", values["cluster_together_s"]),
        (f"from asking to a warm worker's start, median of {STARTS}", values["start_s"]),
        ("the slowest of those", values["slowest_start_s"]),
    ]
    text = markdown(("", "seconds"), rows)
    text += f"\n\nMost memory of a worker: {values['worker_memory_mb']} MB. A private step: "
    text += f"{values['memory_kept_ms']} ms with memory kept, {values['memory_given_back_ms']} ms with it given back."
    finish("workers", values, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
