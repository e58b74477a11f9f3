"""How a run's worker shares the cores with others."""

import os

import numba
import pytest

from engine.cluster import worker


@pytest.fixture
def threads():
    before = numba.get_num_threads()
    yield numba.get_num_threads
    numba.set_num_threads(before)


def test_a_run_gives_way_to_others_and_takes_the_cores_back(threads):
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
    worker.share_cores(1, machine - 1.0)  # other programs leave one
    assert threads() == 1
    worker.share_cores(1, float(10 * machine))
    assert threads() == 1
    worker.share_cores(1, machine - cores + 0.3)  # a little is no reason
    assert threads() == cores


def test_what_other_processes_keep_busy_is_noticed(monkeypatch):
    """One core of others' work for seconds, then none."""
    clock = iter([(0.0, 0.0, 0.0), *((s, 2.0 * s, 1.0 * s) for s in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
                  (20.0, 29.0, 20.0), (21.0, 30.0, 21.0), (22.0, 31.0, 22.0), (23.0, 32.0, 23.0)])  # fmt: skip
    monkeypatch.setattr(worker, "_processor_seconds", lambda: next(clock))
    pulse = worker.Heartbeat(None, None)
    for _ in range(9):
        pulse._measure_load()
    assert 0.9 < pulse.others <= 1.0
    for _ in range(4):
        pulse._measure_load()
    assert 0 <= pulse.others < 0.3
