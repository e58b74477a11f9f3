"""Ablation from the paper settings to the recommended settings, step by step, at equal ε.

dp-fl-ner trains every weight of a BiLSTM from scratch with small batches, which loses much accuracy at a given ε.
Public features, few weights, large Poisson batches and Adam recover most of it (Ponomareva et al. 2023, section 5; De
et al. 2022; Tramèr and Boneh 2021).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from engine.config import SimulationConfig, with_noise
from engine.config.encoder_registry import E5, MPNET
from engine.privacy.accounting import noise_multiplier_for
from engine.privacy.plan import PrivacyPlan

EPSILONS = (1.0, 3.0, 8.0)
"""Values of ε at which the ablation is measured."""
CLIENTS, ROUNDS = (5, 20), (1, 10)
"""Numbers of clients and of communication rounds of the federated settings."""
_LARGE = 1024
"""Batch size in sentences."""
SMALLEST_SHARE = 3
"""A batch has at most 1/3 of the sentences, since larger sampling rates give little amplification."""

_FEW, _FEWER_EPOCHS = 1000, 10.0
"""Training sentences times ε below which the recommended settings have fewer epochs."""


@dataclass(frozen=True)
class RecipeStep:
    """One step of the ablation.

    Attributes:
        name: label in tables.
        why: the reason, in a sentence.
        changes: changes to the previous step by field, as :meth:`SimulationConfig.flat` names them.
        alone: further changes without noise, where large batches have no use.
    """

    name: str
    why: str
    changes: Mapping[str, Any]
    alone: Mapping[str, Any] = field(default_factory=dict)


STEPS = (
    RecipeStep("paper settings", "BiLSTM from scratch, batches of 32, SGD.", {}),
    RecipeStep(
        "large batches",
        "The noise of a step is divided by 1,024 sentences; a higher learning rate compensates for fewer steps.",
        {"batch_size": _LARGE, "learning_rate": 8.0},
    ),
    RecipeStep(
        "Adam, low clip norm",
        "Adam scales each weight's step, so a clip norm below all gradient norms does not slow the training.",
        {"optimiser": "adam", "learning_rate": 0.02, "loss": "sum", "clip_norm": 0.1},
    ),
    RecipeStep(
        "linear model",
        "One linear layer over word vectors and spelling: the noise affects 100 times fewer weights.",
        {"tagger": "linear-softmax", "features": "shapes", "window": 1, "learning_rate": 0.1},
        alone={"batch_size": 128, "learning_rate": 0.01},
    ),
    RecipeStep(
        "contextual vectors",
        "A public language model computes contextual features before the private training.",
        {"features": "contextual"},
    ),
    RecipeStep(
        "CRF",
        "A CRF scores the tags of a sentence jointly, with constrained decoding; it adds 81 weights.",
        {"tagger": "linear-crf", "well_formed": True},
    ),
    RecipeStep(
        "averaged weights", "The average over many steps has less noise than the last weights.", {"averaging": 0.95}
    ),
    RecipeStep(
        "features from public labels",
        "The language model was fine-tuned on Wikigold's entities, and spaCy's NER model was trained on OntoNotes. "
        "The features include two words on each side.",
        {"features": "names", "window": 2, "learning_rate": 0.05},
    ),
    RecipeStep(
        "larger language model",
        "The sixth layer of MPNet, a model of 0.4 GB, replaces MiniLM's layers and the word vectors.",
        {
            "features": "layer-names",
            "language_model": MPNET,
            "window": 1,
            "learning_rate": 0.1,
            "clip_norm": 0.3,
        },
        alone={"batch_size": 256, "learning_rate": 0.02},
    ),
    RecipeStep(
        "pretrained weights",
        "The training starts from a CRF that was trained without noise on the labels of Wikigold.",
        {"pretrained": True},
    ),
    RecipeStep(
        "more and smaller steps",
        "Twice the epochs at half the learning rate, with the larger σ that the same ε then needs.",
        {"epochs": 20.0, "learning_rate": 0.05},
        alone={"epochs": 10.0, "learning_rate": 0.02},
    ),
)
"""Steps in order; learning rates were selected on CoNLL-2003's validation set with seed 0 at ε = 3, those of the last
step and its epochs with two seeds at ε = 1 and 3.
"""
WITH_MINILM = next(number for number, step in enumerate(STEPS) if MPNET in step.changes.values()) - 1
"""Index of the last step with MiniLM."""


def recipe_step(number: int, corpus: str, sentences: int, epsilon: float | None) -> SimulationConfig:
    """Return the configuration of an ablation step.

    Args:
        number: index of the step in ``STEPS``.
        corpus: name of the corpus.
        sentences: number of its training sentences.
        epsilon: largest ε, which determines σ (two decimals); None for no noise.
    """
    changes: dict[str, Any] = {"corpus": corpus, "noise_multiplier": 1.0}
    steps = STEPS[: number + 1]
    for more in [step.changes for step in steps] + [step.alone for step in steps if epsilon is None]:
        changes |= more
    changes["batch_size"] = min(changes.get("batch_size", 32), max(1, sentences // SMALLEST_SHARE))
    config = SimulationConfig.from_flat(changes)
    if epsilon is None:
        return with_noise(config, 0.0)
    return with_noise(config, noise(config, sentences, epsilon))


def federated(corpus: str, sentences: int, clients: int, rounds: int, epsilon: float) -> SimulationConfig:
    """Return the recommended settings for clients that hold equal random parts of a corpus.

    Each client runs DP-SGD with batches of at most a third of its sentences and spends ``epsilon`` over all rounds.
    The epochs of central training are divided among the rounds, and only the average of the clients' weights is
    evaluated. The learning rate is higher, since each client takes fewer steps; it and the epochs were selected on
    CoNLL-2003's validation set with seed 0 at ε = 1.

    Args:
        corpus: name of the corpus.
        sentences: number of its training sentences.
        clients: number of clients.
        rounds: number of communication rounds.
        epsilon: largest ε of each client.
    """
    base, shard = recipe_step(len(STEPS) - 1, corpus, sentences, epsilon), sentences // clients
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
    (14_041, 1024, 20.0): {1.0: 4.66, 3.0: 1.9, 8.0: 1.03},
    (2_808, 936, 20.0): {1.0: 9.8, 3.0: 3.78, 8.0: 1.76},
    (702, 234, 20.0): {1.0: 9.8, 3.0: 3.78, 8.0: 1.76},
    (4_400, 32, 10.0): {1.0: 1.26, 3.0: 0.77, 8.0: 0.57},
    (4_400, 1024, 10.0): {1.0: 5.93, 3.0: 2.39, 8.0: 1.21},
    (4_400, 1024, 20.0): {1.0: 8.22, 3.0: 3.2, 8.0: 1.53},
    (880, 293, 20.0): {1.0: 9.79, 3.0: 3.78, 8.0: 1.76},
    (220, 73, 20.0): {1.0: 9.76, 3.0: 3.77, 8.0: 1.76},
}
"""σ by (sentences, batch size, epochs) and ε, for the settings ``_KNOWN_FOR`` only.

The values are for CoNLL-2003 and the built-in corpus, whole and divided among 5 and 20 clients. They equal the results
of :func:`found_noise` (tested), which takes several seconds each.
"""
_KNOWN_FOR = {"delta": 1e-5, "sampling": "poisson", "mechanism": "dp-sgd"}


@lru_cache(maxsize=64)
def noise(config: SimulationConfig, sentences: int, epsilon: float) -> float:
    """Return the smallest σ with two decimals whose ε is at most ``epsilon``, from the table where possible.

    The table is for one δ and Poisson sampling: a smaller δ needs more noise, and shuffled batches may take more steps.

    Args:
        config: the configuration.
        sentences: number of training sentences.
        epsilon: largest ε.
    """
    training, privacy = config.training, config.privacy
    known = _KNOWN.get((sentences, training.batch_size, training.epochs), {})
    if epsilon in known and all(getattr(privacy, name) == value for name, value in _KNOWN_FOR.items()):
        return known[epsilon]
    return found_noise(config, sentences, epsilon)


def found_noise(config: SimulationConfig, sentences: int, epsilon: float) -> float:
    """Compute the smallest σ with two decimals whose ε is at most ``epsilon``.

    Args:
        config: the configuration.
        sentences: number of training sentences.
        epsilon: largest ε.
    """
    return math.ceil(100 * noise_multiplier_for(epsilon, PrivacyPlan.from_config(config, sentences))) / 100


def with_minilm(corpus: str, sentences: int, epsilon: float) -> SimulationConfig:
    """Return the recommended settings with MiniLM, which any installation has.

    Args:
        corpus: name of the corpus.
        sentences: number of its training sentences.
        epsilon: largest ε.
    """
    return recipe_step(WITH_MINILM, corpus, sentences, epsilon)


def recommended_settings(corpus: str, sentences: int, epsilon: float | None, types: Iterable[str]) -> SimulationConfig:
    """Return the last step of ``STEPS``, adapted to a corpus.

    The training starts from pretrained weights if they recognise one of its entity types. If ``epsilon`` is small for
    the number of sentences, there are fewer steps, since each one needs more noise. Both rules were selected on the
    validation set of CoNLL-2003, the second one for parts of its training set.

    Args:
        corpus: name of the corpus.
        sentences: number of its training sentences.
        epsilon: largest ε; None for no noise.
        types: its entity types.
    """
    config = recipe_step(len(STEPS) - 1, corpus, sentences, epsilon)
    changes: dict[str, Any] = {}
    if config.public_head is None or not any(map(config.public_head.recognises, types)):
        changes["pretrained"] = False
    if epsilon is not None and sentences * epsilon < _FEW:
        changes["epochs"] = _FEWER_EPOCHS
    if not changes:
        return config
    config = SimulationConfig.from_flat(config.flat() | changes)
    return config if epsilon is None else with_noise(config, noise(config, sentences, epsilon))


def for_other_languages(
    corpus: str, sentences: int, epsilon: float | None, language_model: str = E5
) -> SimulationConfig:
    """Return the recommended settings without any public model for English but the language model.

    There are neither pretrained weights nor tags of the public NER tagger. σ remains the same, since neither changes ε.

    Args:
        corpus: name of the corpus.
        sentences: number of its training sentences.
        epsilon: largest ε; None for no noise.
        language_model: the language model.
    """
    config = recommended_settings(corpus, sentences, epsilon, ())
    return SimulationConfig.from_flat(config.flat() | {"features": "layer", "language_model": language_model})
