"""Registry of the kinds of taggers: one module for each family."""

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
"""Kinds by name, in the order in which pages offer them."""
