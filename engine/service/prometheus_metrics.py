"""Metrics in Prometheus' text format: queue, workers and privacy budgets."""

import shutil
from collections.abc import Iterator
from contextlib import suppress

import psutil
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine import VERSION
from engine.errors import StoreError
from engine.service.application import Application
from engine.store import privacy_ledger, statistics


class _ApplicationCollector(Collector):
    def __init__(self, app: Application) -> None:
        self._app = app

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        from engine.cluster.supervisor import ClusterFiles

        info = GaugeMetricFamily("epsilon_explorer", "Version of the program", labels=["version"])
        info.add_metric([VERSION], 1)
        yield info
        cluster = ClusterFiles(self._app.settings)
        running = cluster.process() is not None
        yield GaugeMetricFamily("epsilon_cluster_up", "Whether the dispatcher process is running", running)
        yield GaugeMetricFamily("epsilon_workers", "Number of workers of the dispatcher", cluster.workers())
        memory = GaugeMetricFamily("epsilon_memory_bytes", "Resident memory of a process", labels=["process"])
        for name, size in _memory(cluster.process()).items():
            memory.add_metric([name], size)
        yield memory
        home = self._app.settings.home
        folder = next(each for each in (home, *home.parents) if each.is_dir())  # it may not exist yet
        free = shutil.disk_usage(folder).free
        yield GaugeMetricFamily("epsilon_disk_free_bytes", "Free space of the disk with the home folder", free)
        store_help = "Whether the database and its privacy ledger can be read"
        try:
            with self._app._context.store.exclusive() as connection:
                counts, accounts = statistics.read(connection), privacy_ledger.accounts(connection)
        except StoreError:
            yield GaugeMetricFamily("epsilon_store_up", store_help, 0)
            return
        yield GaugeMetricFamily("epsilon_store_up", store_help, 1)
        states = GaugeMetricFamily("epsilon_runs", "Number of runs in the database", labels=["state"])
        for state, number in counts.states.items():
            states.add_metric([str(state)], number)
        yield states
        yield GaugeMetricFamily("epsilon_queue_seconds", "Waiting time of the oldest queued run", counts.waited)
        yield GaugeMetricFamily("epsilon_silent_seconds", "Oldest heartbeat age of a running run", counts.silent)
        labels = ["corpus", "unit", "delta"]
        total = GaugeMetricFamily("epsilon_budget", "Privacy budget (ε) of a corpus", labels=labels)
        share_help = "Charged share of the budget's capacity (Rényi divergence), 0 to 1; not a share of ε"
        share = GaugeMetricFamily("epsilon_budget_booked", share_help, labels=labels)
        holds_help = "Whether the budget bounds the loss: 0 after an unprotected access"
        holds = GaugeMetricFamily("epsilon_budget_holds", holds_help, labels=labels)
        for account in accounts:
            if budget := account.budget:
                values = [account.name, budget.unit, f"{budget.delta:g}"]
                total.add_metric(values, budget.epsilon)
                share.add_metric(values, account.share)
                holds.add_metric(values, account.holds)
        yield total
        yield share
        yield holds


def _memory(dispatcher: psutil.Process | None) -> dict[str, int]:
    """Return the bytes of resident memory of this process, and of the dispatcher process with its workers."""
    sizes = {"server": psutil.Process().memory_info().rss}
    with suppress(psutil.Error):
        if dispatcher:
            sizes["dispatcher"] = dispatcher.memory_info().rss
            sizes["workers"] = sum(each.memory_info().rss for each in dispatcher.children(recursive=True))
    return sizes


def text(app: Application) -> bytes:
    """Return all metrics in Prometheus' text format; this takes some milliseconds."""
    registry = CollectorRegistry()
    registry.register(_ApplicationCollector(app))
    return generate_latest(registry)
