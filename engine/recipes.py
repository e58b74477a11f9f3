"""From the paper's setting to good practice, one choice after another, each at the same ε.

dp-fl-ner trains every weight of a BiLSTM from scratch with small batches, which spends a privacy budget badly. Public
features, few weights, large Poisson batches and Adam buy most of it back (Ponomareva et al. 2023, section 5; De et al.
2022; Tramèr and Boneh 2021).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine.config import SimulationConfig, with_noise
from engine.privacy.accounting import noise_multiplier_for
from engine.privacy.plan import PrivacyPlan

_RECIPE = 6
"""Number of the rung that is offered as good practice."""
EPSILONS = (1.0, 3.0, 8.0)
"""Where the ladder is measured."""
_LARGE, _LARGER = 1024, 4096
_SMALLEST_SHARE = 3
"""A batch has at most the third part of the sentences: from there on sampling amplifies little."""


@dataclass(frozen=True)
class Rung:
    """One choice more than the rung below. why: a sentence. changes: by field, as :meth:`SimulationConfig.flat` names
    them."""

    name: str
    why: str
    changes: Mapping[str, Any]


RUNGS = (
    Rung("paper", "BiLSTM from scratch, batches of 32, SGD: the paper's setting.", {}),
    Rung(
        "large batches",
        "The noise of a step is shared by 1,024 sentences; a longer step makes up for fewer of them.",
        {"batch_size": _LARGE, "learning_rate": 8.0},
    ),
    Rung(
        "Adam, low clip norm",
        "Each weight has its own step size, so the clip norm can be so low that gradients always fill it.",
        {"optimiser": "adam", "learning_rate": 0.02, "loss": "sum", "clip_norm": 0.1},
    ),
    Rung(
        "few weights",
        "One linear layer over word vectors and spelling: noise has 100 times fewer weights to spread over.",
        {"tagger": "linear-softmax", "features": "shapes", "window": 1, "learning_rate": 0.1},
    ),
    Rung(
        "vectors in context",
        "A public language model, tuned on public names, has read the sentence before the private training begins.",
        {"features": "tuned"},
    ),
    Rung(
        "CRF",
        "A chain judges a sentence's tags together, and only well-formed ones are read off; 81 weights more.",
        {"tagger": "linear-crf", "well_formed": True},
    ),
    Rung("averaged weights", "The average of many noisy weights has less noise than the last.", {"averaging": 0.95}),
    Rung(
        "longer, larger still",
        "40 epochs in batches of 4,096: at the same ε more passes over the data and less noise in each step.",
        {"batch_size": _LARGER, "epochs": 40.0},
    ),
)
"""From below; learning rates were chosen on CoNLL-2003's validation part with seed 0 at ε = 3."""


def rung(number: int, corpus: str, sentences: int, epsilon: float | None) -> SimulationConfig:
    """The configuration of a rung on a corpus of so many training sentences: σ such that ε comes out no larger than
    asked for, with two decimals; None is no privacy."""
    changes: dict[str, Any] = {"corpus": corpus, "noise_multiplier": 1.0}
    for each in RUNGS[: number + 1]:
        changes |= each.changes
    changes["batch_size"] = min(changes.get("batch_size", 32), max(1, sentences // _SMALLEST_SHARE))
    config = SimulationConfig.from_flat(changes)
    if epsilon is None:
        return with_noise(config, 0.0)
    return with_noise(config, _noise(config, sentences, epsilon))


_KNOWN = {
    (14_041, 32, 10.0): {1.0: 0.89, 3.0: 0.64, 8.0: 0.49},
    (14_041, 1024, 10.0): {1.0: 3.39, 3.0: 1.48, 8.0: 0.87},
    (14_041, 4096, 40.0): {1.0: 12.86, 3.0: 4.89, 8.0: 2.22},
    (4_400, 32, 10.0): {1.0: 1.26, 3.0: 0.77, 8.0: 0.57},
    (4_400, 1024, 10.0): {1.0: 5.93, 3.0: 2.39, 8.0: 1.21},
    (4_400, 1466, 40.0): {1.0: 13.74, 3.0: 5.22, 8.0: 2.35},
}
"""σ by sentences, batch, epochs and ε of CoNLL-2003 and the embedded corpus at δ = 1e-5: what :func:`found_noise` finds
in some seconds each (a test holds them)."""


@lru_cache(maxsize=64)
def _noise(config: SimulationConfig, sentences: int, epsilon: float) -> float:
    training = config.training
    known = _KNOWN.get((sentences, training.batch_size, training.epochs), {})
    return known.get(epsilon) or found_noise(config, sentences, epsilon)


def found_noise(config: SimulationConfig, sentences: int, epsilon: float) -> float:
    """The smallest σ with two decimals whose ε is at most ``epsilon``."""
    return math.ceil(100 * noise_multiplier_for(epsilon, PrivacyPlan.from_config(config, sentences))) / 100


def good_practice(corpus: str, sentences: int, epsilon: float) -> SimulationConfig:
    """The ladder up to averaged weights: what stands above takes three times as long and gains next to nothing."""
    return rung(_RECIPE, corpus, sentences, epsilon)
