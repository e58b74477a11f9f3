"""Federated averaging (FedAvg) across devices: which devices participate, and how this affects the shared model.

The engine's own federation (:mod:`engine.federated`) runs the rounds. The server sends weights, each participant trains
on its own sentences and returns weights, and the server averages them (McMahan et al. 2017, algorithm 1). The
availability and the texts of the devices are simulated. A device is eligible only while it is idle, charging and on
Wi-Fi (Bonawitz et al. 2019, "Towards Federated Learning at Scale", section 3).

Some owners travel: they charge where there is no Wi-Fi, and they write mostly about places. Some owners annotate only
people: they have another task for the same tagger. With a *private head*, all weights that depend on the tags stay on
the device (Arivazhagan et al. 2019, "FedPer"; Ge et al. 2020, section 3.2).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from engine.config import SYNTHETIC, SimulationConfig, TaggerConfig, TrainingConfig
from engine.lessons.background_task import PollDrivenTask
from engine.lessons.fixtures import GRADIENT_LOCK
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds
from engine.settings import Settings
from engine.validation import integer, one_of

if TYPE_CHECKING:
    from engine.embeddings import EncodedCorpus, EncodedSplit
    from engine.federated.fedavg import ClientData, Federation
    from engine.federated.plan import FederatedPlan
    from engine.taggers import Tagger
    from engine.taggers.decoding import Decoder
    from engine.training.dpsgd import Backend

DEVICES, ROUNDS, AT_MOST = 40, 16, 10
"""Number of devices, number of rounds, and largest number of participants in a round."""
CONDITIONS = ("idle", "charging", "Wi-Fi")
_SENTENCES, _OTHERS = 30, 15
"""Training sentences and test sentences of each device."""
_HOME, _CHARGING, _SELDOM = 0.6, 0.7, 0.05
"""Probabilities at a random time: at home, where there is Wi-Fi; charging at the owner's usual place; elsewhere."""
_IDLE = (0.2, 0.9)
"""Probability that a device is idle, for the busiest owner and for the least busy one."""
_TAGGER = TaggerConfig(name="mlp-crf", hidden_size=48, window=1)
_TRAINING = TrainingConfig(optimiser="adam", learning_rate=0.01, batch_size=8, epochs=2.0)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings of a federation.

    Attributes:
        conditions: Conditions that the server requires, of ``CONDITIONS``.
        road: Percentage of owners who travel.
        other: Percentage of owners who annotate only people.
        personal: Whether each device has a private head.
        seed: Seed of all random draws.

    Raises:
        InvalidConfig: If a value is out of range.
    """

    conditions: tuple[str, ...] = CONDITIONS
    road: int = 25
    other: int = 0
    personal: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for condition in self.conditions:
            one_of("conditions", condition, CONDITIONS)
        integer("road", self.road, 0, 100)
        integer("other", self.other, 0, 100)


@dataclass(frozen=True)
class Round:
    """The state after a round. F1 is entity-level (strict), micro average, on the devices' test sentences, 0 to 1.

    Attributes:
        number: Number of the round, from 0.
        heard: Participants of this round.
        may: Number of eligible devices.
        visits: Rounds so far in which each device participated, [DEVICES].
        f1: F1 over all devices.
        f1_road: F1 over devices of owners who travel; None without such devices.
        f1_rest: F1 over the other devices; None without such devices.
        weights: Number of weights sent to each participant, and back.
    """

    number: int
    heard: tuple[int, ...]
    may: int
    visits: tuple[int, ...]
    f1: float
    f1_road: float | None
    f1_rest: float | None
    weights: int

    @property
    def never(self) -> int:
        """Number of devices that have not participated so far."""
        return sum(not visits for visits in self.visits)


@dataclass(frozen=True, eq=False)
class Devices:
    """The devices with their sentences.

    Attributes:
        road: Devices of owners who travel, bool [DEVICES].
        other: Devices of owners who annotate only people, bool [DEVICES].
        own: Indices of their training sentences, int64 [DEVICES, 30].
        others: Indices of similar sentences of the validation set, for testing, int64 [DEVICES, 15].
    """

    road: np.ndarray
    other: np.ndarray
    own: np.ndarray
    others: np.ndarray


@dataclass(frozen=True, eq=False)
class World:
    """The built-in corpus as arrays, with the tagger (as the devices share it), its back end and its decoder."""

    encoded: "EncodedCorpus"
    tagger: "Tagger"
    backend: "Backend"
    decoder: "Decoder"

    @property
    def others(self) -> np.ndarray:
        """Mask of tags of entities other than people, bool [tags]."""
        return np.array([tag != "O" and not tag.endswith("-PER") for tag in self.encoded.tags])

    def about_places(self, split: "EncodedSplit") -> np.ndarray:
        """Return the mask of sentences in which no entity type is more frequent than places, bool [sentences]."""
        types = sorted({tag[2:] for tag in self.encoded.tags if tag != "O"})
        sentence = np.repeat(np.arange(len(split)), split.lengths)
        counts = np.zeros((len(split), len(types)), dtype=np.int64)
        for number, name in enumerate(types):
            begins = np.asarray(split.tags) == self.encoded.tags.index(f"B-{name}")
            counts[:, number] = np.bincount(sentence[begins], minlength=len(split))
        places = counts[:, types.index("LOC")]
        mask: np.ndarray = (places > 0) & (places == counts.max(1))
        return mask

    def tagged(self, split: "EncodedSplit", other: np.ndarray) -> "EncodedSplit":
        """Return the sentences; those in the mask ``other``, bool [sentences], keep only the tags of people."""
        tags = np.asarray(split.tags).copy()
        tags[self.others[tags] & np.repeat(other, split.lengths)] = self.encoded.tags.index("O")
        return replace(split, tags=tags)


def devices(setting: Setting, world: World) -> Devices:
    """Return the devices with their sentences.

    When a percentage changes, owners change group in a fixed order; all others keep their group and their sentences.
    """
    seeds = Seeds(setting.seed)
    rank, people = _order(setting), seeds.stream("people only").permutation(DEVICES)
    road = on_the_road(setting)
    other = people < round(setting.other * DEVICES / 100)

    def dealt(split: "EncodedSplit", each: int) -> np.ndarray:
        """Return ``each`` sentences for each device, about its owner's subject, reused once all are assigned."""
        places = world.about_places(split)
        order = seeds.stream("sentences", each=each).permutation(len(split))
        pools = order[places[order]], order[~places[order]]
        result = np.empty((DEVICES, each), dtype=np.int64)
        for device in range(DEVICES):
            pool, first = (pools[0], rank[device]) if road[device] else (pools[1], DEVICES - 1 - rank[device])
            result[device] = np.sort(pool[(first * each + np.arange(each)) % len(pool)])
        return result

    return Devices(road, other, dealt(world.encoded.train, _SENTENCES), dealt(world.encoded.validation, _OTHERS))


def _order(setting: Setting) -> np.ndarray:
    return Seeds(setting.seed).stream("on the road").permutation(DEVICES)


def on_the_road(setting: Setting) -> np.ndarray:
    """Return the mask of devices whose owners travel, bool [DEVICES]."""
    return np.asarray(_order(setting) < round(setting.road * DEVICES / 100))


def ready(setting: Setting, road: np.ndarray) -> np.ndarray:
    """Return the eligible devices of each round, bool [ROUNDS, DEVICES]; each round is at a random time."""
    random = Seeds(setting.seed).stream("moments")
    idle = np.linspace(*_IDLE, DEVICES)[Seeds(setting.seed).stream("busy").permutation(DEVICES)]
    draws = random.random((ROUNDS, 3, DEVICES))
    home = draws[:, 0] < _HOME
    elsewhere = np.where(road, _CHARGING, _SELDOM)
    charges = draws[:, 1] < np.where(home, np.where(road, 0.0, _CHARGING), elsewhere)
    fulfilled = {"idle": draws[:, 2] < idle, "charging": charges, "Wi-Fi": home}
    eligible = np.ones((ROUNDS, DEVICES), dtype=bool)
    for condition in setting.conditions:
        eligible &= fulfilled[condition]
    return eligible


def heard(setting: Setting, may: np.ndarray) -> list[list[int]]:
    """Return the participants of each round, ascending: ``AT_MOST`` random ones, at most, of the eligible ``may``."""
    chosen = []
    for number, eligible in enumerate(may):
        order = Seeds(setting.seed).stream("heard", round=number).permutation(DEVICES)
        chosen.append(sorted(order[eligible[order]][:AT_MOST].tolist()))
    return chosen


def plan_of(own: np.ndarray, sentences: int, rounds: Sequence[Sequence[int]]) -> "FederatedPlan":
    """Return the plan of the federation, without noise and without clipping.

    Args:
        own: Indices of the training sentences of each device, [DEVICES, 30].
        sentences: Number of training sentences of the corpus.
        rounds: Participants of each round.
    """
    from engine.federated.plan import FederatedPlan, LocalTraining

    batch = _TRAINING.batch_size
    steps = max(1, round(_TRAINING.epochs * own.shape[1] / batch))
    plan = PrivacyPlan(
        examples=own.shape[1],
        batch_size=batch,
        steps=steps,
        noise_multiplier=0.0,
        clip_norm=None,
        delta=1e-5,
        sampling="shuffle",
    )
    taken = [0] * len(own)
    visits: list[tuple[LocalTraining, ...]] = []
    for clients in rounds:
        visits.append(tuple(LocalTraining(client, client, taken[client], steps) for client in clients))
        for client in clients:
            taken[client] += steps
    return FederatedPlan(
        parts=(plan,) * len(own),
        chosen=np.arange(sentences),
        sentences=tuple(own),
        shards=tuple(own),
        rounds=tuple(visits),
        server=None,
    )


@lru_cache(maxsize=8)
def live(setting: Setting, settings: Settings) -> PollDrivenTask[Round]:
    """Return the run of a setting, shared by all its viewers."""
    return PollDrivenTask(lambda on_progress: play(setting, settings, on_progress))


def play(setting: Setting, settings: Settings, on_progress: Callable[[str], None]) -> "Iterator[Round | None]":
    """Yield the rounds, with None between them at the steps where the caller may pause.

    Args:
        setting: Settings of the federation.
        settings: Folders of this machine.
        on_progress: Called with the current activity, in words.

    Raises:
        CorpusError: If the corpus cannot be read.
        VectorsMissing: If the word vectors are not installed.
        StoreError: If files of the store cannot be read.
        TrainingFailed: If the training fails.
    """
    from engine.simulation import setup

    config = SimulationConfig(tagger=_TAGGER, training=_TRAINING)
    setup.wait_for_parts(config, settings, on_progress)
    setup.compile_parts(settings, on_progress)
    on_progress("reading sentences and word vectors")
    with GRADIENT_LOCK:
        world = _world(settings, setting.personal)
        owners = devices(setting, world)
        may = ready(setting, owners.road)
        rounds = heard(setting, may)
        run, holdings = _federation(setting, world, owners, rounds)
    visits, steps = np.zeros(DEVICES, dtype=np.int64), run.train()
    while True:
        with GRADIENT_LOCK:
            progress = next(steps, None)
        if progress is None:
            return
        yield None
        if progress.round is None:
            continue
        number = progress.round
        visits[rounds[number]] += 1
        gold: list[list[list[str]]] = []
        predicted: list[list[list[str]]] = []
        for device in range(DEVICES):
            with GRADIENT_LOCK:
                tags = _tags(world, owners, device, holdings[device].weights(run.weights))
            gold.append(tags[0])
            predicted.append(tags[1])
            yield None
        yield Round(
            number=number,
            heard=tuple(rounds[number]),
            may=int(may[number].sum()),
            visits=tuple(visits.tolist()),
            f1=_f1(gold, predicted, np.ones(DEVICES, dtype=bool)) or 0.0,
            f1_road=_f1(gold, predicted, owners.road),
            f1_rest=_f1(gold, predicted, ~owners.road),
            weights=holdings[0].shared,
        )


@lru_cache(maxsize=2)
def _world(settings: Settings, personal: bool) -> World:
    from engine import corpus, embeddings
    from engine.taggers import build
    from engine.taggers.decoding import Decoder
    from engine.training.backends import backend_of

    config = SimulationConfig()
    encoded = embeddings.encode(corpus.resolve(SYNTHETIC, settings).parts[0], config.embeddings, config.features)
    tagger = build(_TAGGER, encoded.vectors.shape[1], len(encoded.tags), encoded.copied)
    tagger = tagger.sharing() if personal else tagger
    return World(
        encoded, tagger, backend_of(tagger, _TRAINING.loss, "compiled"), Decoder(encoded.tags, well_formed=True)
    )


def _federation(
    setting: Setting, world: World, owners: Devices, rounds: Sequence[Sequence[int]]
) -> "tuple[Federation, list[ClientData]]":
    """Return the federation and the data of each device, which has the shared layers and perhaps a private head."""
    from engine.federated.fedavg import ClientData, Federation

    other = np.zeros(len(world.encoded.train), dtype=bool)
    other[owners.own[owners.other].reshape(-1)] = True
    tagger = world.tagger
    first = tagger.initial_weights(Seeds(setting.seed).stream("initial weights"))
    shared = tagger.shared.stop
    own = tagger.size - shared
    holding = ClientData(
        split=world.tagged(world.encoded.train, other),
        table=np.asarray(world.encoded.vectors),
        backend=world.backend,
        shared=shared,
    )
    holdings = [holding] * DEVICES
    if own:
        holdings = [
            replace(holding, private_slice=slice(shared + k * own, shared + (k + 1) * own)) for k in range(DEVICES)
        ]
    run = Federation(
        plan_of(owners.own, len(other), rounds),
        holdings if own else holdings[:1],
        np.concatenate([first[:shared], *([first[shared:]] * DEVICES if own else [])]),
        _TRAINING,
        seeds=Seeds(setting.seed),
        secrets=Secrets.seeded(setting.seed, "lesson"),
    )
    return run, holdings


def _tags(world: World, owners: Devices, device: int, weights: np.ndarray) -> tuple[list[list[str]], list[list[str]]]:
    """Return the gold tags of a device's test sentences, and those that its tagger predicts."""
    from engine.embeddings.encoding import subset, tag_sequences
    from engine.training.dpsgd import predict

    encoded = world.encoded
    split = subset(encoded.validation, owners.others[device])
    split = world.tagged(split, np.full(len(split), owners.other[device]))
    transitions = world.tagger.views(weights)[-1].get("transitions")
    best = predict(world.backend, world.decoder, weights, transitions, split, encoded.vectors, lambda: None)
    gold, predicted = (tag_sequences(split, tags, encoded.tags) for tags in (split.tags, best))
    return gold, predicted


def _f1(gold: Sequence[list[list[str]]], predicted: Sequence[list[list[str]]], chosen: np.ndarray) -> float | None:
    """Return F1 over the chosen devices together; None if there are none."""
    from engine.scoring import score

    if not chosen.any():
        return None
    devices = np.flatnonzero(chosen).tolist()
    both = ([sentence for device in devices for sentence in tags[device]] for tags in (gold, predicted))
    return score(*both).f1
