"""Configurations of the tables on the recommended settings: eight corpora, and parts of CoNLL-2003."""

from dataclasses import replace

from engine import corpus as corpora
from engine.config import SimulationConfig
from engine.experiments.recommended_settings import recommended_settings
from engine.settings import Settings

CORPORA = ("conll2003", "wnut17", "btc", "synthetic", "ncbi_disease", "bc5cdr", "ade", "psytar")
EPSILONS = (0.5, 1.0, 3.0, 8.0, None)
"""Values of ε; None for no noise."""
ON_HOME = (0.1, *EPSILONS)
"""Values of ε of the picture on page Home."""
PART, SIZES = "conll2003", (100, 300, 1000, 3000)
"""A corpus, and numbers of its training sentences."""


def on_corpora(settings: Settings) -> dict[str, list[SimulationConfig]]:
    """Return the configurations at each ε by corpus."""
    types = {info.name: info.entity_types for info in corpora.catalogue(settings)}
    found = {}
    for name in CORPORA:
        sentences = corpora.resolve(name, settings).train_sentences
        found[name] = [recommended_settings(name, sentences, epsilon, types[name]) for epsilon in EPSILONS]
    return found


def on_home(settings: Settings) -> list[SimulationConfig]:
    """Return the configurations on CoNLL-2003 at each ε of the picture on page Home."""
    sentences = corpora.resolve(PART, settings).train_sentences
    (types,) = (info.entity_types for info in corpora.catalogue(settings) if info.name == PART)
    return [recommended_settings(PART, sentences, epsilon, types) for epsilon in ON_HOME]


def on_parts(settings: Settings) -> dict[int, list[SimulationConfig]]:
    """Return the configurations at each ε by number of training sentences."""
    every = corpora.resolve(PART, settings).train_sentences
    (types,) = (info.entity_types for info in corpora.catalogue(settings) if info.name == PART)
    return {
        size: [
            replace(recommended_settings(PART, size, epsilon, types), data_fraction=size / every)
            for epsilon in EPSILONS
        ]
        for size in SIZES
    }
