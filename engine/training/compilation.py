"""All compiled code of the engine, compiled at once: set-up does it, so that no run has to."""

import numpy as np

from engine.privacy.measuring import compile_measuring
from engine.privacy.mechanisms import add_gaussian_noise
from engine.seeds import Secrets
from engine.taggers.decoding import Decoder
from engine.training.compiled.backend import compile_layers
from engine.training.gathering import compile_gathering
from engine.training.optimisers import compile_optimisers


def compile_everything() -> None:
    """Compile for float32 and keep the results beside the sources: a minute the first time, a second after that."""
    compile_layers()
    compile_gathering()
    add_gaussian_noise(np.zeros(8, dtype=np.float32), Secrets.seeded(0, "").stream("noise"), 1.0)
    compile_measuring()
    compile_optimisers()
    scores = np.zeros((3, 3), dtype=np.float32)
    Decoder(("O", "B-X", "I-X"), well_formed=True).best(scores, np.array([2, 1]), None)
