"""How sure a tagger is, by the algorithm of forward and backward sums (Rabiner 1989, section III) in plain numpy.

A tagger's scores, with a CRF's transitions or none, give each well-formed sequence of tags a probability: exp of its
sum of scores, divided by that of all well-formed ones. A token's confidence is the probability of its tag; that of an
entity is the probability of all sequences that have exactly this entity (Culotta and McCallum 2004, section 3), which
is no larger than that of any of its tokens. A softmax tagger is the case without transitions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

_TOGETHER = 16_384
"""Bound on sentences · longest that are computed together."""


@dataclass(frozen=True)
class Chain:
    """A tagger's tags as a chain. step [K, K]: the score of going from a tag (row) to the next (column); start and end
    [K]: of beginning and ending with one; −∞ where that is ill-formed."""

    start: np.ndarray
    step: np.ndarray
    end: np.ndarray


def chain(tags: Sequence[str], transitions: np.ndarray | None) -> Chain:
    """The chain of a tagger's tags, BIO2 or BIOES. transitions [K, K]: of a CRF, None without."""
    closing = any(tag[0] == "E" for tag in tags)
    step = _costs(tags, tags, closing) + (0.0 if transitions is None else transitions.astype(np.float64))
    return Chain(_costs(["O"], tags, closing)[0], step, _costs(tags, ["O"], closing)[:, 0])


def _costs(before: Sequence[str], after: Sequence[str], closing: bool) -> np.ndarray:
    """0 where a tag may follow another, else −∞; closing: a name that was begun has to be closed by E-X."""

    def fits(one: str, other: str) -> bool:
        goes_on = other[0] in "IE"
        if goes_on:
            return one[0] in "BI" and one[2:] == other[2:]
        return not (closing and one[0] in "BI")

    return np.array([[0.0 if fits(one, other) else -np.inf for other in after] for one in before])


def confidences(
    chain: Chain, scores: np.ndarray, lengths: np.ndarray, best: np.ndarray, spans: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The probability of each token's tag, float64 [N], and of each entity, float64 [M].

    scores [N, K]: of the tokens, sentence after sentence; lengths int [B]; best int [N]: the tags that were read off.
    spans int [M, 2]: first and last token of each entity, counted through all sentences.
    """
    tokens, entities = np.zeros(len(scores)), np.zeros(len(spans))
    first = np.cumsum(lengths) - lengths
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    of_span = sentence[spans[:, 0]] if len(spans) else np.zeros(0, int)
    for group in _groups(lengths):
        longest = int(lengths[group].max())
        inside = np.arange(longest) < lengths[group, None]
        places = (first[group, None] + np.arange(longest))[inside]
        emitted = np.zeros((len(group), longest, scores.shape[1]))
        emitted[inside] = scores[places]
        there = np.zeros(inside.shape, int)
        there[inside] = best[places]
        forward, backward = _sums(chain, emitted, lengths[group])
        total = _log_sum(forward[np.arange(len(group)), lengths[group] - 1] + chain.end)
        log = np.take_along_axis(forward + backward, there[..., None], 2)[..., 0] - total[:, None]
        tokens[places] = np.exp(np.minimum(log, 0.0))[inside]
        chosen = np.flatnonzero(np.isin(of_span, group))
        if len(chosen):
            order = np.argsort(group)
            rows = order[np.searchsorted(group[order], of_span[chosen])]
            within = spans[chosen] - first[of_span[chosen], None]
            known = _Known(chain, emitted, forward, backward, total, there, lengths[group])
            entities[chosen] = _of_entities(known, rows, within)
    return tokens, entities


def _groups(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers of sentences of like length, so many together that memory stays small."""
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[order[end]] <= _TOGETHER:
            end += 1
        yield order[start:end]
        start = end


def _sums(chain: Chain, emitted: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log sums over all beginnings that end with a tag at a token, and over all ends that follow it; [B, T, K]."""
    longest = emitted.shape[1]
    forward, backward = np.empty_like(emitted), np.empty_like(emitted)
    forward[:, 0] = chain.start + emitted[:, 0]
    for t in range(1, longest):
        forward[:, t] = _log_sum((forward[:, t - 1, :, None] + chain.step).swapaxes(1, 2)) + emitted[:, t]
    backward[:, longest - 1] = chain.end
    for t in range(longest - 2, -1, -1):
        after = _log_sum(chain.step + (emitted[:, t + 1] + backward[:, t + 1])[:, None, :])
        last = np.equal(lengths - 1, t)
        backward[:, t] = np.where(last[:, None], chain.end, after)
    return forward, backward


@dataclass(frozen=True)
class _Known:
    """Of one group of sentences: scores and sums [B, T, K], the log sum of all sequences [B], tags [B, T]."""

    chain: Chain
    emitted: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    total: np.ndarray
    best: np.ndarray
    lengths: np.ndarray


def _of_entities(known: _Known, rows: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """The probability of each entity, [m]; rows [m]: its sentence; spans [m, 2]: its first and last token there."""
    begins, ends = spans.T
    stepped = known.chain.step[known.best[:, :-1], known.best[:, 1:]]
    own = np.take_along_axis(known.emitted, known.best[..., None], 2)[..., 0]
    path = np.zeros_like(own)
    with np.errstate(invalid="ignore"):
        # Padding goes from tag 0 to tag 0, and so does what is left of an entity: only differences inside of it count.
        path[:, 1:] = np.cumsum(np.where(np.isfinite(stepped), stepped, 0.0) + own[:, 1:], axis=1)
    log = known.forward[rows, begins, known.best[rows, begins]] + path[rows, ends] - path[rows, begins]
    tag = known.best[rows, ends]
    after = np.minimum(ends + 1, known.emitted.shape[1] - 1)
    followed = known.chain.step[tag] + known.emitted[rows, after] + known.backward[rows, after]
    closed = np.where(_goes_on(known.chain)[tag], -np.inf, followed)
    log += np.where(ends == known.lengths[rows] - 1, known.chain.end[tag], _log_sum(closed))
    found: np.ndarray = np.exp(np.minimum(log - known.total[rows], 0.0))
    return found


def _goes_on(chain: Chain) -> np.ndarray:
    """Which tag (column) makes an entity that ends with a tag (row) longer: those that cannot begin a sentence."""
    found: np.ndarray = np.isfinite(chain.step) & ~np.isfinite(chain.start)
    return found


def _log_sum(values: np.ndarray) -> np.ndarray:
    """log Σ exp over the last axis; −∞ where all are."""
    top = values.max(-1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        found: np.ndarray = np.log(np.exp(values - safe[..., None]).sum(-1)) + safe
    return found
