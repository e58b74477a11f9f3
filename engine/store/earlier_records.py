"""What records of earlier versions did not state: the origin of the entity types, and the adjacency of a split."""

from engine.config import JOIN, SimulationConfig, has_own_corpus
from engine.corpus.handle import split_by_program
from engine.records import RoundRecord


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
