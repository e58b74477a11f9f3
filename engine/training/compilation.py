"""All compiled code of the engine, compiled at once: set-up does it, so that no run has to."""

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
from engine.seeds import Secrets
from engine.taggers.decoding import Decoder
from engine.training import compile_cache
from engine.training.averaging import compile_averaging
from engine.training.compiled.backend import compile_layers
from engine.training.dropout import compile_dropout
from engine.training.optimisers import compile_optimisers
from engine.training.row_lookup import compile_gathering


def compile_everything(tell: Callable[[str], None] = lambda step: None) -> None:
    """Compile for float32 and keep the results beside the sources: two minutes the first time, a second after that.

    tell: told how many functions are there, each time that one more is. What was compiled before an interruption is
    not compiled again.
    """
    compile_cache.begin()
    with install_listener("numba:compile", _Count(tell)):
        compile_layers()
        compile_gathering()
        compile_dropout()
        add_gaussian_noise(np.zeros(8, dtype=np.float32), Secrets.seeded(0, "").stream("noise"), 1.0)
        compile_measuring()
        compile_optimisers()
        compile_averaging()
        scores = np.zeros((3, 3), dtype=np.float32)
        Decoder(("O", "B-X", "I-X"), well_formed=True).best(scores, np.array([2, 1]), None)
    compile_cache.renew()


def compile_what_is_missing(tell: Callable[[str], None]) -> None:
    """Compile for a run that comes before set-up has, or without it; where another process is at it, wait for that.
    tell: told what goes on; it may raise."""
    with ExitStack() as held:
        with suppress(StoreError):  # nobody may write to the environment: each process keeps its own
            held.enter_context(setup_status.alone(lambda: tell("waiting for another process that compiles")))
        if not compile_cache.is_fresh():
            tell("compiling the training step, once; some minutes")
            compile_everything(lambda step: tell(f"compiling the training step, once: {step}"))


class _Count(Listener):
    """Counts functions of the engine that are compiled, or were loaded."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        modules = [module for name, module in sys.modules.items() if name.startswith("engine.")]
        found = [each for module in modules for each in vars(module).values() if isinstance(each, Dispatcher)]
        self._functions = {id(each): each for each in found}.values()
        self._depth = 0

    def on_start(self, event: Event) -> None:
        """A function begins, perhaps because another one calls it."""
        self._depth += 1

    def on_end(self, event: Event) -> None:
        """One more may be there."""
        self._depth -= 1
        done = sum(bool(each.signatures) for each in self._functions)
        try:
            self._tell(f"{done} of {len(self._functions)} functions")
        except EpsilonError:
            if self._depth == 0:  # further down Numba would take it for a fault of the function that calls
                raise
