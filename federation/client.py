"""What a client does in a round: its own sentences, its own noise, its own ledger. No Flower.

*Whose noise counts.* Under ``dp-sgd`` and ``local`` each client adds all of its noise itself: its promise rests on
nobody. Under ``secure-sum`` it adds a share, and the sum has what was planned where at most a third vanish; the ledger
counts the share alone all the same, so that it is true even where all others vanish, or the masks are lifted. Seeded
noise counts as none on a client's own sentences: the seed stands in the file that all have.
"""

import datetime
import json
import math
import secrets as system
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import numpy as np

from engine import corpus as corpora
from engine import embeddings
from engine.artifact_store import atomic_write
from engine.config import SimulationConfig, run_key
from engine.corpus import CorpusHandle
from engine.corpus.sentences import Corpus
from engine.embeddings import contamination
from engine.embeddings.encoding import subset, with_tags
from engine.errors import CorpusError, TrainingFailed
from engine.federated.client_noise_monitor import ClientNoiseMonitor
from engine.federated.client_update import message
from engine.federated.fedavg import ClientData
from engine.federated.plan import FederatedPlan, LocalTraining, plan_of, seeded_secrets
from engine.privacy import accounting, events
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds
from engine.settings import Settings
from engine.simulation.setup import build_client_models, compile_parts
from engine.training.dpsgd import DPSGD
from engine.training.optimisers import Optimiser
from federation.configuration import Agreement
from federation.ledger import Entry, Ledger


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What leaves a client. update: float64 [weights]. examples: how many sentences it has. epsilon: what the run has
    cost it so far, by its ledger."""

    update: np.ndarray
    examples: int
    epsilon: float


class OwnSentences(CorpusHandle):
    """All sentences of a client's file or folder, in their order, to train on; nothing is held out."""

    @cached_property
    def checksum(self) -> str:
        """See :class:`CorpusHandle`; another one, since it is read otherwise."""
        return sha256(f"all of {super().checksum}".encode()).hexdigest()

    def load(self) -> Corpus:
        """See :class:`CorpusHandle`."""
        from engine.corpus import conll, files

        sentences = [
            sentence
            for source in self._located.files
            for sentence in conll.read(files.content(source.path), source.title)
        ]
        types = {tag[2:] for sentence in sentences for tag in sentence.tags if tag != "O"}
        return Corpus(
            name=self.name,
            title=self.name,
            licence="your own",
            synthetic=False,
            train=tuple(sentences),
            validation=(),
            test=(),
            entity_types=tuple(sorted(types)),
            checksum=self.checksum,
        )


def own_plan(config: SimulationConfig, examples: int) -> FederatedPlan:
    """The plan as a client of so many sentences knows it: that of a federation whose clients all have as many. What it
    reads of it is its own part, and what is done to whole clients."""
    clients, rounds = config.federation.clients, config.federation.rounds
    part = PrivacyPlan.of_piece(config, examples, examples * clients)
    every = np.arange(examples)
    whole = config.privacy.kind.client_level
    return FederatedPlan(
        parts=(replace(part, steps=part.steps * rounds),) * clients,
        chosen=every,
        sentences=(every,) * clients,
        shards=(every,) * clients,
        rounds=tuple(
            tuple(LocalTraining(client, client, number * part.steps, part.steps) for client in range(clients))
            for number in range(rounds)
        ),
        server=PrivacyPlan.of_clients(config, clients * rounds) if whole and config.privacy.private else None,
        mechanism=config.privacy.kind,
        equal=whole or config.federation.weighting == "equal",
    )


def own_epsilon(plan: FederatedPlan, rounds: int) -> float:
    """What so many rounds cost a client by its own noise alone, ∞ without any."""
    if plan.server is None:
        return accounting.privacy_spent(plan.parts[0], rounds * plan.rounds[0][0].steps).epsilon
    secure = plan.secure_round(0, 1)
    own = plan.server.noise_multiplier / (secure.scale if secure else 1.0)
    return accounting.event_epsilon(events.of(replace(plan.server, noise_multiplier=own), rounds), plan.server.delta)


def coarse(update: np.ndarray, noise_std: float) -> np.ndarray:
    """What a client sends, on a grid as wide as the last digit of the largest noise, of 9.5 standard deviations.

    Noise is drawn in float32. Without this the digits of the update below the noise's last one would leave as they are,
    and tell for certain which of two updates it was, however strong the noise.
    """
    if not noise_std:
        return update
    width = math.ldexp(1.0, math.frexp(noise_std)[1] - 20)
    rounded: np.ndarray = np.rint(update / width) * width
    return rounded


class Client:
    """One client of an agreement. Raises InvalidConfig, CorpusError, VectorsMissing, StoreError."""

    def __init__(self, agreement: Agreement, settings: Settings) -> None:
        self.agreement, self.config = agreement, agreement.config
        self.ledger = Ledger(agreement.client)
        self._index = agreement.number - 1
        compile_parts(settings, lambda stage: None)
        public = CorpusHandle(self.config.corpus, settings)
        own = public if agreement.data is None else OwnSentences(str(agreement.data), settings)
        overlap = contamination.overlap(own, self.config.features)
        arrays = embeddings.encode(own, self.config.embeddings, self.config.features, lambda share: None, None)
        if own is not public:
            tags = embeddings.encode(
                public, self.config.embeddings, self.config.features, lambda share: None, None
            ).tags
            if strange := sorted(set(arrays.tags) - set(tags)):
                raise CorpusError(
                    f"data={str(agreement.data)!r} has the tag {strange[0]}, expected those of corpus="
                    f"{self.config.corpus!r}: {', '.join(tags)}"
                )
            arrays = with_tags(arrays, tags)
        (side,) = build_client_models(self.config, (own,), (overlap,), (arrays,), settings.backend)
        # All parties have the seed, and can subtract noise that comes from it. A public corpus has nothing to hide.
        known = agreement.data is not None and self.config.privacy.noise_source == "seeded"
        self._believable = not overlap.shared[0] and not known
        self._secrets = seeded_secrets(self.config, public.checksum)
        sentences = np.arange(len(side.holding.split))
        if own is public:
            everybody = plan_of(self.config, public, self._secrets)
            sentences = everybody.chosen[everybody.sentences[self._index]]
        self.holding: ClientData = replace(side.holding, split=subset(side.holding.split, sentences))
        self.plan = own_plan(self.config, len(sentences))
        self.run = sha256(f"{agreement.name}\n{run_key(self.config, own.checksum)}".encode()).hexdigest()[:16]

    def train(self, common: np.ndarray, round: int) -> Trained:
        """Book a round (from 0), then train it from the common weights, float32 [size].

        Raises BudgetExceeded where it was begun before, TrainingFailed where the weights stop being finite, the
        server's do not fit, or the noise is not what was planned: then nothing leaves.
        """
        plan, visit = self.plan, self._visit(round)
        if common.shape != (self.holding.shared,) or not np.isfinite(common).all():
            raise TrainingFailed(
                f"The server sent {common.size:,} weights, expected {self.holding.shared:,} finite ones"
            )
        epsilon = own_epsilon(plan, round + 1) if self._believable else math.inf
        self.ledger.book(self._entry(round, epsilon))
        streams = self._streams()
        monitor = self._monitor(common.size)
        witness = ClientNoiseMonitor(plan, self._alone, monitor) if monitor and self._alone else None
        if witness:
            witness.start_round(common, round)
        trained = self._trained(common.copy(), visit, streams, monitor if not witness else None)
        update = message(plan, common, trained, streams, self._index, round)
        if update is None:
            raise TrainingFailed(f"round={round + 1}: the weights stopped being finite; nothing is sent")
        if witness:
            witness.observe(0, trained, update)
        if monitor:
            self._keep(monitor)
            verdict = monitor.verdict()
            if verdict.failed:
                raise TrainingFailed(f"round={round + 1}: the noise check failed, nothing is sent: {verdict.faults[0]}")
        if plan.server:
            secure = plan.secure_round(round, common.size)
            update = coarse(update, secure.share if secure else plan.server.noise_std)
        return Trained(update=update, examples=len(self.holding.split), epsilon=epsilon)

    def _visit(self, round: int) -> LocalTraining:
        if not 0 <= round < len(self.plan.rounds):
            raise TrainingFailed(f"The server asks for round {round + 1}, expected 1 to {len(self.plan.rounds)}")
        return self.plan.rounds[round][self._index]

    def _trained(
        self, weights: np.ndarray, visit: LocalTraining, streams: Secrets | Seeds, monitor: NoiseMonitor | None
    ) -> np.ndarray | None:
        """The weights after this round's steps, None where they stopped being finite."""
        learner = DPSGD(
            self.holding.backend,
            self.plan.parts[visit.part],
            Optimiser(self.config.training, weights.size),
            (Seeds(self.config.seed) if self.plan.server else streams).of(part=visit.part),
            self.holding.split,
            self.holding.table,
            weights,
            monitor=monitor,
            first=visit.first,
        )
        try:
            for step in range(visit.steps):
                learner.step(visit.first + step)
        except TrainingFailed:
            return None
        return weights

    def _streams(self) -> Secrets | Seeds:
        """Of this round. Those of the operating system are new each time, and nothing keeps them."""
        if not self.plan.private:
            return Seeds(self.config.seed)
        return Secrets.drawn() if self.config.privacy.noise_source == "system" else self._secrets

    @cached_property
    def _alone(self) -> PrivacyPlan | None:
        """What is done to this client, as to one of one, in all its rounds."""
        server = self.plan.server
        return replace(server, examples=1, batch_size=1, steps=len(self.plan.rounds)) if server else None

    def _entry(self, round: int, epsilon: float) -> Entry:
        return Entry(
            run=self.run,
            name=self.agreement.name,
            round=round + 1,
            epsilon=epsilon,
            delta=self.config.privacy.delta,
            unit=self.config.privacy.kind.protected,
            at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )

    def _monitor(self, size: int) -> NoiseMonitor | None:
        """The noise check of this run, with what it saw in earlier rounds; a key of its own says where it looks."""
        if not self.plan.private:
            return None
        folder = self.agreement.client / self.run
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = folder / "check.key"
        if not key.exists():
            key.write_bytes(system.token_bytes(32))
        plans: Sequence[PrivacyPlan] = [self._alone or self.plan.parts[self._index]]
        unit = self.plan.mechanism.unit
        layers = [(title, where) for title, where in self.holding.layers if where.stop <= size]
        monitor = NoiseMonitor(
            plans,
            size,
            layers=layers,
            unit=unit,
            secrets=Secrets(key.read_bytes()),
            checks=self.config.federation.clients,
            verdicts=len(self.plan.rounds),
        )
        if (folder / "check.npz").exists():
            with np.load(folder / "check.npz", allow_pickle=False) as arrays:
                monitor.state = {name: arrays[name].copy() for name in monitor.state}
        return monitor

    def _keep(self, monitor: NoiseMonitor) -> None:
        path = self.agreement.client / self.run / "check.npz"
        with atomic_write(path, "The noise check") as passing:
            np.savez(passing, **monitor.state)
        (path.parent / "check.json").write_text(json.dumps({"faults": monitor.verdict().faults}), encoding="utf-8")


def split(config: SimulationConfig, settings: Settings) -> list[Sequence[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """Tokens and tags of each client's sentences, as a simulation splits them, in their order."""
    corpus = corpora.resolve(config.corpus, settings)
    plan = plan_of(config, corpus)
    train = corpus.load().train
    shards = (plan.chosen[places] for places in plan.sentences)
    return [[(train[number].tokens, train[number].tags) for number in shard.tolist()] for shard in shards]
