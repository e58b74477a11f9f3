"""From the paper's setting to good practice, one choice after another, each at the same ε.

dp-fl-ner trains every weight of a BiLSTM from scratch with small batches, which spends a privacy budget badly. Public
features, few weights, large Poisson batches and Adam buy most of it back (Ponomareva et al. 2023, section 5; De et al.
2022; Tramèr and Boneh 2021).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from engine.config import SimulationConfig, with_noise
from engine.privacy.accounting import noise_multiplier_for
from engine.privacy.plan import PrivacyPlan

EPSILONS = (1.0, 3.0, 8.0)
"""Where the ladder is measured."""
CLIENTS, ROUNDS = (5, 20), (1, 10)
"""Of the federated recipe: how many parties, and how often they send their weights."""
_LARGE = 1024
SMALLEST_SHARE = 3
"""A batch has at most the third part of the sentences: from there on sampling amplifies little."""


@dataclass(frozen=True)
class RecipeStep:
    """One choice more than the rung below. why: a sentence. changes: by field, as :meth:`SimulationConfig.flat` names
    them. alone: those that are changed besides where no noise is added, and large batches have no use."""

    name: str
    why: str
    changes: Mapping[str, Any]
    alone: Mapping[str, Any] = field(default_factory=dict)


RUNGS = (
    RecipeStep("paper", "BiLSTM from scratch, batches of 32, SGD: the paper's setting.", {}),
    RecipeStep(
        "large batches",
        "The noise of a step is shared by 1,024 sentences; a longer step makes up for fewer of them.",
        {"batch_size": _LARGE, "learning_rate": 8.0},
    ),
    RecipeStep(
        "Adam, low clip norm",
        "Each weight has its own step size, so the clip norm can be so low that gradients always fill it.",
        {"optimiser": "adam", "learning_rate": 0.02, "loss": "sum", "clip_norm": 0.1},
    ),
    RecipeStep(
        "few weights",
        "One linear layer over word vectors and spelling: noise has 100 times fewer weights to spread over.",
        {"tagger": "linear-softmax", "features": "shapes", "window": 1, "learning_rate": 0.1},
        alone={"batch_size": 128, "learning_rate": 0.01},
    ),
    RecipeStep(
        "vectors in context",
        "A public language model has read the sentence before the private training begins.",
        {"features": "contextual"},
    ),
    RecipeStep(
        "CRF",
        "A chain judges a sentence's tags together, and only well-formed ones are read off; 81 weights more.",
        {"tagger": "linear-crf", "well_formed": True},
    ),
    RecipeStep(
        "averaged weights", "The average of many noisy weights has less noise than the last.", {"averaging": 0.95}
    ),
    RecipeStep(
        "public labels",
        "The model was tuned on Wikigold's names, spaCy's finder learned from OntoNotes; two words to each "
        "side are seen too.",
        {"features": "names", "window": 2, "learning_rate": 0.05},
    ),
)
"""From below; learning rates were chosen on CoNLL-2003's validation part with seed 0 at ε = 3."""


def recipe_step(number: int, corpus: str, sentences: int, epsilon: float | None) -> SimulationConfig:
    """The configuration of a rung on a corpus of so many training sentences: σ such that ε comes out no larger than
    asked for, with two decimals; None is no privacy."""
    changes: dict[str, Any] = {"corpus": corpus, "noise_multiplier": 1.0}
    climbed = RUNGS[: number + 1]
    for more in [each.changes for each in climbed] + [each.alone for each in climbed if epsilon is None]:
        changes |= more
    changes["batch_size"] = min(changes.get("batch_size", 32), max(1, sentences // SMALLEST_SHARE))
    config = SimulationConfig.from_flat(changes)
    if epsilon is None:
        return with_noise(config, 0.0)
    return with_noise(config, noise(config, sentences, epsilon))


def federated(corpus: str, sentences: int, clients: int, rounds: int, epsilon: float) -> SimulationConfig:
    """Good practice where so many clients hold equal random parts: each has DP-SGD on its own, with batches of at
    most a third of them, and spends ``epsilon`` over all rounds. As many passes over the data, split over the rounds;
    what is looked at is the average of the clients' weights alone. Fewer steps of each ask for longer ones."""
    base, shard = recommended_settings(corpus, sentences, epsilon), sentences // clients
    changes = {
        "clients": clients,
        "rounds": rounds,
        "batch_size": min(base.training.batch_size, max(1, shard // SMALLEST_SHARE)),
        "epochs": base.training.epochs / rounds,
        "learning_rate": 0.1,
        "averaging": 0.0,
    }
    config = SimulationConfig.from_flat(base.flat() | changes)
    whole = replace(config, training=replace(config.training, epochs=base.training.epochs))
    return with_noise(config, noise(whole, shard, epsilon))


_KNOWN = {
    (14_041, 32, 10.0): {1.0: 0.89, 3.0: 0.64, 8.0: 0.49},
    (14_041, 1024, 10.0): {1.0: 3.39, 3.0: 1.48, 8.0: 0.87},
    (2_808, 936, 10.0): {1.0: 7.05, 3.0: 2.8, 8.0: 1.36},
    (702, 234, 10.0): {1.0: 7.05, 3.0: 2.8, 8.0: 1.36},
    (4_400, 32, 10.0): {1.0: 1.26, 3.0: 0.77, 8.0: 0.57},
    (4_400, 1024, 10.0): {1.0: 5.93, 3.0: 2.39, 8.0: 1.21},
    (880, 293, 10.0): {1.0: 7.04, 3.0: 2.79, 8.0: 1.36},
    (220, 73, 10.0): {1.0: 7.01, 3.0: 2.79, 8.0: 1.36},
}
"""σ by sentences, batch, epochs and ε of CoNLL-2003 and the embedded corpus, whole and as parts of 5 and 20 clients,
for ``_KNOWN_FOR`` alone: what :func:`found_noise` finds in some seconds each (a test holds them)."""
_KNOWN_FOR = {"delta": 1e-5, "sampling": "poisson", "mechanism": "dp-sgd"}


@lru_cache(maxsize=64)
def noise(config: SimulationConfig, sentences: int, epsilon: float) -> float:
    """The smallest σ with two decimals whose ε is at most ``epsilon``, at once where it is known. A smaller δ needs
    more noise, and shuffled batches may be more steps."""
    training, privacy = config.training, config.privacy
    known = _KNOWN.get((sentences, training.batch_size, training.epochs), {})
    if epsilon in known and all(getattr(privacy, name) == value for name, value in _KNOWN_FOR.items()):
        return known[epsilon]
    return found_noise(config, sentences, epsilon)


def found_noise(config: SimulationConfig, sentences: int, epsilon: float) -> float:
    """The smallest σ with two decimals whose ε is at most ``epsilon``."""
    return math.ceil(100 * noise_multiplier_for(epsilon, PrivacyPlan.from_config(config, sentences))) / 100


def recommended_settings(corpus: str, sentences: int, epsilon: float) -> SimulationConfig:
    """The whole ladder."""
    return recipe_step(len(RUNGS) - 1, corpus, sentences, epsilon)
