"""The published taggers: the recommended settings with MiniLM at each ε, and the paper settings.

The module is light to import, for pages.

Each is the tagger of a published run on CoNLL-2003. The corpus itself is not published: a tagger consists only of
weights, and ε bounds what those of a private run reveal. However, these runs have seeded noise, so that users can
reproduce them. Anyone who knows the seed can subtract the noise.
"""

import math

from engine.config import SimulationConfig
from engine.corpus.catalogue import NAMED
from engine.errors import InvalidConfig
from engine.experiments import recommended_settings
from engine.experiments.papers import jana_biemann_2021

CORPUS = jana_biemann_2021.CORPUS
PAPER = "0.76"
DEMONSTRATION = "Demonstration only: the noise seed is public, so this ε does not protect the people in CoNLL-2003."
NO_PRIVACY = "Trained without noise: the people in CoNLL-2003 are not protected."


def published() -> dict[str, SimulationConfig]:
    """Return the runs by the ε that selects them: "inf", "8", "3", "1", and "0.76", the paper's."""
    sentences = NAMED[CORPUS].train_sentences
    last = recommended_settings.WITH_MINILM
    epsilons = {f"{epsilon:g}": epsilon for epsilon in sorted(recommended_settings.EPSILONS, reverse=True)}
    runs = {name: recommended_settings.with_minilm(CORPUS, sentences, epsilon) for name, epsilon in epsilons.items()}
    return (
        {"inf": recommended_settings.recipe_step(last, CORPUS, sentences, None)}
        | runs
        | {PAPER: SimulationConfig(corpus=CORPUS)}
    )


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
