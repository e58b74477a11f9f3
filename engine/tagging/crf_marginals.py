"""Confidence of a tagger by the forward–backward algorithm (Rabiner 1989, section III) in NumPy.

A tagger's scores, with or without a CRF's transitions, define the probability of each well-formed tag sequence. It is
exp of the sequence's score sum, divided by that of all well-formed sequences. A token's confidence is the marginal
probability of its tag. An entity's confidence is the probability of all sequences with exactly this entity (Culotta and
McCallum 2004, section 3). It is never larger than that of any of its tokens. A softmax tagger is the case without
transitions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

_GROUP_SIZE = 16_384
"""Largest number of sentences · longest length in one group, which bounds memory."""


@dataclass(frozen=True)
class Chain:
    """The tag sequence model of a tagger; scores are −∞ where ill-formed.

    Attributes:
        start: Score of each tag as the first, [K].
        step: Score of a tag (row) followed by another (column), [K, K].
        end: Score of each tag as the last, [K].
    """

    start: np.ndarray
    step: np.ndarray
    end: np.ndarray


def chain(tags: Sequence[str], transitions: np.ndarray | None) -> Chain:
    """Return the sequence model of a tagger's tags, BIO2 or BIOES.

    Args:
        tags: Tag names.
        transitions: Scores [K, K] of a CRF, or None without a CRF.
    """
    closing = any(tag[0] == "E" for tag in tags)
    step = _costs(tags, tags, closing) + (0.0 if transitions is None else transitions.astype(np.float64))
    return Chain(_costs(["O"], tags, closing)[0], step, _costs(tags, ["O"], closing)[:, 0])


def _costs(before: Sequence[str], after: Sequence[str], closing: bool) -> np.ndarray:
    """Return 0 where a tag may follow another, else −∞.

    Args:
        before: Names of the first tags.
        after: Names of the following tags.
        closing: Whether an entity must be closed by E-X.
    """

    def fits(first: str, second: str) -> bool:
        continues = second[0] in "IE"
        if continues:
            return first[0] in "BI" and first[2:] == second[2:]
        return not (closing and first[0] in "BI")

    return np.array([[0.0 if fits(first, second) else -np.inf for second in after] for first in before])


def confidences(
    chain: Chain, scores: np.ndarray, lengths: np.ndarray, best: np.ndarray, spans: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of each token's tag, float64 [N], and of each entity, float64 [M].

    Args:
        chain: The sequence model of the tags.
        scores: Scores of the tokens, [N, K], sentence after sentence.
        lengths: Tokens of each sentence, int [B].
        best: Decoded tags, int [N].
        spans: First and last token of each entity, int [M, 2], counted over all sentences.
    """
    tokens, entities = np.zeros(len(scores)), np.zeros(len(spans))
    first = np.cumsum(lengths) - lengths
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    of_span = sentence[spans[:, 0]] if len(spans) else np.zeros(0, int)
    for group in _groups(lengths):
        longest = int(lengths[group].max())
        inside = np.arange(longest) < lengths[group, None]
        positions = (first[group, None] + np.arange(longest))[inside]
        emitted = np.zeros((len(group), longest, scores.shape[1]))
        emitted[inside] = scores[positions]
        decoded = np.zeros(inside.shape, int)
        decoded[inside] = best[positions]
        forward, backward = _sums(chain, emitted, lengths[group])
        total = _log_sum(forward[np.arange(len(group)), lengths[group] - 1] + chain.end)
        log = np.take_along_axis(forward + backward, decoded[..., None], 2)[..., 0] - total[:, None]
        tokens[positions] = np.exp(np.minimum(log, 0.0))[inside]
        chosen = np.flatnonzero(np.isin(of_span, group))
        if len(chosen):
            order = np.argsort(group)
            rows = order[np.searchsorted(group[order], of_span[chosen])]
            within = spans[chosen] - first[of_span[chosen], None]
            group_sums = _GroupSums(chain, emitted, forward, backward, total, decoded, lengths[group])
            entities[chosen] = _of_entities(group_sums, rows, within)
    return tokens, entities


def _groups(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Yield indices of sentences of similar length, in groups that limit memory."""
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[order[end]] <= _GROUP_SIZE:
            end += 1
        yield order[start:end]
        start = end


def _sums(chain: Chain, emitted: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log sums over all prefixes that end with a tag at a token, and over all suffixes after it; [B, T, K]."""
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
class _GroupSums:
    """Scores and sums of one group: [B, T, K], log sum of all sequences [B], tags [B, T]."""

    chain: Chain
    emitted: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    total: np.ndarray
    best: np.ndarray
    lengths: np.ndarray


def _of_entities(sums: _GroupSums, rows: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Return the probability of each entity, [m].

    Args:
        sums: Sums of one group of sentences.
        rows: Sentence of each entity in the group, [m].
        spans: First and last token of each entity in its sentence, [m, 2].
    """
    starts, ends = spans.T
    stepped = sums.chain.step[sums.best[:, :-1], sums.best[:, 1:]]
    own = np.take_along_axis(sums.emitted, sums.best[..., None], 2)[..., 0]
    path = np.zeros_like(own)
    with np.errstate(invalid="ignore"):
        # Steps of padding or outside entities may be −∞; only differences within an entity count.
        path[:, 1:] = np.cumsum(np.where(np.isfinite(stepped), stepped, 0.0) + own[:, 1:], axis=1)
    log = sums.forward[rows, starts, sums.best[rows, starts]] + path[rows, ends] - path[rows, starts]
    tag = sums.best[rows, ends]
    after = np.minimum(ends + 1, sums.emitted.shape[1] - 1)
    followed = sums.chain.step[tag] + sums.emitted[rows, after] + sums.backward[rows, after]
    closed = np.where(_continuations(sums.chain)[tag], -np.inf, followed)
    log += np.where(ends == sums.lengths[rows] - 1, sums.chain.end[tag], _log_sum(closed))
    result: np.ndarray = np.exp(np.minimum(log - sums.total[rows], 0.0))
    return result


def _continuations(chain: Chain) -> np.ndarray:
    """Return which tags (columns) continue an entity that ends with a tag (row): those that cannot begin a sentence."""
    result: np.ndarray = np.isfinite(chain.step) & ~np.isfinite(chain.start)
    return result


def _log_sum(values: np.ndarray) -> np.ndarray:
    """Return log Σ exp over the last axis; −∞ where all values are."""
    top = values.max(-1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        result: np.ndarray = np.log(np.exp(values - safe[..., None]).sum(-1)) + safe
    return result
