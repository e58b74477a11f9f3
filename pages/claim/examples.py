"""Published privacy claims, to fill in."""

from dataclasses import dataclass

import streamlit as st

from engine.privacy.claim import FACTS, Claim

KNOWN = "known_"
"""Beginning of the keys of the checkboxes."""


@dataclass(frozen=True)
class Example:
    """A published claim.

    Attributes:
        title: What it is about.
        lesson: What the page shows about it.
        source: Where it was published.
        claim: The claim.
    """

    title: str
    lesson: str
    source: str
    claim: Claim


EXAMPLES = (
    Example(
        "A tagger of names in news, ε = 0.688",
        "Batches were shuffled, and a batch size of 1 was entered. Page Replication corrects this ε step by step.",
        "Jana and Biemann 2021, Differentially Private Sequence Tagging in a Federated Framework, table 2, σ = 1.",
        Claim(
            epsilon=0.688,
            delta=1e-5,
            records=5,
            known=frozenset({"trust"}),
            examples=14_041,
            batch_size=32,
            epochs=10.0,
        ),
    ),
    Example(
        "Word suggestions of a keyboard in Spanish, ε = 8.9",
        "Adjacency, unit, accountant and trust are stated. The unit is a device with all that was typed on it.",
        "Xu and Zhang 2024, Advances in private training for production on-device language models, Google Research.",
        Claim(
            epsilon=8.9,
            delta=1e-10,
            unit="client",
            known=frozenset({"sampling", "neighbours", "trust", "software", "seed"}),
            examples=1_000_000,
            batch_size=6_500,
            epochs=10.0,
        ),
    ),
    Example(
        "Emoji statistics of a telephone, ε = 4 for one donation a day",
        "The unit is one donation. For thirty donations of a month, ε = 120 limits nothing.",
        "Apple 2017, Differential Privacy Overview.",
        Claim(epsilon=4.0, delta=0.0, records=30, known=frozenset({"sampling", "trust", "trainings"})),
    ),
)


def fill(claim: Claim) -> None:
    """Set the controls of the page to a claim."""
    values = {"epsilon": claim.epsilon, "delta": claim.delta, "unit": claim.unit, "records": claim.records}
    values |= {"examples": claim.examples, "batch": claim.batch_size, "epochs": claim.epochs}
    st.session_state.update(values | {KNOWN + name: name in claim.known for name in FACTS})
