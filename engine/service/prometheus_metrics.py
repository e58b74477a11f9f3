"""How the program is, in Prometheus' text format: the queue, the workers, what is booked of budgets."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine import VERSION
from engine.errors import StoreError
from engine.service.application import Application
from engine.store import privacy_ledger, statistics


class _Watched(Collector):
    def __init__(self, app: Application) -> None:
        self._runs = app

    def collect(self) -> Iterator[Metric]:
        """What there is to say now."""
        from engine.cluster.supervisor import ClusterFiles

        about = GaugeMetricFamily("epsilon_explorer", "The version of the program", labels=["version"])
        about.add_metric([VERSION], 1)
        yield about
        place = ClusterFiles(self._runs.settings)
        there = place.process() is not None
        yield GaugeMetricFamily("epsilon_cluster_up", "Whether the process that hands out runs is there", there)
        yield GaugeMetricFamily("epsilon_workers", "Workers that it hands runs to", place.workers())
        try:
            with self._runs._context.store.exclusive() as connection:
                found, accounts = statistics.read(connection), privacy_ledger.accounts(connection)
        except StoreError:
            yield GaugeMetricFamily("epsilon_store_up", "Whether the database can be read, its book of budgets too", 0)
            return
        yield GaugeMetricFamily("epsilon_store_up", "Whether the database can be read, its book of budgets too", 1)
        states = GaugeMetricFamily("epsilon_runs", "Runs that are kept", labels=["state"])
        for state, number in found.states.items():
            states.add_metric([str(state)], number)
        yield states
        yield GaugeMetricFamily("epsilon_queue_seconds", "How long the longest waiting run has waited", found.waited)
        yield GaugeMetricFamily("epsilon_silent_seconds", "Since a running run was last heard of", found.silent)
        labels = ["corpus", "unit", "delta"]
        total = GaugeMetricFamily("epsilon_budget", "ε that a corpus may lose in all", labels=labels)
        share = GaugeMetricFamily("epsilon_budget_booked", "Share of a budget that is booked, 0 to 1", labels=labels)
        for account in accounts:
            if budget := account.budget:
                where = [account.name, budget.unit, f"{budget.delta:g}"]
                total.add_metric(where, budget.epsilon)
                share.add_metric(where, account.share)
        yield total
        yield share


def text(app: Application) -> bytes:
    """Everything, in Prometheus' text format; some milliseconds."""
    registry = CollectorRegistry()
    registry.register(_Watched(app))
    return generate_latest(registry)
