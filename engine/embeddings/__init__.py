"""Words → vectors, from public inputs only.

A word that the public table does not know gets one fixed vector, the same for all such words. Were it given an index
learned from the private text, that vocabulary would leave through the side door.
"""

from engine.embeddings.custom_model import own_in_context
from engine.embeddings.encoding import EncodedCorpus, EncodedSplit
from engine.embeddings.features import IN_CONTEXT, encode
from engine.embeddings.vectors import VectorPackage, find, installed

__all__ = [
    "IN_CONTEXT",
    "EncodedCorpus",
    "EncodedSplit",
    "VectorPackage",
    "encode",
    "find",
    "installed",
    "own_in_context",
]
