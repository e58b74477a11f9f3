"""What kinds of taggers there are: one file for each family, one line here for each file."""

from engine.taggers import bilstm, linear, medical, mlp
from engine.taggers.kind import TaggerKind

KINDS: dict[str, TaggerKind] = {
    kind.name: kind
    for kind in (
        *bilstm.KINDS,
        *linear.KINDS,
        *mlp.KINDS,
        *medical.KINDS,
    )
}
"""By name, in the order in which they are offered."""
