"""Registry of the public heads: trained weights from which the private training of a linear CRF can start.

``python -m benchmarks.train_public_head`` computes the files, and :mod:`engine.simulation.pretrained_head` reads them.
"""

from dataclasses import dataclass

from engine.config.encoder_registry import MINILM, MPNET

HEAD = "head"
"""Name of the heads in ``engine/embeddings/public/fitted-on.npz``: the sentences on which they were trained."""

_OTHER_NAMES = {
    "PERSON": "PER",
    "LOCATION": "LOC",
    "ORGANIZATION": "ORG",
    "ORGANISATION": "ORG",
    "CORPORATION": "ORG",
    "MISCELLANEOUS": "MISC",
}
"""Other names of types, in upper case, and the name that the heads use."""


@dataclass(frozen=True, kw_only=True)
class PublicHead:
    """Weights of a linear CRF over certain features, trained without noise on a public corpus in BIO2.

    Attributes:
        features: Name of the feature set that it reads.
        language_model: Name of the registered encoder of these features.
        window: Neighbouring tokens on each side that it reads.
        types: Entity types that it recognises.
        checksum: SHA-256 of its file. It is part of the identity of a run that starts from it.
    """

    features: str
    language_model: str
    window: int
    types: tuple[str, ...] = ("LOC", "MISC", "ORG", "PER")
    checksum: str

    @property
    def file(self) -> str:
        """Name of its file in ``engine/embeddings/public``."""
        return f"{self.language_model}-{self.features}-window-{self.window}-head.npz"

    def recognises(self, entity_type: str) -> bool:
        """Return whether it has weights for an entity type, under this or another common name."""
        return public_name(entity_type) in self.types


def public_name(entity_type: str) -> str:
    """Return the name of an entity type in the heads: "person" and "Person" are "PER"."""
    return _OTHER_NAMES.get(entity_type.upper(), entity_type.upper())


HEADS = (
    PublicHead(
        features="layer-names",
        language_model=MINILM,
        window=1,
        checksum="34c940b71f243d0765e8d84184ab5c05d76d14d34da716363a0ddb9007370bfb",
    ),
    PublicHead(
        features="layer-names",
        language_model=MPNET,
        window=1,
        checksum="016c2ba04907e7f5c78aa1f4d74cdef05c2a0f17e0c7cb5793ba3efa2430f03a",
    ),
)


def head_of(features: str, language_model: str, window: int) -> PublicHead | None:
    """Return the public head for these inputs of a linear CRF; None if there is none."""
    wanted = (features, language_model, window)
    return next((head for head in HEADS if (head.features, head.language_model, head.window) == wanted), None)
