"""Compilation of all Numba functions of the engine during set-up, so that no run has to compile."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.event import Event, Listener, install_listener

from engine import setup_status
from engine.embeddings.transformer import compile_encoder
from engine.errors import EpsilonError, StoreError
from engine.hardware import processor
from engine.privacy.mechanisms import add_gaussian_noise
from engine.privacy.noise_check.kernels import compile_measuring
from engine.privacy.noise_check.replay import compile_replay
from engine.seeds import Secrets
from engine.settings import REPOSITORY
from engine.taggers.decoding import Decoder
from engine.training import compile_cache
from engine.training.averaging import compile_averaging
from engine.training.compiled.backend import compile_layers, compile_other_layers, compile_recurrent_layers
from engine.training.dropout import compile_dropout
from engine.training.optimisers import compile_optimisers
from engine.training.row_lookup import compile_gathering

_REPORT_SECONDS = 0.5
"""Seconds between two reports while the second process is compiling."""


def compile_everything(tell: Callable[[str], None] = lambda step: None) -> None:
    """Compile for float32 and cache the results beside the sources: some minutes the first time, then a second.

    Two processes compile, since Numba compiles one function at a time. Functions compiled before an interruption are
    not compiled again.

    Args:
        tell: receives the number of compiled functions after each one, and while the second process is compiling; it
            may raise to stop.
    """
    compile_cache.begin()
    count = _Count(tell)
    with install_listener("numba:compile", count):
        if processor().threads > 1:
            with _second_process() as is_compiling:
                compile_recurrent_layers()
                _compile_noise()
                while is_compiling():
                    count.report()
        compile_layers()  # loads what the second process has cached
        _compile_noise()
        _compile_other_functions()
    compile_cache.renew()


def _compile_noise() -> None:
    add_gaussian_noise(np.zeros(8, dtype=np.float32), Secrets.seeded(0, "").stream("noise"), 1.0)
    compile_measuring()
    compile_replay()


def _compile_other_functions() -> None:
    compile_encoder()
    compile_gathering()
    compile_dropout()
    compile_optimisers()
    compile_averaging()
    scores = np.zeros((3, 3), dtype=np.float32)
    Decoder(("O", "B-X", "I-X"), well_formed=True).best(scores, np.array([2, 1]), None)


@contextmanager
def _second_process() -> Iterator[Callable[[], bool]]:
    """Compile everything except the LSTM and the noise in a second process, which is killed if this process stops.

    Yields:
        A function that waits for at most ``_REPORT_SECONDS`` and returns whether the process is still compiling. Its
        failure needs no handling: the caller compiles what is missing.
    """
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:

        def is_compiling() -> bool:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_REPORT_SECONDS)
            return process.poll() is None

        try:
            yield is_compiling
        finally:
            process.kill()


def compile_what_is_missing(tell: Callable[[str], None]) -> None:
    """Compile for a run that starts before or without set-up, or wait for another process that compiles.

    Args:
        tell: receives a description of the stage; it may raise to stop.
    """
    with ExitStack() as held:
        with suppress(StoreError):  # a read-only environment: each process keeps its own code
            held.enter_context(setup_status.alone(lambda: tell("waiting for another process that compiles")))
        if not compile_cache.is_fresh():
            tell("compiling the training step, once; some minutes")
            compile_everything(lambda step: tell(f"compiling the training step, once: {step}"))


class _Count(Listener):
    """Counter of the engine's functions that are compiled or loaded from the cache."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        modules = [module for name, module in sys.modules.items() if name.startswith("engine.")]
        functions = [value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)]
        self._functions = {id(function): function for function in functions}.values()
        self._depth = 0

    def on_start(self, event: Event) -> None:
        """Count the start of a compilation, which may be nested in that of a caller."""
        self._depth += 1

    def on_end(self, event: Event) -> None:
        """Report the number of compiled functions."""
        self._depth -= 1
        try:
            self.report()
        except EpsilonError:
            if self._depth == 0:  # in a nested compilation, Numba would report it as an error of the caller
                raise

    def report(self) -> None:
        """Report the number of compiled functions."""
        done = sum(bool(function.signatures) for function in self._functions)
        self._tell(f"{done} of {len(self._functions)} functions")


if __name__ == "__main__":  # the second process
    compile_other_layers()
    _compile_other_functions()
