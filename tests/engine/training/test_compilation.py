"""Set-up compiles all functions of a run, and compiles them once."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import types
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from numba import njit
from numba.core.event import install_listener

from engine import setup_status
from engine.errors import RunStopped
from engine.training import compilation, compile_cache

ROOT = Path(__file__).resolve().parents[3]
CODE = """
import json, sys
from engine.config import SimulationConfig
from engine.settings import Settings
from engine.simulation.run import simulate
from engine.training.compilation import compile_everything
from numba.core.dispatcher import Dispatcher
from tests.engine.factories import SMALL

def compiled():
    kernels = {id(f): f for name, m in list(sys.modules.items()) if name.startswith("engine.") for f in vars(m).values()
               if isinstance(f, Dispatcher)}
    return sum(len(f.signatures) for f in kernels.values())

compile_everything()
settings = Settings.from_environment()
for fields in json.loads(sys.argv[1]):
    before = compiled()
    next(simulate(SimulationConfig.from_flat(SMALL.flat() | fields), settings))
    print(before, compiled())
"""
CONFIGURATIONS = (
    {"tagger": "bilstm-tddl"},
    {"tagger": "bilstm-crf"},
    {"tagger": "bilstm-crf", "well_formed": True},
    {"tagger": "linear-softmax", "features": "shapes", "window": 1, "well_formed": True},
    {"tagger": "mlp-crf", "features": "shapes", "window": 1, "optimiser": "adam"},
)
"""Each layer and each head, one run after another in a separate process."""

FUNCTIONS = ("compile_recurrent_layers", "compile_layers", "_compile_noise", "_compile_other_functions")
"""What a process compiles, by function of the module."""


@pytest.mark.repeats
def test_runs_compile_nothing_after_set_up(trained_settings) -> None:
    here = os.environ | {"EPSILON_HOME": str(trained_settings.home)}
    command = [sys.executable, "-c", CODE, json.dumps(CONFIGURATIONS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=here, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(CONFIGURATIONS)
    for fields, line in zip(CONFIGURATIONS, lines, strict=True):
        before, after = map(int, line.split())
        assert before > 10  # the kernels called from Python; they include those that they call
        assert after == before, fields


@pytest.fixture
def stamp(tmp_path, monkeypatch) -> None:
    """Start with nothing compiled and no compiling process."""
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    monkeypatch.setattr(compile_cache, "_STAMP", tmp_path / "__pycache__" / "compiled")
    monkeypatch.setattr(compile_cache, "_BEGUN", tmp_path / "__pycache__" / "compiling")


def test_concurrent_runs_compile_once(stamp, monkeypatch) -> None:
    begun, waits = threading.Event(), threading.Event()
    compiled, said = [], []

    def compile_slowly(tell: object) -> None:
        begun.set()
        assert waits.wait(60)
        compiled.append(threading.current_thread())
        compile_cache.renew()

    def hear(words: str) -> None:
        said.append(words)
        if "waiting" in words:
            waits.set()

    monkeypatch.setattr(compilation, "compile_everything", compile_slowly)
    first = threading.Thread(target=compilation.compile_what_is_missing, args=(said.append,))
    first.start()
    assert begun.wait(60)
    compilation.compile_what_is_missing(hear)
    first.join()
    assert compiled == [first]
    compiles, waits_for = sorted(set(said))
    assert compiles.startswith("compiling")
    assert all(part in waits_for for part in ("waiting", "another process"))


def test_run_compiles_in_a_read_only_environment(stamp, monkeypatch, tmp_path) -> None:
    (tmp_path / "locks").write_text("no folder")
    compiled: list[object] = []
    monkeypatch.setattr(compilation, "compile_everything", compiled.append)
    compilation.compile_what_is_missing(lambda words: None)
    assert len(compiled) == 1


def test_changed_code_is_recompiled(stamp, monkeypatch) -> None:
    assert not compile_cache.is_fresh()
    compile_cache.renew()
    assert compile_cache.is_fresh()
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache, "digest", lambda: "of other sources")
        assert not compile_cache.is_fresh()
    assert compile_cache.is_fresh()
    monkeypatch.setenv("NUMBA_CPU_NAME", "another-processor")
    assert not compile_cache.is_fresh()


def test_begin_removes_stale_code_and_keeps_interrupted_work(stamp, monkeypatch, tmp_path) -> None:
    """Numba would load a function whose own source is unchanged, together with old versions of the functions that it
    calls."""
    monkeypatch.setattr(compile_cache, "_ENGINE", tmp_path)
    monkeypatch.setattr(compile_cache, "digest", lambda: "these sources")
    older = tmp_path / "training" / "__pycache__"
    older.mkdir(parents=True)
    for name in ("dense.forward-38.py311.nbi", "dense.forward-38.py311.1.nbc", "dense.cpython-311.pyc"):
        (older / name).touch()
    compile_cache.begin()
    assert [path.name for path in older.iterdir()] == ["dense.cpython-311.pyc"]
    (older / "lstm.nbi").touch()
    compile_cache.begin()
    assert (older / "lstm.nbi").exists()
    monkeypatch.setattr(compile_cache, "digest", lambda: "changed ones")
    compile_cache.begin()
    assert not (older / "lstm.nbi").exists()


class TestSecondProcess:
    """The process that compiles everything except the LSTM and the noise."""

    @pytest.fixture
    def processes(self, stamp, monkeypatch) -> list[subprocess.Popen]:
        """Replace all compilation in this process; return the processes that are started."""
        started: list[subprocess.Popen] = []

        class Recorded(subprocess.Popen):
            def __init__(self, *words: Any, **options: Any) -> None:
                started.append(self)
                super().__init__(*words, **options)

        monkeypatch.setattr(subprocess, "Popen", Recorded)
        for name in FUNCTIONS:
            monkeypatch.setattr(compilation, name, lambda: None)
        monkeypatch.setattr(compile_cache, "begin", lambda: None)
        monkeypatch.setattr(compilation, "processor", lambda: types.SimpleNamespace(threads=2))
        return started

    def test_it_is_killed_if_the_first_stops(self, processes) -> None:
        def stop(words: str) -> None:
            assert processes[0].poll() is None
            raise RunStopped("The run was stopped")

        with pytest.raises(RunStopped):
            compilation.compile_everything(stop)
        assert [process.returncode for process in processes] == [-signal.SIGKILL]
        assert not compile_cache.is_fresh()

    def test_the_first_compiles_everything_if_it_fails(self, processes, monkeypatch) -> None:
        compiled: list[str] = []
        for name in FUNCTIONS:
            monkeypatch.setattr(compilation, name, partial(compiled.append, name))
        monkeypatch.setattr(sys, "executable", shutil.which("false"))
        compilation.compile_everything()
        assert [process.returncode for process in processes] == [1]
        assert set(compiled[2:]) == {*FUNCTIONS} - {"compile_recurrent_layers"}
        assert compile_cache.is_fresh()

    def test_one_hardware_thread_starts_none(self, processes, monkeypatch) -> None:
        monkeypatch.setattr(compilation, "processor", lambda: types.SimpleNamespace(threads=1))
        compilation.compile_everything()
        assert processes == []
        assert compile_cache.is_fresh()


class TestCount:
    """Progress of the compilation, by Numba's events."""

    def test_each_function_is_counted_when_compiled(self, monkeypatch) -> None:
        inner = njit(lambda x: x + 1)
        outer = njit(lambda x: inner(x) + 1)
        module = types.ModuleType("engine.made_up")
        module.__dict__.update(inner=inner, outer=outer, never=njit(lambda x: x))
        monkeypatch.setitem(sys.modules, "engine.made_up", module)
        told: list[str] = []
        with install_listener("numba:compile", compilation._Count(told.append)):
            outer(1)
        (first, total), *_, (last, also) = [map(int, words.removesuffix(" functions").split(" of ")) for words in told]
        assert last == first + 1
        assert total == also > last

    def test_an_exception_of_tell_is_raised_by_the_outermost_function(self) -> None:
        inner = njit(lambda x: x + 1)
        outer = njit(lambda x: inner(x) + 1)

        def stop(words: str) -> None:
            raise RunStopped("The run was stopped")

        with pytest.raises(RunStopped), install_listener("numba:compile", compilation._Count(stop)):
            outer(1)
        assert outer.signatures
