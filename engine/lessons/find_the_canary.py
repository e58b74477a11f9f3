"""Find the canary: eight made-up sentences, some of which a tagger was trained on; which, judging by how sure it is?

The tagger is a real one, trained on a tenth of the embedded corpus with the canaries among its sentences, as an audit
trains it (:mod:`engine.experiments.canaries`).
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
    """words: of the sentence; names: which of them it calls names. before, after: how probable the tagger finds each
    word's tag on average, 0 to 1, before its training and after. trained_on: whether it was."""

    words: tuple[str, ...]
    names: tuple[bool, ...]
    before: float
    after: float
    trained_on: bool


@dataclass(frozen=True)
class Game:
    """One round. epsilon: that is claimed. right_at_most: share of guesses that are right on average at most."""

    epsilon: float
    canaries: tuple[Canary, ...]
    right_at_most: float


@lru_cache(maxsize=32)
def deal(settings: Settings, target: float, number: int) -> Game:
    """Train and ask. target: one of ``EPSILONS``. number: of the round; equal ones are equal. Raises CorpusError,
    VectorsMissing, StoreError."""
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
            words=tuple(words[place] for place in attack.places[start:end]),
            names=tuple(bool(tag != outside) for tag in attack.made.tags[start:end]),
            before=float(np.exp(-attack.before[place] / (end - start))),
            after=float(np.exp(-after[place] / (end - start))),
            trained_on=bool(attack.members[place]),
        )
        for place, (start, end) in enumerate(pairwise(ends))
    )
    return Game(claimed, canaries, 1.0 if math.isinf(claimed) else 1 / (1 + math.exp(-claimed)))
