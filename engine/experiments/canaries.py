"""Audit by canaries in one run: a lower bound on ε from a white-box or a black-box attacker.

*White box.* The gradient of each canary is its own direction, ten times as long as the clip norm: a set of weights that
no other canary has, each with a random sign. A coin decides whether a canary is included. Steps sample canaries with
the sampler of the sentences, clip their gradients by the norm given to the back end, and add the noise of every run.
The attacker knows all other sentences, which of them were sampled, and the release of every step. For each canary, the
attacker sums the log likelihood ratio of the steps with and without it (Nasr et al. 2023, *white box, gradient
canaries*, in one run: Steinke, Nasr, Jagielski 2023, section 6).

*Black box.* Each canary is a synthetic sentence: the words of a real one in another order, some tagged as entities. The
attacker has the model before and after training and compares its losses on each canary.

The model of such a run is discarded after the measurement.
"""

from collections.abc import Callable

import numpy as np

from engine.config import SimulationConfig, run_id
from engine.embeddings.contamination import apply_contamination
from engine.embeddings.encoding import subset
from engine.errors import InvalidConfig
from engine.experiments.canary_sentences import concatenate, generate_sentences
from engine.privacy.accounting import privacy_spent
from engine.privacy.audit import applicability, canary_bounds
from engine.privacy.audit.canary_bounds import log_likelihood_ratio
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
"""Norm of a canary's gradient before clipping, ÷ C."""


class Directions:
    """Orthonormal directions in the space of ``size`` weights, one for each canary.

    Attributes:
        members: which canaries are included, bool [m].

    Raises:
        InvalidConfig: for fewer weights than canaries.
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
        """Project a vector [size] on each direction, float64 [m]."""
        projections: np.ndarray = (vector[self._places].astype(np.float64) * self._values).sum(1)
        return projections

    def add(self, amounts: np.ndarray, vector: np.ndarray) -> None:
        """Add a multiple [m] of each direction to a vector [size], in place."""
        used = np.flatnonzero(amounts)  # a step has few canaries
        vector[self._places[used]] += (amounts[used, None] * self._values[used]).astype(vector.dtype)


class CanaryBackend:
    """A back end (see :class:`engine.training.dpsgd.Backend`) with canaries besides sentences.

    Canaries have numbers from ``first`` on and gradients of norm ``length``; ``parts`` is the number of parts of the
    tagger.

    Attributes:
        added: multiple of each canary's direction in the sums since it was last set to 0, [m].
    """

    def __init__(self, backend: Backend, directions: Directions, first: int, length: float, parts: int) -> None:
        self._backend, self._directions, self._first, self._length = backend, directions, first, length
        self._parts = parts
        self.added = np.zeros(len(directions.members))

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """Return the clipped sum, see :class:`Backend`; a canary that is not included has no gradient."""
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
        """Return the scores, see :class:`Backend`."""
        return self._backend.scores(weights, batch)


class _Reader(Optimiser):
    """An optimiser that stores its gradient, which an attacker can compute from the weights before and after a step."""

    given: np.ndarray

    def move(self, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        self.given = gradient.copy()
        super().move(weights, gradient, step)


class _Attacked(DPSGD):
    """DP-SGD with a white-box attacker.

    The attacker projects the release of each step on each direction and subtracts the known part of the sentences.
    """

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
        result = super().clipped_sum(sentences, weights, cut)
        if self._added is None:  # the sum of the step itself; later ones are recomputations by the noise check
            self._added = self.canaries.added.copy()
        return result

    def _update(self, total: np.ndarray, step: int) -> None:
        if self._added is None or not isinstance(self.optimiser, _Reader):
            raise TypeError(f"step={step:,} has no sum or no reader; another trainer started this step")
        others = self.directions.project(total) - self._added
        super()._update(total, step)
        self.release = self.directions.project(self.optimiser.given) * self.plan.batch_size - others


class SentenceBackend:
    """A back end (see :class:`engine.training.dpsgd.Backend`) in which excluded canaries have no gradient.

    Canaries are sentences with numbers from ``first`` on; ``members`` (bool [m]) marks the included ones, and ``parts``
    is the number of parts of the tagger.
    """

    def __init__(self, backend: Backend, members: np.ndarray, first: int, parts: int) -> None:
        self._backend, self._parts = backend, parts
        self._in = np.concatenate([np.ones(first, dtype=bool), members])

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        """Return the clipped sum, see :class:`Backend`."""
        there = self._in[batch.sentences]
        total = np.zeros(weights.size, np.float32)
        parts, losses = np.zeros((self._parts, len(there))), np.zeros(len(there))
        if there.any():
            real = self._backend.clipped_gradient(weights, batch.where(there), clip_norm, by_layer)
            total, parts[:, there], losses[there] = real.total, real.parts, real.losses
        return GradientSum(total, parts, losses)

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        """Return the scores, see :class:`Backend`."""
        return self._backend.scores(weights, batch)


def measure(
    config: SimulationConfig,
    settings: Settings,
    canaries: int | None = None,
    *,
    kind: str = "directions",
    wrong: Callable[[DPSGD], None] = lambda learner: None,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> CanaryAudit:
    """Train a configuration with canaries among its sentences, and guess which were included.

    Args:
        config: the configuration of the run.
        settings: where corpora and vectors are.
        canaries: number of canaries; None for the default number of this kind.
        kind: "directions" (white-box) or "sentences" (black-box).
        wrong: receives the trainer before its first step, to inject a bug in tests.
        tell: receives the stage and the share of the steps that are done; it may raise to stop.

    Raises:
        InvalidConfig: for several clients and for clipping by layer, which have no canaries.
        CorpusError: if a corpus is missing or invalid.
        VectorsMissing: if word vectors are not installed.
        StoreError: if stored data cannot be read or written.
        TrainingFailed: if the training diverges.
    """
    if kind not in KINDS:
        raise InvalidConfig(f"kind={kind!r}, expected one of {', '.join(KINDS)}")
    applicability.refuse_canaries(config)
    prepared = prepare(config, settings, tell=lambda stage: tell(stage, 0.0))
    if canaries is None:
        run = prepared.run
        most = applicability.white_box_canaries(len(run.plan.chosen), run.weights.size)
        canaries = most if kind == "directions" else applicability.CANARIES
    secrets = Secrets.seeded(config.seed, f"canaries {kind} {canaries} {run_id(config, prepared.corpus_checksum)}")
    plan = PrivacyPlan.from_config(config, len(prepared.run.plan.chosen) + canaries)
    attack = KINDS[kind](prepared, plan, canaries, secrets, config)
    wrong(attack.learner)
    for step in range(plan.steps):
        tell("training with canaries", step / plan.steps)
        attack.learner.step(step)
        attack.observe_step()
    bounds = canary_bounds.of_one_run(attack.scores(), attack.members, plan, independent=isinstance(attack, WhiteBox))
    monitor = attack.learner.monitor
    return CanaryAudit(
        kind=kind,
        claimed=apply_contamination(privacy_spent(plan, plan.steps), prepared.sides[0].shared).epsilon,
        delta=plan.delta,
        canaries=canaries,
        made=bounds.guesses.made,
        right=bounds.guesses.right,
        bound=bounds.any,
        bound_of_steps=bounds.of_steps,
        bound_of_trials=bounds.of_trials,
        check_failed=monitor.verdict().failed if plan.private and monitor else None,
        trials=bounds.trials,
        examples=plan.examples,
    )


class WhiteBox:
    """A white-box attacker with directions as canaries.

    Attributes:
        learner: the trainer.
        members: which canaries are included, bool [m].
    """

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
        # The back end does not use a canary's tokens, so each canary has those of a shortest sentence.
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
        """Add the log likelihood ratio of the last release."""
        self._scores += log_likelihood_ratio(self.learner.release / (self._plan.clip_norm or 1.0), self._plan)

    def scores(self) -> np.ndarray:
        """Return the score of each canary, higher for likely members, [m]."""
        return self._scores


class BlackBox:
    """A black-box attacker, who has the model before and after training, with synthetic sentences as canaries.

    Attributes:
        learner: the trainer.
        members: which canaries are included, bool [m].
        made: the synthetic sentences.
        places: positions of their words among the corpus's training words, in order.
    """

    def __init__(
        self, prepared: Prepared, plan: PrivacyPlan, canaries: int, secrets: Secrets, config: SimulationConfig
    ) -> None:
        run, (side,) = prepared.run, prepared.sides
        self.made, self.places = generate_sentences(
            side.encoded.train, canaries, side.encoded.tags, Seeds(config.seed).stream("made-up sentences")
        )
        self.members = secrets.stream("coins").random(canaries) < 0.5
        backend = SentenceBackend(side.holding.backend, self.members, plan.examples - canaries, len(side.tagger.parts))
        split = concatenate(subset(side.encoded.train, run.plan.chosen), self.made)
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
        """Return the present loss of each synthetic sentence, float64 [m]."""
        return losses(self._backend, self.learner.weights, self.made, self._table)

    def observe_step(self) -> None:
        """Do nothing: a black-box attacker does not see the steps."""

    def scores(self) -> np.ndarray:
        """Return the decrease of each loss by training, [m]."""
        return np.asarray(self.before - self.losses())


KINDS: dict[str, type[WhiteBox] | type[BlackBox]] = {"directions": WhiteBox, "sentences": BlackBox}


def _watch(prepared: Prepared, plan: PrivacyPlan, secrets: Secrets) -> NoiseMonitor | None:
    run = prepared.run
    if not plan.private:
        return None
    return NoiseMonitor([plan], run.weights.size, layers=run.holdings[0].layers, secrets=secrets)
