"""The initial weights of a linear CRF that starts from a public head.

The head was trained without noise on public sentences (:mod:`engine.config.head_registry`), so its weights are public
like the features. Clipping, noise and ε of the private training do not depend on the weights from which it starts.
"""

import hashlib
import io
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from engine.config.head_registry import PublicHead, public_name
from engine.embeddings.features import PUBLIC
from engine.errors import InvalidConfig, StoreError
from engine.taggers import Tagger


def initial_weights(tagger: Tagger, tags: Sequence[str], head: PublicHead) -> np.ndarray:
    """Return the weights of a head for the tags of a corpus, float32 [size].

    Scores and transitions of tags that the head does not have are zero. What it learned for other tags is left out.
    Types are compared by :func:`engine.config.head_registry.public_name`.

    Args:
        tagger: A linear CRF over the features of the head.
        tags: Names of the tags in BIO2, in the order of its scores.
        head: The head.

    Raises:
        StoreError: If the file of the head is missing or damaged.
    """
    found = load(head)
    known = found["tags"].tolist()
    names = [tag[:2] + public_name(tag[2:]) for tag in tags]
    own = np.array([number for number, name in enumerate(names) if name in known])
    of_head = np.array([known.index(names[number]) for number in own])
    flat = np.zeros(tagger.size, dtype=np.float32)
    scores, chain = tagger.views(flat)[-2:]
    scores["kernel"][:, own] = found["kernel"][:, of_head]
    scores["bias"][own] = found["bias"][of_head]
    chain["transitions"][np.ix_(own, own)] = found["transitions"][np.ix_(of_head, of_head)]
    return flat


def require_common_types(head: PublicHead, types: Iterable[str]) -> None:
    """Check that a head recognises an entity type of the corpora.

    Args:
        head: The head.
        types: Entity types of all corpora of a run.

    Raises:
        InvalidConfig: If it recognises none of them.
    """
    if not any(map(head.recognises, every := set(types))):
        raise InvalidConfig(
            f"pretrained=True, expected False for a corpus with the entity types {', '.join(sorted(every))}: the "
            f"public weights only recognise {', '.join(head.types)}"
        )


@lru_cache(maxsize=4)
def load(head: PublicHead) -> dict[str, np.ndarray]:
    """Return kernel [inputs, tags], bias [tags] and transitions [tags, tags] in float32, and the names of the tags.

    Raises:
        StoreError: If the file is missing, or is not the one whose checksum is registered.
    """
    try:
        content = (PUBLIC / head.file).read_bytes()
    except OSError as error:
        raise StoreError(f"The file {head.file} cannot be read: {error}; install the program again") from error
    if (checksum := hashlib.sha256(content).hexdigest()) != head.checksum:
        raise StoreError(
            f"The file {head.file} has the SHA-256 {checksum}, expected {head.checksum}; install the program again"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
