"""SIGKILL of a worker, the cluster process or the app at random moments."""

import os
import random
import time

import pytest

from engine.cluster import supervisor
from tests.engine.reliability.disturbed import CONFIGS, App, Watch, alone, kill

MOMENTS = [
    pytest.param(0, marks=pytest.mark.repeats(area="processes")),
    *(pytest.param(moment, marks=pytest.mark.nightly) for moment in range(1, 50)),
]


@pytest.fixture(scope="module")
def undisturbed(encoded, tmp_path_factory):
    return alone(CONFIGS, tmp_path_factory.mktemp("undisturbed"), encoded)


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_at_any_moment_loses_no_shown_record(trained_settings, undisturbed, moment):
    draws = random.Random(moment)
    victims = ["worker", "cluster", "app"]
    app, watch = App(trained_settings, CONFIGS), Watch(trained_settings, CONFIGS)
    try:
        for victim in (victims[moment % len(victims)], draws.choice(victims)):
            watch.until(draws.randrange(1, 12))
            time.sleep(draws.random() / 5)  # at a random time between two records
            if victim == "app":
                app.end()
                app = App(trained_settings, CONFIGS)
            else:
                kill(trained_settings, victim)
            if victim == "cluster":
                app.end()  # a new app starts the cluster again
                app = App(trained_settings, CONFIGS)
        watch.to_the_end(undisturbed)
    finally:
        app.end()
        watch.close()
        supervisor.stop_cluster(trained_settings, os.getpid())
