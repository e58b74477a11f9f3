"""What a server that follows every rule, and is curious, reads in the messages of a federated run: an audit by gradient
inversion (:mod:`engine.privacy.audit.gradient_inversion`), at the run's own noise and at others.

The messages are the run's: clients train on their own sentences in their first round, as the configuration says, from
the first weights, which the server knows. What it asks of each is which words of the corpus's vocabulary the client
has. How to tell, it chooses on sentences of its own, those of the validation part, from which it makes a message of the
same kind: how many directions to keep, up to which distance a word is there, or to leave the message alone and name
the words that are frequent. Later rounds tell more about the same sentences, and are not attacked here.
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
"""Whose messages are attacked one by one, and how many the server makes itself."""
NOISE = (0.0, 3e-4, 1e-3, 3e-3, 0.01, 0.1, 1.0)
"""Noise multipliers that are tried beside the run's own; usual ones are near 1."""
_KEPT = (1.0, 0.75, 0.5, 0.25)
"""Shares of the directions found that the server tries to keep."""
_MARGIN = 0.05
"""By so much F1 a method that uses the message has to be better than one that does not."""
_MOMENTUM = 0.9


def refuse(config: SimulationConfig) -> None:
    """Raises InvalidConfig where there is no such message, or this attack is not for it."""
    federation = config.federation
    for name, value, good, why in (
        ("clients", federation.clients, federation.clients > 1, "more than 1: else nothing is sent"),
        ("platforms", len(config.platforms), not config.platforms, "0: of taggers with parts of their own"),
        ("schedule", federation.schedule, federation.schedule != "gradients", "weights that travel"),
        ("features", config.features, config.features == "vectors", "'vectors': each word has its own"),
        ("optimiser", config.training.optimiser, config.training.optimiser != "adam", "sums of gradients: sgd"),
    ):
        if not good:
            raise InvalidConfig(f"{name}={value!r}: to read words in messages, expected {why}")


def measure(
    config: SimulationConfig,
    settings: Settings,
    *,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> ServerAudit:
    """What is read at the run's noise and at others. tell: what is going on, with the share done; it may raise to stop.
    Raises InvalidConfig, CorpusError, VectorsMissing, StoreError, TrainingFailed."""
    refuse(config)
    own = config.privacy.noise_multiplier
    # The server sees updates before it adds noise: that changes nothing of what it reads.
    others = () if config.privacy.kind.noise == "server" else NOISE
    levels = sorted({own, *others})
    readings: list[ServerReading] = []
    for number, sigma in enumerate(levels):
        tell(f"what the server reads at σ = {sigma:g}", number / len(levels))
        if readings and not readings[-1].by_message:  # taken to leave them alone under more noise too, and so shown
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
    """The same with another noise; clipped as it would be with noise, unless it has none and clips nothing."""
    if sigma == config.privacy.noise_multiplier:
        return config
    if sigma == 0:
        return replace(config, privacy=replace(config.privacy, noise_multiplier=0.0))
    return with_noise(config, sigma)


def _visits(rounds: tuple[tuple[LocalTraining, ...], ...]) -> tuple[LocalTraining, ...]:
    """The first training of those who take part first."""
    return next(visits for visits in rounds if visits)


@dataclass(frozen=True)
class _Message:
    """What the server sees. kernel: what of it belongs to the first kernels, [d, m]. noise: its standard deviation on
    each value. there, names: words of who sent it, and those that are part of a name, bool [V]."""

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
        """Which of them these words have, bool [V]; unknown words, whose vector is zero, are left out."""
        found = np.zeros(len(self.vectors), dtype=bool)
        found[self.place[rows]] = True
        present: NDArray[np.bool_] = found & ~self.empty
        return present


def _reading(prepared: Prepared, sigma: float, config: SimulationConfig) -> ServerReading:
    holding, encoded = prepared.run.holdings[0], prepared.sides[0].encoded
    words = _Vocabulary(holding.table)
    sent = list(_sent(prepared, config, words, None))
    own = list(_sent(prepared, config, words, encoded.validation))
    counts = np.bincount(words.place[encoded.validation.rows], minlength=len(words.vectors))
    rarity = (1 / (1 + counts)).astype(np.float32)
    share, largest = _method(own, words, rarity)
    said = [_distances(each, words, [share])[0] <= largest if share else rarity <= largest for each in sent]
    said = [each & ~words.empty for each in said]
    return ServerReading(
        noise_multiplier=sigma,
        there=sum(int(each.there.sum()) for each in sent),
        said=sum(int(each.sum()) for each in said),
        right=sum(int((each & one.there).sum()) for each, one in zip(said, sent, strict=True)),
        names=sum(int(one.names.sum()) for one in sent),
        names_read=sum(int((each & one.names).sum()) for each, one in zip(said, sent, strict=True)),
        by_message=share > 0,
    )


def _method(own: list[_Message], words: _Vocabulary, rarity: np.ndarray) -> tuple[float, float]:
    """The share of directions to keep, 0 for leaving the message alone, and up to which distance a word is there: what
    does best on the server's own. One that uses the message has to be clearly better than frequent words."""
    known = ~words.empty
    ways: dict[float, list[tuple[float, float]]] = {
        0.0: [gradient_inversion.threshold(rarity[known], one.there[known]) for one in own]
    }
    for one in own:
        for share, distances in zip(_KEPT, _distances(one, words, _KEPT), strict=True):
            ways.setdefault(share, []).append(gradient_inversion.threshold(distances[known], one.there[known]))
    f1 = {share: float(np.mean([each[1] for each in some])) - _MARGIN * (share > 0) for share, some in ways.items()}
    best = max(f1, key=lambda share: f1[share])
    return best, float(np.median([largest for largest, _ in ways[best]]))


def _distances(one: _Message, words: _Vocabulary, shares: Sequence[float]) -> list[np.ndarray]:
    """How far each word is outside the space of the message, where such a share of its directions is kept, [V] each."""
    space = gradient_inversion.space_of(one.kernel, one.noise)
    directions = [min(max(1, round(share * space.rank)), len(space.values)) for share in shares]
    if not space.rank:
        return [np.ones(len(words.vectors), dtype=np.float32) for _ in shares]
    return list(gradient_inversion.residual_norm_topk(space, words.vectors, directions))


def _sent(
    prepared: Prepared, config: SimulationConfig, words: _Vocabulary, own: EncodedSplit | None
) -> Iterator[_Message]:
    """The messages of the first clients, or their sum where the server sees no more. own: sentences of the server's,
    which it trains on in their place."""
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
        raise InvalidConfig(f"tagger={config.tagger.name!r}: {error}, and its messages are not read") from error
    if plan.server:
        noise = plan.server.noise_std if plan.mechanism.client_side_noise else 0.0
    else:
        part = plan.parts[visit.part]
        noise = config.training.learning_rate / part.batch_size * part.noise_std * _steps(config, visit.steps)
    first = side.holding.weights(prepared.run.weights)
    rounding = gradient_inversion.ROUNDING * float(np.abs(first).max()) * math.sqrt(visit.steps)
    return _Message(kernel, max(noise, rounding), words.there(rows), words.there(named))


def _steps(config: SimulationConfig, steps: int) -> float:
    """By how much the noise of one step grows over so many."""
    if config.training.optimiser == "sgd":
        return math.sqrt(steps)
    grown = (1 - _MOMENTUM ** np.arange(1, steps + 1)) / (1 - _MOMENTUM)
    return float(np.sqrt((grown**2).sum()))


def _split(prepared: Prepared, visit: LocalTraining, own: EncodedSplit | None, seed: int) -> EncodedSplit:
    """The client's sentences, or as many of the server's own, as far as it has them."""
    run, holding = prepared.run, prepared.run.holdings[0]
    sentences = run.plan.chosen[run.plan.sentences[visit.part]] - holding.first
    if own is None:
        return subset(holding.split, sentences)
    order = Seeds(seed).stream("curious server").permutation(len(own))
    return subset(own, np.sort(order[np.arange(len(sentences)) % len(order)]))


def _update(
    prepared: Prepared, config: SimulationConfig, visit: LocalTraining, split: EncodedSplit, own: int | None
) -> np.ndarray:
    """What a client's training changes, float64 [size], as it is sent; or what the server makes in its place."""
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
    if run.plan.server is None or not run.plan.local:  # a server that clips and adds noise sees it before
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
    """The same training on the server's own sentences, with noise of its own."""
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
