"""A run with canaries in it: what can be told of who was trained on, by whom the steps or the tagger are seen.

*White box.* Each canary is a sentence whose gradient is a direction of its own, ten times as long as the clip norm:
some of the weights, which no other canary has, each up or down. It is in by a coin. It joins steps by the sampler that
draws the sentences, its gradient is clipped by the norm that is given to the back end, and the noise is added by the
step that adds it in every run. The attacker knows all other sentences, who was sampled of them, and every step's
release; along each direction he adds up how much likelier the steps are with it than without (Nasr et al. 2023, *white
box, gradient canaries*, in one run: Steinke, Nasr, Jagielski 2023, section 6).

*Black box.* Each canary is a made-up sentence: words of another one in another order, of which some are called names.
The attacker sees the tagger before and after, and holds how much better it has come to know each.

Such a run is measured and thrown away.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from engine.config import SimulationConfig, run_id
from engine.embeddings.encoding import EncodedSplit, subset, token_positions
from engine.errors import InvalidConfig
from engine.privacy.accounting import privacy_spent
from engine.privacy.audit import multi_run, one_run
from engine.privacy.audit.applicability import refuse_canaries
from engine.privacy.audit.bound_inversion import of_noise
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.plan import PrivacyPlan
from engine.records import CanaryAudit
from engine.seeds import Secrets, Seeds
from engine.settings import Settings
from engine.simulation.setup import Prepared, prepare
from engine.training.batches import Batch, physical_batches
from engine.training.dpsgd import DPSGD, Backend, Cut, GradientSum, StepStatistics, losses
from engine.training.optimisers import Optimiser

LENGTH = 10.0
"""Of a direction's gradient before clipping, ÷ C."""
ERROR = 0.05
"""Chance that the highest bound of an attacker on an honest run is too high; all of his bounds share it."""
SHORTEST = 5
"""Words of a made-up sentence at least."""


class Directions:
    """Directions in the space of ``size`` weights, one for each canary, of length 1 and at right angles.

    members: which canaries are in, bool [m]. Raises InvalidConfig where there are fewer weights than canaries.
    """

    def __init__(self, canaries: int, size: int, secrets: Secrets) -> None:
        each = size // canaries if canaries else 0
        if not each:
            raise InvalidConfig(f"canaries={canaries:,}, expected 1 to {size:,}, the tagger's weights")
        places = secrets.stream("places").permutation(size)[: each * canaries]
        self._places = places.reshape(canaries, each)
        signs = np.where(secrets.stream("signs").random(each * canaries) < 0.5, -1.0, 1.0)
        self._values = signs.reshape(canaries, each) / np.sqrt(each)
        self.members = secrets.stream("coins").random(canaries) < 0.5

    def project(self, vector: np.ndarray) -> np.ndarray:
        """How far a vector [size] goes along each, float64 [m]."""
        found: np.ndarray = (vector[self._places].astype(np.float64) * self._values).sum(1)
        return found

    def add(self, amounts: np.ndarray, vector: np.ndarray) -> None:
        """Add so much of each [m] to a vector [size], in place."""
        some = np.flatnonzero(amounts)  # a step has few canaries
        vector[self._places[some]] += (amounts[some, None] * self._values[some]).astype(vector.dtype)


class CanaryBackend:
    """A back end (see :class:`engine.training.dpsgd.Backend`) that knows, besides sentences, canaries: those numbered
    from ``first`` on, each as long as ``length``. parts: how many the tagger has. added: how much
    of each canary's direction its last answers held, since it was set to 0, [m]."""

    def __init__(self, backend: Backend, directions: Directions, first: int, length: float, parts: int) -> None:
        self._backend, self._directions, self._first, self._length = backend, directions, first, length
        self._parts = parts
        self.added = np.zeros(len(directions.members))

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """See :class:`Backend`. A canary that is not in has no gradient."""
        there = batch.sentences >= self._first
        total = np.zeros(weights.size, np.float32)
        parts, losses = np.zeros((self._parts, len(there))), np.zeros(len(there))
        if not there.all():
            real = self._backend.clipped_gradient(weights, batch.where(~there), clip_norm, by_layer)
            total, parts[:, ~there], losses[~there] = real.total, real.parts, real.losses
        chosen = batch.sentences[there] - self._first
        lengths = self._length * self._directions.members[chosen]
        parts[:, there] = lengths / np.sqrt(len(parts))
        amounts = np.zeros(len(self.added))
        amounts[chosen] = np.minimum(lengths, np.inf if clip_norm is None else clip_norm)
        self._directions.add(amounts, total)
        self.added += amounts
        return GradientSum(total, parts, losses)

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """See :class:`Backend`."""
        return self._backend.scores(weights, batch)


class _Reader(Optimiser):
    """An optimiser that keeps what it was given, as everybody can work it out who sees the weights before and after."""

    given: np.ndarray

    def move(self, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        self.given = gradient.copy()
        super().move(weights, gradient, step)


class _Attacked(DPSGD):
    """DP-SGD, and who reads along: of each step how far its release goes along each direction, the others' part of it,
    which he knows, left out."""

    canaries: CanaryBackend
    directions: Directions
    release: np.ndarray
    _added: np.ndarray | None = None

    def sample(self, step: int) -> np.ndarray:
        self._added = None
        return super().sample(step)

    def clipped_sum(
        self, sentences: np.ndarray, weights: np.ndarray | None = None, cut: Cut = physical_batches
    ) -> tuple[np.ndarray, StepStatistics]:
        self.canaries.added[:] = 0
        found = super().clipped_sum(sentences, weights, cut)
        if self._added is None:  # the step's own sum: the noise check makes it again from pieces
            self._added = self.canaries.added.copy()
        return found

    def _update(self, total: np.ndarray, step: int) -> None:
        if self._added is None or not isinstance(self.optimiser, _Reader):
            raise TypeError(f"step={step:,} has no sum or no reader, expected both: it was not begun by this trainer")
        others = self.directions.project(total) - self._added
        super()._update(total, step)
        self.release = self.directions.project(self.optimiser.given) * self.plan.batch_size - others


class SentenceBackend:
    """A back end (see :class:`engine.training.dpsgd.Backend`) to which those of the sentences from ``first`` on that
    are not in, ``members`` bool [m], have no gradient. parts: how many the tagger has."""

    def __init__(self, backend: Backend, members: np.ndarray, first: int, parts: int) -> None:
        self._backend, self._parts = backend, parts
        self._in = np.concatenate([np.ones(first, dtype=bool), members])

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """See :class:`Backend`."""
        there = self._in[batch.sentences]
        total = np.zeros(weights.size, np.float32)
        parts, losses = np.zeros((self._parts, len(there))), np.zeros(len(there))
        if there.any():
            real = self._backend.clipped_gradient(weights, batch.where(there), clip_norm, by_layer)
            total, parts[:, there], losses[there] = real.total, real.parts, real.losses
        return GradientSum(total, parts, losses)

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """See :class:`Backend`."""
        return self._backend.scores(weights, batch)


def measure(
    config: SimulationConfig,
    settings: Settings,
    canaries: int = 1000,
    *,
    kind: str = "directions",
    wrong: Callable[[DPSGD], None] = lambda learner: None,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> CanaryAudit:
    """Train as the configuration says with canaries among its sentences, and guess which were in.

    kind: "directions" or "sentences". wrong: given what trains before its first step, to break something in it. tell:
    what is going on, with the share of the steps done; it may raise to stop. Raises InvalidConfig for what has no
    canaries: several clients, clipping by layer; CorpusError, VectorsMissing, StoreError, TrainingFailed.
    """
    if kind not in KINDS:
        raise InvalidConfig(f"kind={kind!r}, expected one of {', '.join(KINDS)}")
    refuse_canaries(config)
    prepared = prepare(config, settings, tell=lambda stage: tell(stage, 0.0))
    secrets = Secrets.seeded(config.seed, f"canaries {kind} {canaries} {run_id(config, prepared.corpus_checksum)}")
    plan = PrivacyPlan.from_config(config, len(prepared.run.plan.chosen) + canaries)
    attack = KINDS[kind](prepared, plan, canaries, secrets, config)
    wrong(attack.learner)
    for step in range(plan.steps):
        tell("training with canaries", step / plan.steps)
        attack.learner.step(step)
        attack.observe_step()
    scores, members, monitor = attack.scores(), attack.members, attack.learner.monitor
    tried = one_run.guesses_of(scores, members)
    alone = isinstance(attack, WhiteBox)
    drawn = plan.private and plan.sampling == "poisson"  # fixed batches are no steps that draw by chance
    error = ERROR / (3 if drawn and alone else 2 if drawn else 1)  # the highest bound is what is believed
    rates = multi_run.errors(scores, members, error)
    return CanaryAudit(
        kind=kind,
        claimed=privacy_spent(plan, plan.steps).epsilon,
        delta=plan.delta,
        canaries=canaries,
        made=tried[-1].made,
        right=tried[-1].right,
        bound=one_run.best(tried, one_run.epsilon_bound, plan.delta, error),
        bound_of_steps=one_run.steps_bound(tried, plan, error) if drawn else 0.0,
        bound_of_trials=of_noise(plan, lambda curve: multi_run.ruled_out(rates, curve)) if drawn and alone else None,
        check_failed=monitor.verdict().failed if plan.private and monitor else None,
    )


class WhiteBox:
    """Directions, and who reads every step. learner: what trains. members: which canaries are in, bool [m]."""

    def __init__(
        self, prepared: Prepared, plan: PrivacyPlan, canaries: int, secrets: Secrets, config: SimulationConfig
    ) -> None:
        run, (holding,) = prepared.run, prepared.run.holdings
        directions = Directions(canaries, run.weights.size, secrets)
        backend = CanaryBackend(
            holding.backend,
            directions,
            plan.examples - canaries,
            LENGTH * (plan.clip_norm or 1.0),
            len(prepared.sides[0].tagger.parts),
        )
        # The back end never looks at a canary's tokens: one of the shortest sentences stands for each.
        split = subset(
            holding.split, np.concatenate([run.plan.chosen, np.full(canaries, holding.split.lengths.argmin())])
        )
        self.learner = _Attacked(
            backend,
            plan,
            _Reader(config.training, run.weights.size),
            secrets,
            split,
            holding.table,
            run.weights,
            monitor=_watch(prepared, plan, secrets),
        )
        self.learner.canaries, self.learner.directions = backend, directions
        self.members, self._plan = directions.members, plan
        self._scores = np.zeros(canaries)

    def observe_step(self) -> None:
        """Read the release."""
        self._scores += _likelier(self.learner.release / (self._plan.clip_norm or 1.0), self._plan)

    def scores(self) -> np.ndarray:
        """Higher for who looks trained on, [m]."""
        return self._scores


class BlackBox:
    """Made-up sentences, and who has the tagger before and after. learner, members: as of the white box. made: the
    sentences; places: of the corpus' training words that they are made of, in their order."""

    def __init__(
        self, prepared: Prepared, plan: PrivacyPlan, canaries: int, secrets: Secrets, config: SimulationConfig
    ) -> None:
        run, (side,) = prepared.run, prepared.sides
        self.made, self.places = made_up(
            side.encoded.train, canaries, side.encoded.tags, Seeds(config.seed).stream("made-up sentences")
        )
        self.members = secrets.stream("coins").random(canaries) < 0.5
        backend = SentenceBackend(side.holding.backend, self.members, plan.examples - canaries, len(side.tagger.parts))
        split = joined(subset(side.encoded.train, run.plan.chosen), self.made)
        self.learner = DPSGD(
            backend,
            plan,
            Optimiser(config.training, run.weights.size),
            secrets,
            split,
            side.holding.table,
            run.weights,
            monitor=_watch(prepared, plan, secrets),
        )
        self._backend, self._table = side.holding.backend, side.holding.table
        self.before = self.losses()

    def losses(self) -> np.ndarray:
        """Of the made-up sentences now, float64 [m]."""
        return losses(self._backend, self.learner.weights, self.made, self._table)

    def observe_step(self) -> None:
        """He does not look."""

    def scores(self) -> np.ndarray:
        """How much better each is known than before, [m]."""
        return np.asarray(self.before - self.losses())


KINDS: dict[str, type[WhiteBox] | type[BlackBox]] = {"directions": WhiteBox, "sentences": BlackBox}


def made_up(
    split: EncodedSplit, number: int, tags: Sequence[str], stream: np.random.Generator
) -> tuple[EncodedSplit, np.ndarray]:
    """So many sentences: the words of some of these, each in another order, with a name of one word at two places
    drawn at random, of a type drawn at random. tags: names of the tags. Besides: the places
    of these words among the split's, int64 [tokens]. Raises InvalidConfig where there is nothing to make them of."""
    single = [place for place, tag in enumerate(tags) if tag.startswith("S-")]
    single = single or [place for place, tag in enumerate(tags) if tag.startswith("B-")]
    long = np.flatnonzero(split.lengths >= SHORTEST)
    if not len(long) or not single:
        raise InvalidConfig(f"sentences={len(split):,}, expected one of at least {SHORTEST} words, and entity types")
    picked = stream.choice(long, number)
    found = subset(split, picked)
    order = np.argsort(np.repeat(np.arange(number), found.lengths) + stream.random(len(found.rows)), kind="stable")
    new = np.full(len(found.tags), tags.index("O"), dtype=found.tags.dtype)
    for start, length in zip(found.offsets[:-1].tolist(), found.lengths.tolist(), strict=True):
        new[start + stream.choice(length, 2, replace=False)] = stream.choice(single, 2)
    forms = None if found.forms is None else found.forms[order]
    return replace(found, rows=found.rows[order], tags=new, forms=forms), token_positions(split, picked)[order]


def joined(first: EncodedSplit, second: EncodedSplit) -> EncodedSplit:
    """One after the other; both have the same spellings."""
    return replace(
        first,
        rows=np.concatenate([first.rows, second.rows]),
        tags=np.concatenate([first.tags, second.tags]),
        offsets=np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        forms=None if first.forms is None or second.forms is None else np.concatenate([first.forms, second.forms]),
    )


def _watch(prepared: Prepared, plan: PrivacyPlan, secrets: Secrets) -> NoiseMonitor | None:
    run = prepared.run
    if not plan.private:
        return None
    return NoiseMonitor([plan], run.weights.size, layers=run.holdings[0].layers, secrets=secrets)


def _likelier(release: np.ndarray, plan: PrivacyPlan) -> np.ndarray:
    """Log likelihood ratio of what a step released along each direction, ÷ C, [m]: with the canary against without."""
    if not plan.private:
        return release
    chance, variance = plan.sampling_probability, plan.noise_multiplier**2
    with np.errstate(divide="ignore"):
        found: np.ndarray = np.logaddexp(np.log1p(-chance), np.log(chance) + (release - 0.5) / variance)
    return found
