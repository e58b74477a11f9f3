"""How a run's worker shares the cores with others."""

import numba
import pytest

from engine import worker


@pytest.fixture
def threads():
    before = numba.get_num_threads()
    yield numba.get_num_threads
    numba.set_num_threads(before)


def test_a_run_gives_way_to_others_and_takes_the_cores_back(threads):
    cores = numba.config.NUMBA_NUM_THREADS
    worker.share_cores(1)
    assert threads() == cores
    worker.share_cores(2)
    assert threads() == max(1, cores // 2)
    worker.share_cores(10 * cores)
    assert threads() == 1
    worker.share_cores(1)
    assert threads() == cores
