"""Compilation of all Numba functions of the engine during set-up, so that no run has to compile."""

import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.event import Event, Listener, install_listener

from engine import setup_status
from engine.errors import EpsilonError, StoreError
from engine.privacy.mechanisms import add_gaussian_noise
from engine.privacy.noise_check.kernels import compile_measuring
from engine.privacy.noise_check.replay import compile_replay
from engine.seeds import Secrets
from engine.taggers.decoding import Decoder
from engine.training import compile_cache
from engine.training.averaging import compile_averaging
from engine.training.compiled.backend import compile_layers
from engine.training.dropout import compile_dropout
from engine.training.optimisers import compile_optimisers
from engine.training.row_lookup import compile_gathering


def compile_everything(tell: Callable[[str], None] = lambda step: None) -> None:
    """Compile for float32 and cache the results beside the sources: two minutes the first time, then a second.

    Functions compiled before an interruption are not compiled again.

    Args:
        tell: receives the number of compiled functions after each one.
    """
    compile_cache.begin()
    with install_listener("numba:compile", _Count(tell)):
        compile_layers()
        compile_gathering()
        compile_dropout()
        add_gaussian_noise(np.zeros(8, dtype=np.float32), Secrets.seeded(0, "").stream("noise"), 1.0)
        compile_measuring()
        compile_replay()
        compile_optimisers()
        compile_averaging()
        scores = np.zeros((3, 3), dtype=np.float32)
        Decoder(("O", "B-X", "I-X"), well_formed=True).best(scores, np.array([2, 1]), None)
    compile_cache.renew()


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
        done = sum(bool(function.signatures) for function in self._functions)
        try:
            self._tell(f"{done} of {len(self._functions)} functions")
        except EpsilonError:
            if self._depth == 0:  # in a nested compilation, Numba would report it as an error of the caller
                raise
