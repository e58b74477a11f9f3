"""Who holds which sentences, and who joins which round: a corpus split among clients, each sentence at exactly one.

Which client a sentence goes to depends on public things alone, or is drawn without looking at it, but for
``label-skew``: that split simulates clients who differ, and looks at the tags as nature would.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.config import FederationConfig, PrivacyConfig
from engine.corpus.sentence_metadata import Layout
from engine.errors import InvalidConfig
from engine.privacy.mechanisms import poisson_sample
from engine.seeds import Secrets, Seeds


@dataclass(frozen=True)
class Partition:
    """Who holds what. chosen: numbers of the training sentences that are used, int64, ascending. shards: of each
    client, places among these, int64. pieces: each shard, cut into one for each round where rounds are on sentences of
    their own, else whole."""

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
    """Who holds what of so many training sentences, of which a ``fraction`` is used. layout: of all of them, asked for
    where the split needs it. platforms: numbers of those that each platform trains on, where each client is
    one. Raises InvalidConfig if they do not fit."""
    if platforms:
        chosen, shards = _held_by_platforms(platforms, fraction, seeds)
    else:
        chosen = chosen_sentences(every, fraction, seeds)
        shards = partition(len(chosen), lambda: layout().where(chosen), federation, seeds)
    pieces = tuple(_pieces(shard, client, federation, seeds) for client, shard in enumerate(shards))
    return Partition(chosen, tuple(shards), pieces)


def chosen_sentences(every: int, fraction: float, seeds: Seeds, of: str = "") -> np.ndarray:
    """A random share of so many training sentences (``of`` says whose), ascending; it earns no privacy amplification.
    Raises InvalidConfig if none is left."""
    wanted = every if fraction == 1.0 else round(fraction * every)
    if wanted < 1:
        raise InvalidConfig(f"data_fraction={fraction:g} leaves none of the {every:,} training sentences{of}")
    if wanted == every:
        return np.arange(every)
    return np.sort(seeds.stream("data fraction").permutation(every)[:wanted])


def _held_by_platforms(
    platforms: Sequence[np.ndarray], fraction: float, seeds: Seeds
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The same share of each platform's sentences, and whose they are."""
    each = [
        own[chosen_sentences(len(own), fraction, seeds.of(platform=number), f" of platform {number + 1}")]
        for number, own in enumerate(platforms)
    ]
    borders = np.cumsum(list(map(len, each)))
    return np.concatenate(each), np.split(np.arange(borders[-1]), borders[:-1])


def _pieces(shard: np.ndarray, client: int, federation: FederationConfig, seeds: Seeds) -> list[np.ndarray]:
    rounds = federation.rounds
    if federation.schedule == "averaging" or rounds == 1:
        return [shard]
    if len(shard) < rounds:
        raise InvalidConfig(
            f"rounds={rounds:,} with schedule='incremental', but client {client + 1} has {len(shard):,} sentences: "
            "less than one for each round"
        )
    return [
        np.sort(piece) for piece in np.array_split(seeds.stream("pieces", client=client).permutation(shard), rounds)
    ]


def participants_of_rounds(
    federation: FederationConfig, privacy: PrivacyConfig, seeds: Seeds, secrets: Callable[[], Secrets]
) -> list[list[int]]:
    """The clients of each round, ascending.

    Where the mechanism draws them each joins by itself with probability m/n, which its accounting rests on, and a round
    may be empty; else m of them are drawn. secrets: of the run, asked for where they decide it.
    """
    clients, wanted = federation.clients, federation.participants or federation.clients
    if wanted == clients:
        return [list(range(clients)) for _ in range(federation.rounds)]
    poisson = privacy.kind.poisson_clients
    streams: Secrets | Seeds = secrets() if poisson and privacy.private else seeds
    drawn = []
    for number in range(federation.rounds):
        random = streams.stream("participants", round=number)
        some = poisson_sample(random, clients, wanted / clients) if poisson else random.permutation(clients)[:wanted]
        drawn.append(sorted(some.tolist()))
    return drawn


def partition(
    sentences: int, layout: Callable[[], Layout], federation: FederationConfig, seeds: Seeds
) -> list[np.ndarray]:
    """The sentences of each client, ascending, int64 [n_k] each; ``layout`` is asked for where the split needs it.

    Raises InvalidConfig where there are more clients than sentences, a client would get none, or the corpus does not
    know what the split goes by.
    """
    clients = federation.clients
    if clients > sentences:
        raise InvalidConfig(f"clients={clients:,}, expected at most the {sentences:,} training sentences")
    if clients == 1:
        return [np.arange(sentences)]
    random = seeds.stream("partition")
    split: dict[str, Callable[[], list[np.ndarray]]] = {
        "random": lambda: np.array_split(random.permutation(sentences), clients),
        "unequal": lambda: _unequal(sentences, clients, random),
        "label-skew": lambda: _label_skew(layout(), clients, federation.skew, random),
        "document": lambda: _grouped(layout().documents, clients, "document", "documents", random),
        "natural": lambda: _grouped(layout().sections, clients, "natural", "sections of its own", random),
    }
    shards = [np.sort(shard) for shard in split[federation.partition]()]
    for client, shard in enumerate(shards):
        if not len(shard):
            raise InvalidConfig(
                f"partition={federation.partition!r} leaves client {client + 1} of {clients} without a sentence; "
                "fewer clients, less skew or another seed may help"
            )
    return shards


def _unequal(sentences: int, clients: int, random: np.random.Generator) -> list[np.ndarray]:
    """Shard sizes that fall as 1, 1/2, 1/3 …, each at least one sentence."""
    shares = 1 / np.arange(1, clients + 1)
    borders = clients + np.rint(np.cumsum(shares) / shares.sum() * (sentences - clients)).astype(np.int64)
    sizes = np.diff(borders, prepend=clients) + 1
    return np.split(random.permutation(sentences), np.cumsum(sizes)[:-1])


def _label_skew(layout: Layout, clients: int, skew: float, random: np.random.Generator) -> list[np.ndarray]:
    """Sentences of each kind, by the type that most of their entities have or none, go to clients in shares drawn from
    Dirichlet(skew, …, skew), anew for each kind (Hsu, Qi and Brown 2019)."""
    kinds = np.where(layout.entities.any(1), layout.entities.argmax(1), -1)
    shards: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for kind in range(-1, len(layout.types)):
        members = random.permutation(np.flatnonzero(kinds == kind))
        shares = random.dirichlet(np.full(clients, skew))
        borders = np.rint(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
        for shard, piece in zip(shards, np.split(members, borders), strict=True):
            shard.append(piece)
    return [np.concatenate(shard) for shard in shards]


def _grouped(
    groups: np.ndarray | None, clients: int, name: str, what: str, random: np.random.Generator
) -> list[np.ndarray]:
    """Whole groups, the largest first, each to the client that has the fewest sentences so far."""
    if groups is None:
        raise InvalidConfig(f"partition={name!r}, expected another one: this corpus has no {what}")
    numbers, sizes = np.unique(groups, return_counts=True)
    if clients > len(numbers):
        raise InvalidConfig(f"clients={clients}, expected at most {len(numbers)}, since the corpus has so many {what}")
    owner, held = np.zeros(numbers.max() + 1, dtype=np.int64), np.zeros(clients, dtype=np.int64)
    # Groups of one size come in random order; the client with the fewest sentences is the first of several.
    for place in sorted(random.permutation(len(numbers)).tolist(), key=lambda place: -int(sizes[place])):
        client = int(held.argmin())
        owner[numbers[place]] = client
        held[client] += sizes[place]
    owners = owner[groups]
    return [np.flatnonzero(owners == client) for client in range(clients)]
