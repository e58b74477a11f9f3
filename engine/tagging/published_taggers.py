"""The published taggers: those of good practice at each ε, and that of the first paper's setting. Light: pages import
it.

Each is the tagger of a published run on CoNLL-2003. That corpus stays where it is: a tagger has weights alone, and
those of a private run are what ε is about. The runs have seeded noise, though, so that everybody can repeat them:
whoever knows the seed can take the noise out again.
"""

import math

from engine.config import SimulationConfig
from engine.corpus.catalogue import NAMED
from engine.errors import InvalidConfig
from engine.experiments import recommended_settings
from engine.experiments.papers import jana_biemann_2021

CORPUS = jana_biemann_2021.CORPUS
PAPER = "0.76"
DEMONSTRATION = "Demonstration: its noise comes from a published seed, so this ε protects nobody in CoNLL-2003."
NO_PRIVACY = "Trained without noise: nothing protects the people in CoNLL-2003."


def published() -> dict[str, SimulationConfig]:
    """The run of each by the ε that it is asked for by: "inf", "8", "3", "1", and "0.76", the paper's."""
    sentences = NAMED[CORPUS].train_sentences
    last = len(recommended_settings.RUNGS) - 1
    wanted = {f"{epsilon:g}": epsilon for epsilon in sorted(recommended_settings.EPSILONS, reverse=True)}
    found = {
        name: recommended_settings.recommended_settings(CORPUS, sentences, epsilon) for name, epsilon in wanted.items()
    }
    return (
        {"inf": recommended_settings.recipe_step(last, CORPUS, sentences, None)}
        | found
        | {PAPER: SimulationConfig(corpus=CORPUS)}
    )


def asked_for(epsilon: str) -> SimulationConfig:
    """The run of a published tagger. Raises InvalidConfig."""
    known = published()
    if epsilon not in known:
        raise InvalidConfig(f"epsilon={epsilon!r}, expected one of {', '.join(known)}")
    return known[epsilon]


def warning(epsilon: float) -> str:
    """What must be known of a published tagger whose run says this ε."""
    return DEMONSTRATION if math.isfinite(epsilon) else NO_PRIVACY
