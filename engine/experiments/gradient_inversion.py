"""Audit of an honest-but-curious server: gradient inversion of a federated run at several noise levels.

The attack is :mod:`engine.privacy.audit.gradient_inversion`. The messages are those of the run: clients train on their
own sentences in their first round, from initial weights that the server knows. For each message, the server predicts
which words of the corpus's vocabulary the client has. It tunes the attack on its own sentences, the validation set,
with messages of the same type. It tunes the number of directions and the largest distance of a word, or it ignores the
message and predicts frequent words. Later rounds leak more about the same sentences; they are not attacked here.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.config import SimulationConfig, with_noise
from engine.embeddings import EncodedSplit
from engine.embeddings.encoding import subset
from engine.errors import InvalidConfig
from engine.federated.accounting import privacy_spent
from engine.federated.client_update import clip, message
from engine.federated.fedavg import ClientData
from engine.federated.plan import LocalTraining
from engine.privacy.audit import gradient_inversion
from engine.records import ServerAudit, ServerReading
from engine.seeds import Secrets, Seeds
from engine.settings import Settings
from engine.simulation.setup import Prepared, prepare
from engine.training.dpsgd import DPSGD
from engine.training.optimisers import Optimiser

CLIENTS, OWN = 3, 2
"""Numbers of attacked clients and of messages that the server makes from its own sentences."""
NOISE = (0.0, 3e-4, 1e-3, 3e-3, 0.01, 0.1, 1.0)
"""Noise multipliers that are attacked besides that of the run; usual ones are near 1."""
_KEPT = (1.0, 0.75, 0.5, 0.25)
"""Shares of the directions that the server tries to keep."""
_MARGIN = 0.05
"""Smallest gain in F1 of a method that uses the message over one that ignores it."""
_MOMENTUM = 0.9


def refuse(config: SimulationConfig) -> None:
    """Raise InvalidConfig where a run has no message that this attack supports."""
    federation = config.federation
    for name, value, good, why in (
        ("clients", federation.clients, federation.clients > 1, "more than 1, since otherwise nothing is sent"),
        ("platforms", len(config.platforms), not config.platforms, "0, since models with private heads differ"),
        ("schedule", federation.schedule, federation.schedule != "gradients", "a schedule that sends weights"),
        ("features", config.features, config.feature_set.word_vectors_only, "'vectors', with one vector per word"),
        ("optimiser", config.training.optimiser, config.training.optimiser != "adam", "'sgd' or 'momentum'"),
    ):
        if not good:
            raise InvalidConfig(f"{name}={value!r}; gradient inversion expects {why}")


def measure(
    config: SimulationConfig,
    settings: Settings,
    *,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> ServerAudit:
    """Measure the words that the server reconstructs, at the run's noise and at others.

    Args:
        config: the configuration of the run.
        settings: where corpora and vectors are.
        tell: receives the stage and the share that is done; it may raise to stop.

    Raises:
        InvalidConfig: for a run that the attack does not support.
        CorpusError: if a corpus is missing or invalid.
        VectorsMissing: if word vectors are not installed.
        StoreError: if stored data cannot be read or written.
        TrainingFailed: if a training diverges.
    """
    refuse(config)
    own = config.privacy.noise_multiplier
    # Server-side noise does not affect the attack, since the server receives updates without noise.
    others = () if config.privacy.kind.noise == "server" else NOISE
    levels = sorted({own, *others})
    readings: list[ServerReading] = []
    for number, sigma in enumerate(levels):
        tell(f"gradient inversion at σ = {sigma:g}", number / len(levels))
        if readings and not readings[-1].by_message:  # more noise cannot help the server, so this reading is repeated
            readings.append(replace(readings[-1], noise_multiplier=sigma))
        else:
            readings.append(_reading(prepare(_with(config, sigma), settings), sigma, config))
    plan = prepare(config, settings).run.plan
    visits = _visits(plan.rounds)
    return ServerAudit(
        claimed=privacy_spent(plan, plan.steps, len(plan.rounds)).epsilon,
        delta=config.privacy.delta,
        sums=config.privacy.kind.distributed_noise,
        clients=1 if config.privacy.kind.distributed_noise else min(CLIENTS, len(visits)),
        sentences=round(sum(len(plan.sentences[visit.part]) for visit in visits) / len(visits)),
        steps=max(visit.steps for visit in visits),
        readings=tuple(readings),
    )


def _with(config: SimulationConfig, sigma: float) -> SimulationConfig:
    """Return the configuration with another σ, clipped as with noise; σ = 0 keeps the clipping of the run."""
    if sigma == config.privacy.noise_multiplier:
        return config
    if sigma == 0:
        return replace(config, privacy=replace(config.privacy, noise_multiplier=0.0))
    return with_noise(config, sigma)


def _visits(rounds: tuple[tuple[LocalTraining, ...], ...]) -> tuple[LocalTraining, ...]:
    """Return the local trainings of the first round with participants."""
    return next(visits for visits in rounds if visits)


@dataclass(frozen=True)
class _Message:
    """A message that the server receives.

    Attributes:
        kernel: the part of the message for the first kernels, [d, m].
        noise: standard deviation of the noise on each value.
        there: words of the sender, bool [V].
        names: words of the sender that are part of an entity, bool [V].
    """

    kernel: np.ndarray
    noise: float
    there: np.ndarray
    names: np.ndarray


class _Vocabulary:
    """The distinct word vectors of a corpus [V, d]."""

    def __init__(self, table: np.ndarray) -> None:
        self.vectors, place = np.unique(np.asarray(table), axis=0, return_inverse=True)
        self.place = place.reshape(-1)
        self.empty = ~self.vectors.any(1)

    def there(self, rows: np.ndarray) -> NDArray[np.bool_]:
        """Return a mask of the vectors of these words, bool [V], without unknown words, whose vector is zero."""
        mask = np.zeros(len(self.vectors), dtype=bool)
        mask[self.place[rows]] = True
        present: NDArray[np.bool_] = mask & ~self.empty
        return present


def _reading(prepared: Prepared, sigma: float, config: SimulationConfig) -> ServerReading:
    holding, encoded = prepared.run.holdings[0], prepared.sides[0].encoded
    words = _Vocabulary(holding.table)
    sent = list(_sent(prepared, config, words, None))
    own = list(_sent(prepared, config, words, encoded.validation))
    counts = np.bincount(words.place[encoded.validation.rows], minlength=len(words.vectors))
    rarity = (1 / (1 + counts)).astype(np.float32)
    share, largest = _method(own, words, rarity)
    predicted = [_distances(one, words, [share])[0] <= largest if share else rarity <= largest for one in sent]
    predicted = [mask & ~words.empty for mask in predicted]
    return ServerReading(
        noise_multiplier=sigma,
        there=sum(int(one.there.sum()) for one in sent),
        said=sum(int(mask.sum()) for mask in predicted),
        right=sum(int((mask & one.there).sum()) for mask, one in zip(predicted, sent, strict=True)),
        names=sum(int(one.names.sum()) for one in sent),
        names_read=sum(int((mask & one.names).sum()) for mask, one in zip(predicted, sent, strict=True)),
        by_message=share > 0,
    )


def _method(own: list[_Message], words: _Vocabulary, rarity: np.ndarray) -> tuple[float, float]:
    """Return the best attack on the server's own messages.

    An attack that uses the message must have a clearly higher F1 than predicting frequent words.

    Args:
        own: messages that the server made from its own sentences.
        words: the vocabulary.
        rarity: 1 ÷ (1 + frequency) of each word, float32 [V].

    Returns:
        The share of directions to keep, 0 for ignoring the message, and the largest distance of a predicted word.
    """
    known = ~words.empty
    methods: dict[float, list[tuple[float, float]]] = {
        0.0: [gradient_inversion.threshold(rarity[known], one.there[known]) for one in own]
    }
    for one in own:
        for share, distances in zip(_KEPT, _distances(one, words, _KEPT), strict=True):
            methods.setdefault(share, []).append(gradient_inversion.threshold(distances[known], one.there[known]))
    f1 = {
        share: float(np.mean([score for _, score in results])) - _MARGIN * (share > 0)
        for share, results in methods.items()
    }
    best = max(f1, key=lambda share: f1[share])
    return best, float(np.median([largest for largest, _ in methods[best]]))


def _distances(one: _Message, words: _Vocabulary, shares: Sequence[float]) -> list[np.ndarray]:
    """Return the distance of each word from the message's space for each share of kept directions, [V] each."""
    space = gradient_inversion.space_of(one.kernel, one.noise)
    directions = [min(max(1, round(share * space.rank)), len(space.values)) for share in shares]
    if not space.rank:
        return [np.ones(len(words.vectors), dtype=np.float32) for _ in shares]
    return list(gradient_inversion.residual_norm_topk(space, words.vectors, directions))


def _sent(
    prepared: Prepared, config: SimulationConfig, words: _Vocabulary, own: EncodedSplit | None
) -> Iterator[_Message]:
    """Yield the messages of the first clients, or only their sum under secure aggregation.

    Args:
        prepared: the run.
        config: its configuration.
        words: the vocabulary.
        own: the server's own sentences, which it trains on instead; None for the clients' sentences.
    """
    run, holding = prepared.run, prepared.run.holdings[0]
    visits = _visits(run.plan.rounds)
    sums = run.plan.mechanism.distributed_noise and run.plan.server is not None
    tries = range(1 if sums or own is None else OWN)
    for number in tries:
        total = np.zeros(holding.shared)
        rows: list[np.ndarray] = []
        named: list[np.ndarray] = []
        chosen = visits if sums else visits[: CLIENTS if own is None else 1]
        for visit in chosen:
            split = _split(prepared, visit, own, config.seed + number)
            update = _update(prepared, config, visit, split, number if own is not None else None)
            total = total + update if sums else update
            rows.append(split.rows)
            named.append(split.rows[np.asarray(split.tags) != 0])  # the first tag is O
            if not sums:
                yield _message(prepared, config, visit, total, words, rows.pop(), named.pop())
        if sums:
            total = total + _noise(run.plan.server.noise_std if run.plan.server else 0.0, total.size, config, number)
            yield _message(prepared, config, visits[0], total, words, np.concatenate(rows), np.concatenate(named))


def _message(
    prepared: Prepared,
    config: SimulationConfig,
    visit: LocalTraining,
    update: np.ndarray,
    words: _Vocabulary,
    rows: np.ndarray,
    named: np.ndarray,
) -> _Message:
    side, plan = prepared.sides[0], prepared.run.plan
    try:
        kernel = gradient_inversion.first_kernels(side.tagger, side.holding.weights(update))
    except ValueError as error:
        raise InvalidConfig(
            f"tagger={config.tagger.name!r}: {error}; gradient inversion does not support it"
        ) from error
    if plan.server:
        noise = plan.server.noise_std if plan.mechanism.client_side_noise else 0.0
    else:
        part = plan.parts[visit.part]
        noise = config.training.learning_rate / part.batch_size * part.noise_std * _steps(config, visit.steps)
    first = side.holding.weights(prepared.run.weights)
    rounding = gradient_inversion.ROUNDING * float(np.abs(first).max()) * math.sqrt(visit.steps)
    return _Message(kernel, max(noise, rounding), words.there(rows), words.there(named))


def _steps(config: SimulationConfig, steps: int) -> float:
    """Return the factor by which the noise of one step grows over so many steps."""
    if config.training.optimiser == "sgd":
        return math.sqrt(steps)
    grown = (1 - _MOMENTUM ** np.arange(1, steps + 1)) / (1 - _MOMENTUM)
    return float(np.sqrt((grown**2).sum()))


def _split(prepared: Prepared, visit: LocalTraining, own: EncodedSplit | None, seed: int) -> EncodedSplit:
    """Return the client's sentences, or as many of the server's own."""
    run, holding = prepared.run, prepared.run.holdings[0]
    sentences = run.plan.chosen[run.plan.sentences[visit.part]] - holding.first
    if own is None:
        return subset(holding.split, sentences)
    order = Seeds(seed).stream("curious server").permutation(len(own))
    return subset(own, np.sort(order[np.arange(len(sentences)) % len(order)]))


def _update(
    prepared: Prepared, config: SimulationConfig, visit: LocalTraining, split: EncodedSplit, own: int | None
) -> np.ndarray:
    """Return the update that a client sends, or the server's imitation of it, float64 [size]."""
    run, holding = prepared.run, prepared.run.holdings[0]
    if own is None:
        learner = run.learner(visit)
    else:
        weights = holding.weights(run.weights).copy()
        learner = _imitated(prepared, config, visit, split, holding, weights, own)
    for step in range(visit.steps):
        learner.step(visit.first + step)
    common = run.weights[: holding.shared]
    update: np.ndarray = learner.weights[: holding.shared].astype(np.float64) - common
    if run.plan.server is None or not run.plan.local:  # with server-side noise, the server sees the update without it
        return update
    update = clip(update, run.plan.server.clip_norm)
    if run.plan.mechanism.distributed_noise:
        return update
    if own is None:
        sent = message(run.plan, common, learner.weights[: holding.shared], _secrets(config, 0), visit.client, 0)
        return update if sent is None else sent
    noisy: np.ndarray = update + _noise(run.plan.server.noise_std, update.size, config, own)
    return noisy


def _imitated(
    prepared: Prepared,
    config: SimulationConfig,
    visit: LocalTraining,
    split: EncodedSplit,
    holding: ClientData,
    weights: np.ndarray,
    number: int,
) -> DPSGD:
    """Return the same training on the server's own sentences, with independent noise."""
    plan = prepared.run.plan.parts[visit.part]
    streams = _secrets(config, 1 + number)
    return DPSGD(
        holding.backend, plan, Optimiser(config.training, weights.size), streams, split, holding.table, weights
    )


def _secrets(config: SimulationConfig, number: int) -> Secrets:
    return Secrets.seeded(config.seed, "curious server").of(own=number)


def _noise(std: float, size: int, config: SimulationConfig, number: int) -> np.ndarray:
    drawn: np.ndarray = std * Seeds(config.seed).stream("curious noise", own=number).standard_normal(size)
    return drawn
