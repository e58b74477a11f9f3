"""What earlier versions did not state: the origin of the entity types, the adjacency of a split, and the partition."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.config import JOIN, SimulationConfig, has_own_corpus
from engine.corpus.handle import split_by_program
from engine.records import Provenance, RoundRecord


def restated(config: SimulationConfig, record: RoundRecord) -> RoundRecord:
    """Return a stored record that states no more about its ε than a record of this version would.

    Records up to version 0.6.0 state that all tag names are public; for a user's own corpus this is unknown. If the
    program splits the corpus, or draws a share of it of fixed size, one more sentence moves others. Such records name
    add-or-remove adjacency nevertheless. A record of this version stays as it is.

    Label skew of version 0.7.0 and earlier depended on all tags; its records do not say so.

    Args:
        config: Configuration of the run.
        record: A record of the run, as it was stored.
    """
    if config.federation.partition == "dirichlet":
        record = record.with_label_skew()
    moved = config.moves_sentences or any(map(split_by_program, config.corpus.split(JOIN)))
    if has_own_corpus(config.corpus):
        stated = record.with_own_types(declared=False)
        moved, record = moved or stated != record, stated
    return record.with_moved_sentences() if moved else record


def provenance_of(config: SimulationConfig, values: Mapping[str, Any]) -> Provenance:
    """Return a stored provenance whose command gives this run.

    Up to version 0.7.0, a command without a partition gave clients, pieces and shares of the data equal sizes.

    Args:
        config: Configuration of the run.
        values: Fields of the provenance, as they were stored.

    Raises:
        TypeError: If the fields are not those of a provenance.
    """
    made = Provenance(**values)
    equal = config.federation.partition == "random" and config.assigns_sentences and not config.platforms
    if equal and "--partition" not in made.command:
        return replace(made, command=f"{made.command} --partition random")
    return made
