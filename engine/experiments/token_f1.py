"""The metric of dp-fl-ner: token-level scores, weighted by support, with O as a tag.

The paper does not name its metric. This one is our inference, since the reported values come nearest to it.
"""

from engine.records import Counts, EntityScores, PrecisionRecallF1, weighted


def published_metric(scores: EntityScores) -> PrecisionRecallF1:
    """Return token-level scores, averaged over tags by their gold counts, O included."""
    return weighted(scores.tokens(outside=True))


def floor(scores: EntityScores) -> PrecisionRecallF1:
    """Return the published metric of a tagger that predicts O everywhere, from the gold counts of some scores."""
    every = sum(counts.gold for counts in scores.token.values())
    return weighted(
        Counts(counts.gold if tag == "O" else 0, every if tag == "O" else 0, counts.gold)
        for tag, counts in scores.token.items()
    )
