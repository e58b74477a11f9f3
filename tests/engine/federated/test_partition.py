"""Partitions assign each sentence to exactly one client, or are refused."""

import numpy as np
import pytest

from engine.config import PARTITIONS, FederationConfig
from engine.config.federation import INDEPENDENT
from engine.corpus.sentence_metadata import Layout
from engine.errors import InvalidConfig
from engine.federated.partition import partition, partition_data
from engine.seeds import Seeds

SENTENCES = 600


def layout(sentences: int = SENTENCES) -> Layout:
    random = np.random.default_rng(0)
    return Layout(
        tokens=random.integers(1, 30, sentences),
        entities=random.integers(0, 2, (sentences, 3)),
        types=("LOC", "ORG", "PER"),
        documents=np.arange(sentences) // 7,
        sections=np.repeat(np.arange(6), [200, 150, 100, 90, 50, 10])[:sentences],
        section_names=tuple("abcdef"),
        digests=random.permutation(sentences).astype(np.uint64),
    )


def split(clients: int, seed: int = 0, sentences: int = SENTENCES, **choice: object) -> list[np.ndarray]:
    federation = FederationConfig(clients=clients, **choice)
    return partition(sentences, lambda: layout(sentences), federation, Seeds(seed))


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("clients", [1, 2, 5])
def test_each_sentence_belongs_to_one_client(kind: str, clients: int) -> None:
    shards = split(clients, partition=kind, skew=1.0)
    assert len(shards) == clients
    np.testing.assert_array_equal(np.sort(np.concatenate(shards)), np.arange(SENTENCES))
    assert all((np.diff(shard) > 0).all() for shard in shards)


@pytest.mark.parametrize("kind", ["independent", "random", "unequal", "dirichlet"])
def test_partition_is_determined_by_the_seed(kind: str) -> None:
    first, again, other = (split(5, seed, partition=kind, skew=5.0) for seed in (1, 1, 2))
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


def test_random_shards_are_equal() -> None:
    assert sorted(map(len, split(7))) == [85, 85, 86, 86, 86, 86, 86]


def test_unequal_shards_are_proportional_to_1_over_k() -> None:
    sizes = list(map(len, split(20, partition="unequal")))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == pytest.approx(2 * sizes[1], rel=0.05)
    assert list(map(len, split(600, partition="unequal"))) == [1] * 600


def test_independent_shards_have_binomial_sizes() -> None:
    """The variance over seeds is that of independent draws: n/k · (1 − 1/k)."""
    sizes = np.array([len(split(5, seed, partition="independent")[0]) for seed in range(400)])
    assert sizes.mean() == pytest.approx(SENTENCES / 5, abs=2)
    assert sizes.var() == pytest.approx(SENTENCES * 0.2 * 0.8, rel=0.25)


def assigned(federation: FederationConfig, metadata: Layout, fraction: float) -> dict[int, tuple[int, int]]:
    """Return the client and the piece of each sentence in use, by its digest."""
    data = partition_data(len(metadata), lambda: metadata, (), fraction, federation, Seeds(3))
    return {
        int(metadata.digests[data.chosen[index]]): (client, piece)
        for client, pieces in enumerate(data.pieces)
        for piece, indices in enumerate(pieces)
        for index in indices.tolist()
    }


@pytest.mark.parametrize("kind", INDEPENDENT)
@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("schedule", ["averaging", "incremental"])
def test_one_more_sentence_moves_no_other(kind: str, fraction: float, schedule: str) -> None:
    federation = FederationConfig(clients=3, rounds=4, schedule=schedule, partition=kind, skew=5.0)
    whole, new = layout(), 250
    fewer = whole.where(np.delete(np.arange(SENTENCES), new))
    with_it, without = assigned(federation, whole, fraction), assigned(federation, fewer, fraction)
    place = with_it.pop(int(whole.digests[new]), None)
    assert (place is not None) or fraction < 1
    assert with_it == without


def test_a_change_of_tags_moves_no_other_sentence() -> None:
    federation = FederationConfig(clients=4, partition="dirichlet", skew=0.5)
    before, after = layout(), layout()
    after.entities[0] = 1 - before.entities[0]
    first, then = assigned(federation, before, 1.0), assigned(federation, after, 1.0)
    assert {key for key in first if first[key] != then[key]} <= {int(before.digests[0])}


def test_shares_of_the_data_and_pieces_have_their_sizes_in_expectation() -> None:
    federation = FederationConfig(rounds=4, schedule="incremental", partition="independent")
    found = assigned(federation, layout(), 0.5)
    assert len(found) == pytest.approx(300, abs=60)
    pieces = np.bincount([piece for _, piece in found.values()], minlength=4)
    assert pieces.tolist() == pytest.approx([len(found) / 4] * 4, abs=40)


def test_a_round_without_sentences_is_refused() -> None:
    federation = FederationConfig(clients=2, rounds=300, schedule="incremental", partition="independent")
    with pytest.raises(InvalidConfig, match=r"rounds=300.* client \d has \d+ sentences, too few"):
        assigned(federation, layout(), 1.0)


def test_documents_and_sections_are_not_split() -> None:
    metadata = layout()
    assert metadata.documents is not None
    assert metadata.sections is not None
    for groups, kind in ((metadata.documents, "document"), (metadata.sections, "natural")):
        owners = [{int(group) for group in groups[shard]} for shard in split(4, partition=kind)]
        assert sum(map(len, owners)) == len(set(groups.tolist()))
    assert sorted(map(len, split(6, partition="natural"))) == [10, 50, 90, 100, 150, 200]
    sizes = list(map(len, split(4, partition="document")))
    assert max(sizes) - min(sizes) <= 7


def test_smaller_alpha_gives_more_skew() -> None:
    def spread(skew: float) -> float:
        """Return the mean distance of the clients' type distributions from that of all sentences."""
        entities = layout().entities
        kinds = np.where(entities.any(1), entities.argmax(1), 3)
        whole = np.bincount(kinds, minlength=4) / len(kinds)
        shards = split(4, seed=3, partition="dirichlet", skew=skew)
        return float(np.mean([np.abs(np.bincount(kinds[s], minlength=4) / len(s) - whole).sum() for s in shards]))

    assert spread(1000.0) < 0.1 < spread(0.3)


@pytest.mark.parametrize(
    ("clients", "choice", "words"),
    [
        (601, {}, "clients=601, expected at most the 600 training sentences"),
        (7, {"partition": "natural"}, "clients=7, expected at most 6"),
        (100, {"partition": "document"}, "clients=100, expected at most 86"),
        (300, {"partition": "dirichlet", "skew": 0.01}, "leaves client"),
    ],
)
def test_impossible_partitions_are_refused(clients: int, choice: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        split(clients, **choice)


def test_a_corpus_without_documents_or_sections_is_refused() -> None:
    without_documents = Layout(
        np.ones(9), np.zeros((9, 1), int), ("PER",), None, None, (), np.arange(9, dtype=np.uint64)
    )
    for kind, words in (("document", "has no documents"), ("natural", "has no sections")):
        with pytest.raises(InvalidConfig, match=words):
            partition(9, lambda: without_documents, FederationConfig(clients=2, partition=kind), Seeds(0))
