"""Find the canary: a membership-inference game on eight artificial sentences, of which a tagger was trained on some.

The player sees the tagger's confidence before and after training. The tagger is trained on a tenth of the built-in
corpus and on the inserted canaries, as in an audit (:mod:`engine.experiments.canaries`).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from engine import corpus as corpora
from engine.config import SYNTHETIC, SimulationConfig, with_noise
from engine.experiments.canaries import BlackBox
from engine.lessons.fixtures import GRADIENT_LOCK
from engine.privacy.accounting import epsilon as epsilon_of
from engine.privacy.accounting import noise_multiplier_for
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets
from engine.settings import Settings
from engine.simulation.setup import prepare

NUMBER = 8
EPSILONS = (math.inf, 8.0, 1.0)
_TRAINING = {
    "corpus": SYNTHETIC,
    "tagger": "linear-crf",
    "data_fraction": 0.1,
    "batch_size": 64,
    "epochs": 40.0,
    "optimiser": "adam",
    "learning_rate": 0.05,
    "loss": "sum",
    "clip_norm": 0.1,
}


@dataclass(frozen=True)
class Canary:
    """A canary with the tagger's confidence in its tags.

    Attributes:
        words: Words of the sentence.
        names: Whether each word belongs to an entity.
        before: Mean probability of the words' tags before training (geometric mean), 0 to 1.
        after: The same after training.
        trained_on: Whether the tagger was trained on it.
    """

    words: tuple[str, ...]
    names: tuple[bool, ...]
    before: float
    after: float
    trained_on: bool


@dataclass(frozen=True)
class Game:
    """One round of the game.

    Attributes:
        epsilon: The claimed ε.
        canaries: The canaries.
        right_at_most: Upper bound on the mean attack accuracy under this ε, 0 to 1.
    """

    epsilon: float
    canaries: tuple[Canary, ...]
    right_at_most: float


@lru_cache(maxsize=32)
def deal(settings: Settings, target: float, number: int) -> Game:
    """Train the tagger of a round.

    Args:
        settings: Folders of this machine.
        target: One of ``EPSILONS``.
        number: Number of the round, which seeds it: the same number gives the same round.

    Raises:
        CorpusError: If the corpus cannot be read.
        VectorsMissing: If the word vectors are not installed.
        StoreError: If files of the store cannot be read.
    """
    config = SimulationConfig.from_flat(_TRAINING | {"noise_multiplier": 1.0, "seed": number})
    with GRADIENT_LOCK:
        prepared = prepare(config, settings)
        plan = PrivacyPlan.from_config(config, len(prepared.run.plan.chosen) + NUMBER)
        sigma = 0.0 if math.isinf(target) else noise_multiplier_for(target, plan, "rdp")
        config = with_noise(config, sigma)
        plan = PrivacyPlan.from_config(config, plan.examples)
        attack = BlackBox(prepared, plan, NUMBER, Secrets.seeded(number, "find the canary"), config)
        for step in range(plan.steps):
            attack.learner.step(step)
        after = attack.losses()
    claimed = epsilon_of(plan, plan.steps, "rdp")
    words = [
        word for sentence in corpora.resolve(SYNTHETIC, settings).parts[0].load().train for word in sentence.tokens
    ]
    outside = prepared.sides[0].encoded.tags.index("O")
    ends = attack.made.offsets.tolist()
    canaries = tuple(
        Canary(
            words=tuple(words[index] for index in attack.places[start:end]),
            names=tuple(bool(tag != outside) for tag in attack.made.tags[start:end]),
            before=float(np.exp(-attack.before[canary] / (end - start))),
            after=float(np.exp(-after[canary] / (end - start))),
            trained_on=bool(attack.members[canary]),
        )
        for canary, (start, end) in enumerate(pairwise(ends))
    )
    return Game(claimed, canaries, 1.0 if math.isinf(claimed) else 1 / (1 + math.exp(-claimed)))
