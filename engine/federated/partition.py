"""Partition of a corpus among clients, each sentence to exactly one, and the participants of each round.

With the partitions "independent" and "dirichlet", the client, the piece and the use of a sentence are functions of a
public seed and of the sentence alone. Two corpora that differ in one sentence then differ in one sentence of one
client, as add-or-remove adjacency requires. "random" and "unequal" assign sentences by their positions and number.
"document" and "natural" assign whole groups, by the groups' sizes and a random order. So with these four, one more
sentence may move others, and only zero-out adjacency holds: positions, documents and sections are fixed. "dirichlet"
depends on the sentence's tags, as real differences between clients would.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np

from engine.config import FederationConfig, PrivacyConfig
from engine.config.federation import INDEPENDENT
from engine.corpus.sentence_metadata import Layout
from engine.errors import InvalidConfig
from engine.privacy.mechanisms import poisson_sample
from engine.seeds import Secrets, Seeds


@dataclass(frozen=True)
class Partition:
    """The sentences of each client.

    Attributes:
        chosen: Numbers of the training sentences in use, int64, ascending.
        shards: Indices into ``chosen`` of each client's sentences, int64.
        pieces: Pieces of each shard: one for each round of an incremental run, else the whole shard.
    """

    chosen: np.ndarray
    shards: tuple[np.ndarray, ...]
    pieces: tuple[list[np.ndarray], ...]


def partition_data(
    every: int,
    layout: Callable[[], Layout],
    platforms: Sequence[np.ndarray],
    fraction: float,
    federation: FederationConfig,
    seeds: Seeds,
) -> Partition:
    """Assign the training sentences to clients.

    Args:
        every: Number of training sentences.
        layout: Returns the metadata of all training sentences; called only if the partition needs it.
        platforms: Numbers of the sentences of each client (silo); empty if clients split one corpus.
        fraction: Share of the training sentences to use, in (0, 1].
        federation: The federated settings.
        seeds: Random streams of the run.

    Raises:
        InvalidConfig: If the clients, rounds and sentences do not fit.
    """
    independent = federation.partition in INDEPENDENT
    if platforms:
        chosen, shards = _silo_shards(platforms, fraction, seeds)
    else:
        digests = layout().digests if independent and fraction < 1 else None
        chosen = chosen_sentences(every, fraction, seeds, digests=digests)
        shards = partition(len(chosen), lambda: layout().where(chosen), federation, seeds)
    digests = layout().digests[chosen] if independent and federation.schedule == "incremental" else None
    pieces = tuple(_pieces(shard, client, federation, seeds, digests) for client, shard in enumerate(shards))
    return Partition(chosen, tuple(shards), pieces)


def chosen_sentences(
    every: int, fraction: float, seeds: Seeds, of: str = "", digests: np.ndarray | None = None
) -> np.ndarray:
    """Return the numbers of a random share of the training sentences, ascending.

    The share has no amplification by subsampling.

    Args:
        every: Number of training sentences.
        fraction: Share to use, in (0, 1].
        seeds: Random streams of the run.
        of: Names the owner of the sentences in the error.
        digests: Digest of each sentence, uint64 [n], if each is used or left out independently of the others; None for
            a share of fixed size.

    Raises:
        InvalidConfig: If no sentence is left.
    """
    if fraction == 1.0:
        return np.arange(every)
    if digests is None:
        chosen = np.sort(seeds.stream("data fraction").permutation(every)[: round(fraction * every)])
    else:
        chosen = np.flatnonzero(_kept_draws(seeds.key("data fraction"), digests.tobytes()) < fraction)
    if not len(chosen):
        raise InvalidConfig(f"data_fraction={fraction:g} leaves none of the {every:,} training sentences{of}")
    return chosen


def _silo_shards(platforms: Sequence[np.ndarray], fraction: float, seeds: Seeds) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the same share of each silo's sentences, and the indices of each silo's sentences among them."""
    chosen = [
        sentences[chosen_sentences(len(sentences), fraction, seeds.of(platform=number), f" of silo {number + 1}")]
        for number, sentences in enumerate(platforms)
    ]
    borders = np.cumsum(list(map(len, chosen)))
    return np.concatenate(chosen), np.split(np.arange(borders[-1]), borders[:-1])


def _pieces(
    shard: np.ndarray, client: int, federation: FederationConfig, seeds: Seeds, digests: np.ndarray | None
) -> list[np.ndarray]:
    """Return the pieces of a shard; ``digests`` are those of all sentences in use, None for pieces of equal size."""
    rounds = federation.rounds
    if federation.schedule == "averaging" or rounds == 1:
        return [shard]
    pieces: list[np.ndarray] = []
    if digests is None:
        pieces = np.array_split(seeds.stream("pieces", client=client).permutation(shard), rounds)
    elif len(shard) >= rounds:
        drawn = _draws(seeds.key("pieces", client=client), digests[shard])
        pieces = [shard[members] for members in _by_owner(drawn * rounds, rounds)]
    if not pieces or not all(map(len, pieces)):
        raise InvalidConfig(
            f"rounds={rounds:,} with schedule='incremental', but client {client + 1} has {len(shard):,} sentences, too "
            "few for one in each round; use fewer rounds or fewer clients"
        )
    return [np.sort(piece) for piece in pieces]


def participants_of_rounds(
    federation: FederationConfig, privacy: PrivacyConfig, seeds: Seeds, secrets: Callable[[], Secrets]
) -> list[list[int]]:
    """Return the participants of each round, ascending.

    If the mechanism samples clients, each of the n clients joins independently with probability m/n, as its accounting
    assumes. A round may then have no participant. Otherwise m clients are sampled without replacement.

    Args:
        federation: The federated settings.
        privacy: The privacy settings.
        seeds: Random streams of the run.
        secrets: Returns the protected streams of the run; called only if they decide the participants.
    """
    clients, number_of_participants = federation.clients, federation.participants or federation.clients
    if number_of_participants == clients:
        return [list(range(clients)) for _ in range(federation.rounds)]
    poisson = privacy.kind.poisson_clients
    streams: Secrets | Seeds = secrets() if poisson and privacy.private else seeds
    rounds = []
    for number in range(federation.rounds):
        random = streams.stream("participants", round=number)
        if poisson:
            participants = poisson_sample(random, clients, number_of_participants / clients)
        else:
            participants = random.permutation(clients)[:number_of_participants]
        rounds.append(sorted(participants.tolist()))
    return rounds


def partition(
    sentences: int, layout: Callable[[], Layout], federation: FederationConfig, seeds: Seeds
) -> list[np.ndarray]:
    """Split the sentences of one corpus among clients.

    Args:
        sentences: Number of sentences.
        layout: Returns the metadata of the sentences; called only if the partition needs it.
        federation: The federated settings.
        seeds: Random streams of the run.

    Returns:
        Numbers of each client's sentences, ascending, int64 [n_k] each.

    Raises:
        InvalidConfig: If there are more clients than sentences, a client would get no sentence, or the corpus has no
            metadata for this partition.
    """
    clients = federation.clients
    if clients > sentences:
        raise InvalidConfig(f"clients={clients:,}, expected at most the {sentences:,} training sentences")
    if clients == 1:
        return [np.arange(sentences)]
    random = seeds.stream("partition")
    split: dict[str, Callable[[], list[np.ndarray]]] = {
        "independent": lambda: _by_owner(_drawn(layout(), seeds) * clients, clients),
        "random": lambda: np.array_split(random.permutation(sentences), clients),
        "unequal": lambda: _unequal(sentences, clients, random),
        "dirichlet": lambda: _dirichlet(layout(), clients, federation.skew, seeds),
        "document": lambda: _grouped(layout().documents, clients, "document", "documents", random),
        "natural": lambda: _grouped(layout().sections, clients, "natural", "sections of its own", random),
    }
    shards = [np.sort(shard) for shard in split[federation.partition]()]
    for client, shard in enumerate(shards):
        if not len(shard):
            raise InvalidConfig(
                f"partition={federation.partition!r} leaves client {client + 1} of {clients} without a sentence; use "
                "fewer clients, less skew, another seed, or partition='random', which gives equal sizes"
            )
    return shards


def _unequal(sentences: int, clients: int, random: np.random.Generator) -> list[np.ndarray]:
    """Return random shards with sizes in proportion to 1, 1/2, 1/3 …, and at least one sentence each."""
    shares = 1 / np.arange(1, clients + 1)
    borders = clients + np.rint(np.cumsum(shares) / shares.sum() * (sentences - clients)).astype(np.int64)
    sizes = np.diff(borders, prepend=clients) + 1
    return np.split(random.permutation(sentences), np.cumsum(sizes)[:-1])


def _drawn(layout: Layout, seeds: Seeds) -> np.ndarray:
    """Return a uniform draw for the client of each sentence, float64 [n] in [0, 1)."""
    return _kept_draws(seeds.key("partition"), layout.digests.tobytes())


def _draws(key: bytes, digests: np.ndarray) -> np.ndarray:
    """Return a uniform draw from [0, 1) for each sentence, which no other sentence changes, float64 [n].

    Args:
        key: Key of the draws, at most 64 bytes.
        digests: A digest of each sentence, uint64 [n].
    """
    content = digests.astype("<u8").tobytes()
    drawn = b"".join(
        hashlib.blake2b(content[at : at + 8], key=key, digest_size=8).digest() for at in range(0, len(content), 8)
    )
    return (np.frombuffer(drawn, dtype="<u8") >> np.uint64(11)) * 2.0**-53


@lru_cache(maxsize=8)
def _kept_draws(key: bytes, digests: bytes) -> np.ndarray:
    """Return the draws for all sentences of a corpus, read-only; kept, since many previews of one corpus need them.

    Args:
        key: Key of the draws, at most 64 bytes.
        digests: The digests, as bytes of uint64 [n].
    """
    values = _draws(key, np.frombuffer(digests, dtype=np.uint64))
    values.flags.writeable = False
    return values


def _by_owner(owners: np.ndarray, clients: int) -> list[np.ndarray]:
    """Return the shards; ``owners`` are the clients' numbers, rounded down, [n]."""
    numbers = owners.astype(np.int64)
    order = np.argsort(numbers, kind="stable")  # one sort instead of one pass for each client
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, clients)))


def _dirichlet(layout: Layout, clients: int, skew: float, seeds: Seeds) -> list[np.ndarray]:
    """Return shards with different mixes of entity types (Hsu, Qi and Brown 2019).

    The class of a sentence is the type of most of its entities, or none. For each class, the clients' probabilities are
    drawn from Dirichlet(skew, …, skew). The client of each sentence is drawn from the probabilities of its class,
    independently of all other sentences; the paper fixes the sizes instead.
    """
    classes = np.where(layout.entities.any(1), layout.entities.argmax(1), -1)
    drawn, owners = _drawn(layout, seeds), np.zeros(len(layout), dtype=np.int64)
    streams = (seeds.stream("label skew", type=number) for number in count(-1))
    for number, random in zip(range(-1, len(layout.types)), streams, strict=False):  # one stream for each class
        members = classes == number
        shares = random.dirichlet(np.full(clients, skew))
        owners[members] = np.searchsorted(np.cumsum(shares)[:-1], drawn[members], side="right")
    return _by_owner(owners, clients)


def _grouped(
    groups: np.ndarray | None, clients: int, name: str, what: str, random: np.random.Generator
) -> list[np.ndarray]:
    """Return shards of whole groups: each group, the largest first, goes to the client with the fewest sentences."""
    if groups is None:
        raise InvalidConfig(f"partition={name!r} is not available: this corpus has no {what}; choose another partition")
    numbers, sizes = np.unique(groups, return_counts=True)
    if clients > len(numbers):
        raise InvalidConfig(f"clients={clients}, expected at most {len(numbers)}, the number of {what} in the corpus")
    owner, loads = np.zeros(numbers.max() + 1, dtype=np.int64), np.zeros(clients, dtype=np.int64)
    # Groups of equal size are in random order. Of several clients with the fewest sentences, the first is chosen.
    for index in sorted(random.permutation(len(numbers)).tolist(), key=lambda index: -int(sizes[index])):
        client = int(loads.argmin())
        owner[numbers[index]] = client
        loads[client] += sizes[index]
    owners = owner[groups]
    return _by_owner(owners, clients)
