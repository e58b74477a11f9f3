"""What kinds of taggers there are: one file for each family, one line here for each file."""

from engine.taggers import bilstm, fedner, linear, mlp
from engine.taggers.base import TaggerKind

KINDS: dict[str, TaggerKind] = {
    kind.name: kind
    for kind in (
        *bilstm.KINDS,
        *linear.KINDS,
        *mlp.KINDS,
        *fedner.KINDS,
    )
}
"""By name, in the order in which they are offered."""
