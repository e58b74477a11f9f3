"""The metric that the triples of dp-fl-ner come nearest to: token-level scores averaged over tags by their counts, with
O as a tag. That this is what was used there is our inference."""

from engine.records import Counts, EntityScores, PrecisionRecallF1, weighted


def published_metric(scores: EntityScores) -> PrecisionRecallF1:
    """Token-level scores, the mean over tags by their gold counts, O included."""
    return weighted(scores.tokens(outside=True))


def floor(scores: EntityScores) -> PrecisionRecallF1:
    """The published metric of a tagger that answers O everywhere, from the gold counts of some scores."""
    every = sum(counts.gold for counts in scores.token.values())
    return weighted(
        Counts(counts.gold if tag == "O" else 0, every if tag == "O" else 0, counts.gold)
        for tag, counts in scores.token.items()
    )
