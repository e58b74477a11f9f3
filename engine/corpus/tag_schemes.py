"""Tags in BIO2 or BIOES, for taggers that also learn where entities end.

In BIOES (the BILOU of Ratinov and Roth 2009) S-X is an entity of one token, and E-X is the last token of a longer one.
Corpora are always converted to BIO2 (:mod:`engine.corpus.conll`), and scores are computed in BIO2.

A tagger's BIOES may be ill-formed. Only the beginnings of entities count: E-X is read as I-X, S-X as B-X, and nothing
else changes. This has three consequences:

- an entity that is not closed ends before the first tag that does not continue it;
- an entity that continues after its E-X or S-X is longer;
- an entity that continues without a beginning does not count.

Each prediction scores like that of a BIO2 tagger with the same beginnings, never better. Two other readings could score
better:

- dropping ill-formed entities, like seqeval's strict IOBES: a wrong entity that is not closed costs no precision;
- repairing ill-formed entities, like files are (:func:`engine.corpus.conll.to_bio2`): an entity without a beginning
  becomes one.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

PREFIXES = {"bio2": "BI", "bioes": "BIES"}
"""Prefixes of the tags of one entity type, by the scheme's name in configurations."""
_AT_THE_END = {"B": "S", "I": "E"}
_IN_BIO2 = {"S": "B", "E": "I"}


def tags_of(entity_types: Iterable[str], prefixes: str = "BI") -> tuple[str, ...]:
    """Return all tags of these entity types: O first, then each prefix of each type in alphabetical order.

    Args:
        entity_types: Names of the types.
        prefixes: One letter for each kind of tag, by default B- and I-.
    """
    return ("O", *(f"{prefix}-{name}" for name in sorted(set(entity_types)) for prefix in prefixes))


def to_bioes(tags: Sequence[str]) -> list[str]:
    """Convert BIO2 tags to BIOES.

    Ill-formed tags stay ill-formed. :func:`from_bioes` restores every row of tags exactly.

    Raises:
        ValueError: If a tag is neither O nor B-X nor I-X; the message is the tag.
    """
    result = []
    for tag, after in pairwise([*tags, "O"]):
        if tag != "O":
            if tag[:2] not in ("B-", "I-"):
                raise ValueError(tag)
            tag = tag if after == f"I-{tag[2:]}" else _AT_THE_END[tag[0]] + tag[1:]
        result.append(tag)
    return result


def from_bioes(tags: Sequence[str]) -> list[str]:
    """Convert BIOES tags, or predictions, to BIO2.

    Ill-formed tags are read by the rule of this module. Each tag is converted independently of its neighbours. The
    input may therefore be a list of tag names instead of a sentence, and BIO2 tags stay unchanged.
    """
    return [_IN_BIO2.get(tag[0], tag[0]) + tag[1:] for tag in tags]
