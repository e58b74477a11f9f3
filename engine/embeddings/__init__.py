"""Features of tokens, from public inputs only.

A word outside the public table gets one fixed vector, the same for all such words. An index learned from the private
text would reveal its vocabulary.
"""

from engine.embeddings.custom_model import own_in_context
from engine.embeddings.encoding import EncodedCorpus, EncodedSplit
from engine.embeddings.features import encode
from engine.embeddings.vectors import VectorPackage, find, installed

__all__ = [
    "EncodedCorpus",
    "EncodedSplit",
    "VectorPackage",
    "encode",
    "find",
    "installed",
    "own_in_context",
]
