"""The processes of a run with a language model."""

import os
import subprocess
import sys

import pytest

from engine.embeddings import vectors
from engine.settings import REPOSITORY
from tests.engine.embeddings.encoders import minilm_weights

RUN = """
import sys
from engine.config import SimulationConfig
from engine.embeddings import features
from engine.settings import Settings
from engine.simulation.run import simulate

popen = features.subprocess.Popen

def checked(command, **more):
    if "engine.embeddings.contextual" not in command:
        return popen(command, **more)
    code = (
        "import sys\\nfrom engine.embeddings.contextual import main\\nmain()\\n"
        "assert 'tensorflow' not in sys.modules, 'the features load it'"
    )
    return popen([command[0], "-c", code, *command[3:]], **more)

features.subprocess.Popen = checked
config = SimulationConfig.from_flat(
    {"corpus": sys.argv[1], "features": "contextual", "tagger": "linear-crf", "epochs": 1, "batch_size": 4}
)
records = list(simulate(config, Settings.from_environment()))
assert records[-1].privacy.epsilon > 0, records
assert "tensorflow" not in sys.modules, "the run loads it"
"""


@pytest.mark.repeats
def test_a_run_with_a_language_model_does_not_load_tensorflow(tmp_path, encoded) -> None:
    minilm_weights()
    assert "en_core_web_md" in vectors.installed()
    (tmp_path / "home").mkdir()
    (encoded / "vectors").mkdir(exist_ok=True)
    (tmp_path / "home" / "vectors").symlink_to(encoded / "vectors")
    file = tmp_path / "small.conll"
    file.write_text("Rosa B-PER\nmet O\nAnn B-PER\n\n" * 20)
    home = {"EPSILON_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(file)],
        cwd=REPOSITORY,
        env=os.environ | home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
