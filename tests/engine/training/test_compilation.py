"""What set-up compiles is all that a run needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CODE = """
import sys
from dataclasses import replace
from engine.config import TaggerConfig
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
tagger = TaggerConfig(name=sys.argv[1], hidden_size=8, well_formed=sys.argv[2] == "True")
next(simulate(replace(SMALL, tagger=tagger), settings))
print(before, compiled())
"""


@pytest.mark.parametrize("tagger", ["bilstm-tddl", "bilstm-crf"])
@pytest.mark.parametrize("well_formed", [False, True])
def test_a_run_compiles_nothing_that_set_up_has_not(trained_settings, tagger: str, well_formed: bool) -> None:
    here = os.environ | {"EPSILON_HOME": str(trained_settings.home)}
    command = [sys.executable, "-c", CODE, tagger, str(well_formed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=here, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 10  # the kernels that Python calls; those inside them are loaded with them
    assert after == before
