"""Federated averaging on devices that take part when it suits their owners: who is heard, and what that does.

The rounds are run by the engine's own federation (:mod:`engine.federated`): weights go down, each device trains on
sentences of its own, weights come back, and the server takes their mean (McMahan et al. 2017, algorithm 1). What is
simulated is the devices' days, and what their owners write. A device may take part only while it is idle, charges and
is on Wi-Fi (Bonawitz et al. 2019, "Towards Federated Learning at Scale", section 3). Some owners are on the road:
they charge where there is no Wi-Fi, and what they write is mostly about places. Some owners mark people only: they
want something else of the same tagger. Under a *personal upper part* all that belongs to the tags stays on the device
(Arivazhagan et al. 2019, "FedPer"; Ge et al. 2020, section 3.2).
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
"""How many there are; how often weights travel; how many devices the server takes in a round, of those that may."""
CONDITIONS = ("idle", "charging", "Wi-Fi")
_SENTENCES, _OTHERS = 30, 15
"""Of each device: that it trains on, and that it is scored on."""
_HOME, _CHARGING, _SELDOM = 0.6, 0.7, 0.05
"""At a random moment: chance to be at home, where there is Wi-Fi; to charge where the owner does so; and elsewhere."""
_IDLE = (0.2, 0.9)
"""Chance to be idle, of the busiest owner and of the least busy one."""
_TAGGER = TaggerConfig(name="mlp-crf", hidden_size=48, window=1)
_TRAINING = TrainingConfig(optimiser="adam", learning_rate=0.01, batch_size=8, epochs=2.0)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """conditions: what the server asks for, of ``CONDITIONS``. road, other: of 100 owners, those who are on the road,
    and those who mark people only. personal: whether each device keeps its upper part to itself. seed: of everything.
    Raises InvalidConfig."""

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
    """After so many rounds, from 0. heard: the devices of this round, of ``may`` that fulfilled the conditions. visits:
    of each device, so far, [DEVICES]. f1: on other sentences of all devices, of those on the road and of the others,
    strict and micro, 0 to 1; None where there are none. weights: that travelled to each device heard, and back."""

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
        """Devices that were not heard so far."""
        return sum(not visits for visits in self.visits)


@dataclass(frozen=True, eq=False)
class Devices:
    """road, other: whose owners are so, bool [DEVICES]. own: numbers of the training sentences of each, int64 [DEVICES,
    30]; others: of validation sentences like them, on which they are scored, int64 [DEVICES, 15]."""

    road: np.ndarray
    other: np.ndarray
    own: np.ndarray
    others: np.ndarray


@dataclass(frozen=True, eq=False)
class World:
    """The embedded corpus as arrays, and what finds names in it. tagger: as devices share it."""

    encoded: "EncodedCorpus"
    tagger: "Tagger"
    backend: "Backend"
    decoder: "Decoder"

    @property
    def others(self) -> np.ndarray:
        """Which tags are of other names than people's, bool [tags]."""
        return np.array([tag != "O" and not tag.endswith("-PER") for tag in self.encoded.tags])

    def about_places(self, split: "EncodedSplit") -> np.ndarray:
        """Sentences in which no type of name comes more often than places, bool [sentences]."""
        types = sorted({tag[2:] for tag in self.encoded.tags if tag != "O"})
        sentence = np.repeat(np.arange(len(split)), split.lengths)
        counts = np.zeros((len(split), len(types)), dtype=np.int64)
        for number, name in enumerate(types):
            begins = np.asarray(split.tags) == self.encoded.tags.index(f"B-{name}")
            counts[:, number] = np.bincount(sentence[begins], minlength=len(split))
        places = counts[:, types.index("LOC")]
        found: np.ndarray = (places > 0) & (places == counts.max(1))
        return found

    def tagged(self, split: "EncodedSplit", other: np.ndarray) -> "EncodedSplit":
        """The same sentences, where those in ``other``, bool [sentences], have people marked only."""
        tags = np.asarray(split.tags).copy()
        tags[self.others[tags] & np.repeat(other, split.lengths)] = self.encoded.tags.index("O")
        return replace(split, tags=tags)


def devices(setting: Setting, world: World) -> Devices:
    """Who writes what. Owners stay who they are, and keep their sentences, while shares move: the first ones of an
    order change first."""
    seeds = Seeds(setting.seed)
    place, people = _order(setting), seeds.stream("people only").permutation(DEVICES)
    road = on_the_road(setting)
    other = people < round(setting.other * DEVICES / 100)

    def dealt(split: "EncodedSplit", each: int) -> np.ndarray:
        """So many sentences for each device, of its owner's kind; from the beginning again where they are used up."""
        places = world.about_places(split)
        order = seeds.stream("sentences", each=each).permutation(len(split))
        pools = order[places[order]], order[~places[order]]
        found = np.empty((DEVICES, each), dtype=np.int64)
        for device in range(DEVICES):
            pool, first = (pools[0], place[device]) if road[device] else (pools[1], DEVICES - 1 - place[device])
            found[device] = np.sort(pool[(first * each + np.arange(each)) % len(pool)])
        return found

    return Devices(road, other, dealt(world.encoded.train, _SENTENCES), dealt(world.encoded.validation, _OTHERS))


def _order(setting: Setting) -> np.ndarray:
    return Seeds(setting.seed).stream("on the road").permutation(DEVICES)


def on_the_road(setting: Setting) -> np.ndarray:
    """Whose owners are, bool [DEVICES]."""
    return np.asarray(_order(setting) < round(setting.road * DEVICES / 100))


def ready(setting: Setting, road: np.ndarray) -> np.ndarray:
    """Which devices fulfil the conditions in each round, bool [ROUNDS, DEVICES]; each is a random moment."""
    random = Seeds(setting.seed).stream("moments")
    idle = np.linspace(*_IDLE, DEVICES)[Seeds(setting.seed).stream("busy").permutation(DEVICES)]
    draws = random.random((ROUNDS, 3, DEVICES))
    home = draws[:, 0] < _HOME
    elsewhere = np.where(road, _CHARGING, _SELDOM)
    charges = draws[:, 1] < np.where(home, np.where(road, 0.0, _CHARGING), elsewhere)
    is_so = {"idle": draws[:, 2] < idle, "charging": charges, "Wi-Fi": home}
    found = np.ones((ROUNDS, DEVICES), dtype=bool)
    for condition in setting.conditions:
        found &= is_so[condition]
    return found


def heard(setting: Setting, may: np.ndarray) -> list[list[int]]:
    """The devices of each round, ascending: ``AT_MOST`` of those that may, at random."""
    chosen = []
    for number, there in enumerate(may):
        order = Seeds(setting.seed).stream("heard", round=number).permutation(DEVICES)
        chosen.append(sorted(order[there[order]][:AT_MOST].tolist()))
    return chosen


def plan_of(own: np.ndarray, sentences: int, rounds: Sequence[Sequence[int]]) -> "FederatedPlan":
    """What the federation does: ``own`` [DEVICES, 30] of so many training sentences. No noise, nothing clipped."""
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
    """The run of a setting, one for all who look at it."""
    return PollDrivenTask(lambda tell: play(setting, settings, tell))


def play(setting: Setting, settings: Settings, tell: Callable[[str], None]) -> "Iterator[Round | None]":
    """The rounds, one after another; None between them, often, where somebody may stop. tell: is told what it waits
    for. Raises CorpusError, VectorsMissing, StoreError, TrainingFailed."""
    from engine.simulation import setup

    config = SimulationConfig(tagger=_TAGGER, training=_TRAINING)
    setup.wait_for_parts(config, settings, tell)
    setup.compile_parts(settings, tell)
    tell("reading sentences and word vectors")
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
        found: list[list[list[str]]] = []
        for device in range(DEVICES):
            with GRADIENT_LOCK:
                tags = _found(world, owners, device, holdings[device].weights(run.weights))
            gold.append(tags[0])
            found.append(tags[1])
            yield None
        yield Round(
            number=number,
            heard=tuple(rounds[number]),
            may=int(may[number].sum()),
            visits=tuple(visits.tolist()),
            f1=_f1(gold, found, np.ones(DEVICES, dtype=bool)) or 0.0,
            f1_road=_f1(gold, found, owners.road),
            f1_rest=_f1(gold, found, ~owners.road),
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
    """What trains, and what each device trains with: all the common weights, or a part of them and its own."""
    from engine.federated.fedavg import ClientData, Federation

    other = np.zeros(len(world.encoded.train), dtype=bool)
    other[owners.own[owners.other].reshape(-1)] = True
    tagger = world.tagger
    first = tagger.initial_weights(Seeds(setting.seed).stream("initial weights"))
    common = tagger.shared.stop
    own = tagger.size - common
    holding = ClientData(
        split=world.tagged(world.encoded.train, other),
        table=np.asarray(world.encoded.vectors),
        backend=world.backend,
        shared=common,
    )
    holdings = [holding] * DEVICES
    if own:
        holdings = [
            replace(holding, private_slice=slice(common + k * own, common + (k + 1) * own)) for k in range(DEVICES)
        ]
    run = Federation(
        plan_of(owners.own, len(other), rounds),
        holdings if own else holdings[:1],
        np.concatenate([first[:common], *([first[common:]] * DEVICES if own else [])]),
        _TRAINING,
        seeds=Seeds(setting.seed),
        secrets=Secrets.seeded(setting.seed, "lesson"),
    )
    return run, holdings


def _found(world: World, owners: Devices, device: int, weights: np.ndarray) -> tuple[list[list[str]], list[list[str]]]:
    """The tags that a device's owner gives its other sentences, and those that its tagger finds."""
    from engine.embeddings.encoding import subset, tag_sequences
    from engine.training.dpsgd import predict

    encoded = world.encoded
    split = subset(encoded.validation, owners.others[device])
    split = world.tagged(split, np.full(len(split), owners.other[device]))
    transitions = world.tagger.views(weights)[-1].get("transitions")
    found = predict(world.backend, world.decoder, weights, transitions, split, encoded.vectors, lambda: None)
    gold, tags = (tag_sequences(split, each, encoded.tags) for each in (split.tags, found))
    return gold, tags


def _f1(gold: Sequence[list[list[str]]], found: Sequence[list[list[str]]], whose: np.ndarray) -> float | None:
    """Of the chosen devices together; None where there are none."""
    from engine.scoring import score

    if not whose.any():
        return None
    both = ([sentence for device in np.flatnonzero(whose) for sentence in tags[device]] for tags in (gold, found))
    return score(*both).f1
