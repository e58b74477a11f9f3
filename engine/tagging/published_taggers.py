"""The published taggers: the recommended settings at each ε, and the paper settings.

Those with MiniLM are used where MPNet is not installed.

The module is light to import, for pages.

Each is the tagger of a published run on CoNLL-2003. The corpus itself is not published: a tagger consists only of
weights, and ε bounds what those of a private run reveal. However, these runs have seeded noise, so that users can
reproduce them. Anyone who knows the seed can subtract the noise.
"""

import math

from engine.config import SimulationConfig
from engine.config.encoder_registry import has_mpnet
from engine.corpus.catalogue import NAMED
from engine.errors import InvalidConfig
from engine.experiments import recommended_settings
from engine.experiments.papers import jana_biemann_2021

CORPUS = jana_biemann_2021.CORPUS
PAPER = "0.76"
DEMONSTRATION = "Demonstration only: the noise seed is public, so this ε does not protect the people in CoNLL-2003."
NO_PRIVACY = "Trained without noise: the people in CoNLL-2003 are not protected."


def published(with_mpnet: bool | None = None) -> dict[str, SimulationConfig]:
    """Return the runs by the ε that selects them: "inf", "8", "3", "1", and "0.76", the paper's.

    Args:
        with_mpnet: whether they use MPNet; None if it is installed.
    """
    sentences = NAMED[CORPUS].train_sentences
    mpnet = has_mpnet() if with_mpnet is None else with_mpnet
    step = len(recommended_settings.STEPS) - 1 if mpnet else recommended_settings.WITH_MINILM
    epsilons: dict[str, float | None] = {"inf": None}
    epsilons |= {f"{epsilon:g}": epsilon for epsilon in sorted(recommended_settings.EPSILONS, reverse=True)}
    runs = {
        name: recommended_settings.recipe_step(step, CORPUS, sentences, epsilon) for name, epsilon in epsilons.items()
    }
    return runs | {PAPER: SimulationConfig(corpus=CORPUS)}


def asked_for(epsilon: str) -> SimulationConfig:
    """Return the run of a published tagger.

    Raises:
        InvalidConfig: If there is none with this ε.
    """
    runs = published()
    if epsilon not in runs:
        raise InvalidConfig(f"epsilon={epsilon!r}, expected one of {', '.join(runs)}")
    return runs[epsilon]


def warning(epsilon: float) -> str:
    """Return the privacy warning of a published tagger whose run reports this ε."""
    return DEMONSTRATION if math.isfinite(epsilon) else NO_PRIVACY
