"""What set-up compiles is all that a run needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CODE = """
import json, sys
from engine.config import SimulationConfig
from engine.settings import Settings
from engine.simulation import simulate
from engine.training.compilation import compile_everything
from numba.core.dispatcher import Dispatcher
from tests.engine.runs_for_tests import SMALL

def compiled():
    kernels = {id(f): f for name, m in list(sys.modules.items()) if name.startswith("engine.") for f in vars(m).values()
               if isinstance(f, Dispatcher)}
    return sum(len(f.signatures) for f in kernels.values())

compile_everything()
before = compiled()
settings = Settings.from_environment()
config = SimulationConfig.from_flat(SMALL.flat() | json.loads(sys.argv[1]))
next(simulate(config, settings))
print(before, compiled())
"""


@pytest.mark.parametrize(
    "fields",
    [
        {"tagger": "bilstm-tddl"},
        {"tagger": "bilstm-crf"},
        {"tagger": "bilstm-crf", "well_formed": True},
        {"tagger": "linear-softmax", "features": "shapes", "window": 1, "well_formed": True},
        {"tagger": "mlp-crf", "features": "shapes", "window": 1, "optimiser": "adam"},
    ],
)
def test_a_run_compiles_nothing_that_set_up_has_not(trained_settings, fields: dict[str, object]) -> None:
    here = os.environ | {"EPSILON_HOME": str(trained_settings.home)}
    command = [sys.executable, "-c", CODE, json.dumps(fields)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=here, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 10  # the kernels that Python calls; those inside them are loaded with them
    assert after == before
