"""Membership inference on a configuration: each model is attacked with the other models as shadow models.

Each model is an ordinary run, with any tagger, clients and privacy, on a random half of the sentences. The members of
each model are known, and every model is evaluated on every sentence.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from engine.config import SimulationConfig
from engine.embeddings.contamination import apply_contamination
from engine.embeddings.encoding import EncodedSplit
from engine.errors import InvalidConfig
from engine.federated.accounting import privacy_spent
from engine.privacy.audit import membership
from engine.privacy.audit.applicability import refuse_inference
from engine.records import RATES, SHOWN, AttackCurve, MembershipAudit
from engine.seeds import Seeds
from engine.settings import Settings
from engine.simulation.setup import ClientModel, Prepared, prepare
from engine.training.dpsgd import losses
from engine.training.model import Model

FEWEST, MOST = 3, 256
AT_RISK = 20
_HALF = 0.5


@dataclass(frozen=True, kw_only=True)
class Known:
    """Evaluation of models on sentences.

    Attributes:
        phi: float64 [models, sentences], see :mod:`engine.privacy.audit.membership`.
        inside: which model was trained on which sentence, bool [models, sentences].
        client: client of each sentence in each model's training, −1 for none.
        types: entity types of each sentence.
        claimed: ε of one model.
        delta: δ of that ε.
    """

    phi: np.ndarray
    inside: np.ndarray
    client: np.ndarray
    types: tuple[frozenset[str], ...]
    claimed: float
    delta: float


def measure(
    config: SimulationConfig,
    settings: Settings,
    references: int = 32,
    *,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> MembershipAudit:
    """Train ``references`` + 1 models and attack each.

    Args:
        config: the configuration of the runs.
        settings: where corpora and vectors are.
        references: number of shadow models of each attack.
        tell: receives the stage and the share that is done; it may raise to stop.

    Raises:
        InvalidConfig: for a configuration or a number that is not valid.
        CorpusError: if a corpus is missing or invalid.
        VectorsMissing: if word vectors are not installed.
        StoreError: if stored data cannot be read or written.
        TrainingFailed: if a training diverges.
    """
    return infer(train(config, settings, references, tell=tell))


def train(
    config: SimulationConfig,
    settings: Settings,
    references: int = 32,
    *,
    both: bool = False,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> Known:
    """Train the models and evaluate them on the corpus's training sentences.

    Args:
        config: the configuration of the runs.
        settings: where corpora and vectors are.
        references: number of models minus 1.
        both: whether the validation sentences follow the training sentences.
        tell: receives the stage and the share that is done; it may raise to stop.

    Raises:
        InvalidConfig: and the other errors of :func:`measure`.
    """
    if not FEWEST <= references <= MOST:
        raise InvalidConfig(f"references={references}, expected {FEWEST} to {MOST}")
    refuse_inference(config)
    phi: list[np.ndarray] = []
    client: list[np.ndarray] = []
    types: list[frozenset[str]] = []
    claimed = 0.0
    for number in range(references + 1):
        tell(f"model {number + 1} of {references + 1}", number / (references + 1))
        prepared = prepare(_half(config, number), settings)
        run, (side,) = prepared.run, prepared.sides
        for progress in run.train(0, 0):
            if progress.taken % 10 == 0:
                done = (number + progress.taken / run.plan.steps) / (references + 1)
                tell(f"model {number + 1} of {references + 1}", done)
        weights = side.holding.weights(run.average.weights)
        parts = (side.holding.split, side.encoded.validation) if both else (side.holding.split,)
        phi.append(_phi(side, weights, parts))
        whose = _clients(prepared, len(parts[0]))
        client.append(np.concatenate([whose, np.full(len(phi[-1]) - len(whose), -1)]))
        types = types or [each for part in parts for each in _types(side, part)]
        spent = apply_contamination(privacy_spent(run.plan, run.plan.steps, len(run.plan.rounds)), side.shared)
        claimed = max(claimed, spent.epsilon)
    clients = np.array(client)
    return Known(
        phi=np.array(phi),
        inside=clients >= 0,
        client=clients,
        types=tuple(types),
        claimed=claimed,
        delta=config.privacy.delta,
    )


def of_model(
    model: Model,
    settings: Settings,
    references: int = 32,
    *,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> MembershipAudit:
    """Attack a saved model.

    Shadow models are trained on halves of the training sentences, at the model's noise multiplier. Non-members are the
    other training sentences, or the validation set if the model was trained on all of them. Each sentence is compared
    with shadow models without it, a quarter of all. Sentences with fewer such models are excluded.

    Args:
        model: the attacked model.
        settings: where corpora and vectors are.
        references: number of shadow models minus 1.
        tell: receives the stage and the share that is done; it may raise to stop.

    Raises:
        InvalidConfig: and the other errors of :func:`measure`.
    """
    config = model.config
    known = train(replace(config, data_fraction=1.0), settings, references, both=True, tell=tell)
    prepared = prepare(config, settings)
    (side,) = prepared.sides
    parts = (side.holding.split, side.encoded.validation)
    own = _phi(side, model.weights, parts)
    whose = np.full(len(own), -1)
    whose[: len(parts[0])] = _clients(prepared, len(parts[0]))
    few = max(1, len(known.phi) // 4)
    asked = np.flatnonzero((~known.inside).sum(0) >= few)
    if (whose >= 0).sum() < len(parts[0]):
        asked = asked[asked < len(parts[0])]
    phi = np.take_along_axis(known.phi[:, asked], _without(known.inside[:, asked], few, config.seed), axis=0)
    inside = np.zeros((len(phi) + 1, len(asked)), dtype=bool)
    inside[-1] = whose[asked] >= 0
    found = replace(
        known,
        phi=np.concatenate([phi, own[None, asked]]),
        inside=inside,
        client=np.where(inside, whose[asked], -1),
        types=tuple(known.types[number] for number in asked),
        claimed=model.epsilon,
    )
    return infer(found, [len(phi)])


def infer(known: Known, targets: Sequence[int] | None = None) -> MembershipAudit:
    """Attack models, each with all others as shadow models.

    Args:
        known: evaluation of all models.
        targets: indices of the attacked models, by default all.
    """
    targets = range(len(known.phi)) if targets is None else targets
    scored = {
        name: [attack(known.phi, known.inside, target) for target in targets]
        for name, attack in membership.ATTACKS.items()
    }
    members = [known.inside[target] for target in targets]
    curves = tuple(_curve(name, scores, members) for name, scores in scored.items())
    best = max(curves, key=lambda curve: curve.area).attack
    types = sorted(frozenset().union(*known.types))
    having = {name: np.array([name in each for each in known.types]) for name in types}
    clients = range(int(known.client.max()) + 1)

    pairs = list(zip(scored[best], members, strict=True))
    whose = [known.client[target] for target in targets]
    return MembershipAudit(
        claimed=known.claimed,
        delta=known.delta,
        models=len(targets),
        references=len(known.phi) - 1,
        sentences=known.phi.shape[1],
        curves=curves,
        best=best,
        by_type=_areas(pairs, {name: [having[name]] * len(pairs) for name in types}),
        by_client=_areas(
            pairs,
            {
                str(client + 1): [(own == client) | ~there for own, there in zip(whose, members, strict=True)]
                for client in clients
            },
        ),
        at_risk=_at_risk(known) if len(targets) > 1 else _most_certain(scored[best][0], members[0]),
    )


def _areas(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], among: Mapping[str, Sequence[np.ndarray]]
) -> dict[str, float]:
    """Return the mean AUC on subsets of the sentences, by name, for subsets with members and non-members.

    Args:
        pairs: scores and members of each attacked model.
        among: mask of the sentences of each subset, for each attacked model.
    """
    means = {}
    for name, masks in among.items():
        chosen = [(scores[mask], inside[mask]) for (scores, inside), mask in zip(pairs, masks, strict=True)]
        areas = [membership.area(*pair) for pair in chosen if 0 < pair[1].sum() < len(pair[1])]
        if areas:
            means[name] = float(np.mean(areas))
    return means


def _curve(attack: str, scores: Sequence[np.ndarray], members: Sequence[np.ndarray]) -> AttackCurve:
    pairs = list(zip(scores, members, strict=True))
    every = np.array([membership.tpr_at_fpr(*pair, np.array(RATES + SHOWN)) for pair in pairs])
    means = every.mean(0).tolist()
    if len(pairs) == 1:
        ends = [membership.interval(share, int(members[0].sum())) for share in means[len(RATES) :]]
    else:
        wide = student.ppf(0.975, len(pairs) - 1) * every[:, len(RATES) :].std(0, ddof=1) / math.sqrt(len(pairs))
        ends = [(max(0.0, m - w), min(1.0, m + w)) for m, w in zip(means[len(RATES) :], wide.tolist(), strict=True)]
    return AttackCurve(
        attack=attack,
        area=float(np.mean([membership.area(*pair) for pair in pairs])),
        caught=tuple(means[: len(RATES)]),
        shown=tuple((mean, *end) for mean, end in zip(means[len(RATES) :], ends, strict=True)),
    )


def _at_risk(evaluation: Known) -> tuple[tuple[int, float], ...]:
    """Return the sentences with the largest difference between mean φ as member and as non-member.

    The difference is in standard deviations, pooled with the median over all sentences.
    """
    inside, count = evaluation.inside, evaluation.inside.sum(0)
    mean = np.where(inside, evaluation.phi, 0).sum(0) / np.maximum(count, 1)
    without = np.where(inside, 0, evaluation.phi).sum(0) / np.maximum(len(evaluation.phi) - count, 1)
    residuals = evaluation.phi - np.where(inside, mean, without)
    spread = np.sqrt((residuals**2).sum(0) / max(len(evaluation.phi) - 2, 1))
    apart = (mean - without) / np.maximum(np.sqrt((spread**2 + np.median(spread) ** 2) / 2), 1e-12)
    apart[(count < 2) | (count > len(evaluation.phi) - 2)] = -np.inf
    return _highest(apart)


def _most_certain(scores: np.ndarray, members: np.ndarray) -> tuple[tuple[int, float], ...]:
    """Return the members with the highest scores, in standard deviations above the mean of the non-members."""
    others = scores[~members]
    return _highest(np.where(members, (scores - others.mean()) / max(float(others.std()), 1e-12), -np.inf))


def _highest(apart: np.ndarray) -> tuple[tuple[int, float], ...]:
    """Return the ``AT_RISK`` sentences with the highest values, without those of value −∞."""
    order = np.argsort(-apart, kind="stable")[:AT_RISK]
    return tuple((int(number), float(apart[number])) for number in order if np.isfinite(apart[number]))


def _without(inside: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Draw for each sentence shadow models that were not trained on it, int64 [number, sentences].

    Args:
        inside: which model was trained on which sentence, bool [models, sentences].
        number: shadow models for each sentence.
        seed: seed of the draw.
    """
    order = Seeds(seed).stream("references without").random(inside.shape) + inside
    return np.asarray(np.argsort(order, axis=0, kind="stable")[:number])


def _half(config: SimulationConfig, number: int) -> SimulationConfig:
    seed = (config.seed * (MOST + 1) + number) % 2**32
    return replace(config, data_fraction=config.data_fraction * _HALF, seed=seed)


def _phi(side: ClientModel, weights: np.ndarray, parts: Sequence[EncodedSplit]) -> np.ndarray:
    holding = side.holding
    return membership.phi_of(np.concatenate([losses(holding.backend, weights, part, holding.table) for part in parts]))


def _clients(prepared: Prepared, sentences: int) -> np.ndarray:
    """Return the client of each training sentence, −1 for unused ones, int64 [sentences]."""
    whose, plan = np.full(sentences, -1), prepared.run.plan
    for client, places in enumerate(plan.shards):
        whose[plan.chosen[places]] = client
    return whose


def _types(side: ClientModel, split: EncodedSplit) -> list[frozenset[str]]:
    """Return the entity types of each sentence."""
    names = [tag.partition("-")[2] for tag in side.encoded.tags]
    cut = np.split(split.tags, split.offsets[1:-1])
    return [frozenset(names[tag] for tag in np.unique(tags) if names[tag]) for tags in cut]
