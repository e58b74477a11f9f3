"""Tags of one sentence: BIO2 ↔ BIOES, for taggers that are to learn where names end.

In BIOES (the BILOU of Ratinov and Roth 2009) S-X is a name of one token, and E-X the last token of a longer one.
Corpora are BIO2 whatever their files are (:mod:`engine.corpus.conll`), and so is what is scored.

A tagger's BIOES may be ill-formed. It is read by how names begin: E-X is I-X, S-X is B-X, and nothing else changes. So
a name that is left open ends where nothing of it follows, one that goes on after its E-X or S-X is longer, and what
goes on without having begun is no name. Each prediction scores as that of a BIO2 tagger with the same beginnings, never
better. Two other readings could be better:

- what is ill-formed is dropped, as by seqeval's strict IOBES: a wrong name that is left open costs no precision;
- what is ill-formed is mended, as files are (:func:`engine.corpus.conll.to_bio2`): what had not begun becomes a name.
"""

from collections.abc import Sequence
from itertools import pairwise

PREFIXES = {"bio2": "BI", "bioes": "BIES"}
"""With which the tags of a type begin, by the name of the scheme in configurations."""
_AT_THE_END = {"B": "S", "I": "E"}
_IN_BIO2 = {"S": "B", "E": "I"}


def to_bioes(tags: Sequence[str]) -> list[str]:
    """BIO2 → BIOES. Ill-formed tags stay so, and :func:`from_bioes` gives back every row of tags as it was.

    Raises ValueError with the tag if it is neither O nor B-X nor I-X.
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
    """BIOES → BIO2, predictions too: ill-formed ones are read by the rule above. Each tag is read by itself, so that a
    list of names may stand for a sentence; BIO2 stays as it is."""
    return [_IN_BIO2.get(tag[0], tag[0]) + tag[1:] for tag in tags]
