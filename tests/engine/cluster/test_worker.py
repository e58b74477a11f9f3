"""Workers share the cores with other runs and programs."""

import os

import numba
import pytest

from engine.cluster import worker


@pytest.fixture
def threads():
    before = numba.get_num_threads()
    yield numba.get_num_threads
    numba.set_num_threads(before)


def test_share_cores_divides_the_cores_among_runs_and_other_programs(threads):
    cores = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    worker.share_cores(1, 0.0)
    assert threads() == cores
    worker.share_cores(2, 0.0)
    assert threads() == max(1, cores // 2)
    worker.share_cores(10 * cores, 0.0)
    assert threads() == 1
    worker.share_cores(1, 0.0)
    assert threads() == cores
    machine = os.cpu_count() or 1
    worker.share_cores(1, machine - 1.0)  # other programs leave one core
    assert threads() == 1
    worker.share_cores(1, float(10 * machine))
    assert threads() == 1
    worker.share_cores(1, machine - cores + 0.3)  # a small load is ignored
    assert threads() == cores


def test_heartbeat_measures_the_load_of_other_processes(monkeypatch):
    """Other processes use one core for some seconds, then none."""
    clock = iter([(0.0, 0.0, 0.0), *((s, 2.0 * s, 1.0 * s) for s in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
                  (20.0, 29.0, 20.0), (21.0, 30.0, 21.0), (22.0, 31.0, 22.0), (23.0, 32.0, 23.0)])  # fmt: skip
    monkeypatch.setattr(worker, "_processor_seconds", lambda: next(clock))
    heartbeat = worker.Heartbeat(None, None)
    for _ in range(9):
        heartbeat._measure_load()
    assert 0.9 < heartbeat.others <= 1.0
    for _ in range(4):
        heartbeat._measure_load()
    assert 0 <= heartbeat.others < 0.3
