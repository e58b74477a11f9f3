"""The training of a client in a round, with its own sentences, noise and ledger. This module does not import Flower.

*Noise in the accounting.* Under ``dp-sgd`` and ``local`` each client adds all of its noise itself, so its guarantee
depends on no other party. Under ``secure-sum`` it adds a share, and the sum has the planned noise if at most a third
drop out. The ledger nevertheless counts the client's share only, so it holds even if all other clients drop out or the
masks are removed. Seeded noise on a client's own sentences counts as none: the seed is in the file that all parties
have.
"""

import datetime
import io
import json
import math
import secrets as system
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from engine import corpus as corpora
from engine import embeddings
from engine.artifact_store import atomic_write, overwrite
from engine.config import SimulationConfig, run_key
from engine.corpus import CorpusHandle
from engine.corpus.sentences import Corpus
from engine.embeddings import contamination
from engine.embeddings.encoding import subset, with_tags
from engine.errors import CorpusError, StoreError, TrainingFailed
from engine.federated.client_noise_monitor import ClientNoiseMonitor
from engine.federated.client_update import message
from engine.federated.fedavg import ClientData
from engine.federated.plan import FederatedPlan, LocalTraining, plan_of, seeded_secrets
from engine.privacy import accounting, events
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.plan import PrivacyPlan
from engine.sealing import SealBroken, seal, unseal
from engine.seeds import Secrets, Seeds
from engine.settings import Settings
from engine.simulation.setup import build_client_models, compile_parts
from engine.training.dpsgd import DPSGD
from engine.training.optimisers import Optimiser
from federation import check_files
from federation.configuration import Agreement
from federation.ledger import Entry, Ledger

_UNSEALED = b"PK"
"""First bytes of measurements in the clear, of versions up to 0.6.0."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The message of a client after a round.

    Attributes:
        update: Update, float64 [weights].
        examples: Number of sentences of the client.
        epsilon: ε that the run has spent on the client so far, by its ledger.
    """

    update: np.ndarray
    examples: int
    epsilon: float


class OwnSentences(CorpusHandle):
    """A client's file or folder, with all sentences in order as training set and no held-out part."""

    @cached_property
    def checksum(self) -> str:
        """Checksum, which differs from that of :class:`CorpusHandle`, since the sentences are split differently."""
        return sha256(f"all of {super().checksum}".encode()).hexdigest()

    def load(self) -> Corpus:
        """Read the corpus; see :class:`CorpusHandle`."""
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


def own_plan(config: SimulationConfig, examples: int, *, moves_sentences: bool = False) -> FederatedPlan:
    """Return the federated plan for a client with so many sentences, as if all clients had the same number.

    The client reads only its own part, and the mechanism on whole clients.

    Args:
        config: The configuration.
        examples: Number of sentences of the client.
        moves_sentences: Whether one more sentence of the common corpus may move others to another client.
    """
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
        moves_sentences=moves_sentences,
    )


def own_epsilon(plan: FederatedPlan, rounds: int) -> float:
    """Return ε of so many rounds, counting only the client's own noise; ∞ without noise."""
    if plan.server is None:
        return accounting.privacy_spent(plan.parts[0], rounds * plan.rounds[0][0].steps).epsilon
    secure = plan.secure_round(0, 1)
    own = plan.server.noise_multiplier / (secure.scale if secure else 1.0)
    return accounting.event_epsilon(events.of(replace(plan.server, noise_multiplier=own), rounds), plan.server.delta)


def coarse(update: np.ndarray, noise_std: float) -> np.ndarray:
    """Round the message of a client to a grid as wide as the last digit of the largest noise.

    The largest noise is 9.5 standard deviations. Noise is generated in float32. Without rounding, the digits of the
    update below the last digit of the noise would be sent unchanged. They would reveal which of two updates it was,
    however strong the noise.
    """
    if not noise_std:
        return update
    width = math.ldexp(1.0, math.frexp(noise_std)[1] - 20)
    rounded: np.ndarray = np.rint(update / width) * width
    return rounded


class Client:
    """One client of a federation.

    Attributes:
        agreement: The agreement of the federation.
        config: Its configuration.
        ledger: Privacy ledger of this client.
        holding: Training data and back end.
        plan: The federated plan of this client.
        run: Identity of the run in the ledger.

    Raises:
        InvalidConfig: If the configuration does not fit the sentences.
        CorpusError: If a corpus is missing or invalid.
        VectorsMissing: If word vectors are not installed.
        StoreError: If stored data cannot be read or written.
    """

    def __init__(self, agreement: Agreement, settings: Settings) -> None:
        self.agreement, self.config = agreement, agreement.config
        self.ledger = Ledger(agreement.client)
        self._index = agreement.number - 1
        compile_parts(settings, lambda stage: None)
        public = CorpusHandle(self.config.corpus, settings)
        own = public if agreement.data is None else OwnSentences(str(agreement.data), settings)
        overlap = contamination.overlap(own, contamination.kind_of(self.config))
        arrays = embeddings.encode(own, self.config.embeddings, self.config.features, lambda share: None, None)
        if own is not public:
            tags = embeddings.encode(
                public, self.config.embeddings, self.config.features, lambda share: None, None
            ).tags
            if unknown := sorted(set(arrays.tags) - set(tags)):
                raise CorpusError(
                    f"data={str(agreement.data)!r} has the unknown tag {unknown[0]}, expected the tags of corpus="
                    f"{self.config.corpus!r}: {', '.join(tags)}"
                )
            arrays = with_tags(arrays, tags)
        (side,) = build_client_models(self.config, (own,), (overlap,), (arrays,), settings.backend)
        # All parties have the seed, and can subtract seeded noise. The sentences of a public corpus are not secret.
        noise_is_known = agreement.data is not None and self.config.privacy.noise_source == "seeded"
        self._epsilon_is_valid = not overlap.shared[0] and not noise_is_known
        self._secrets = seeded_secrets(self.config, public.checksum)
        sentences, moves_sentences = np.arange(len(side.holding.split)), False
        if own is public:
            plan = plan_of(self.config, public, self._secrets)
            sentences, moves_sentences = plan.chosen[plan.sentences[self._index]], plan.moves_sentences
        self.holding: ClientData = replace(side.holding, split=subset(side.holding.split, sentences))
        self.plan = own_plan(self.config, len(sentences), moves_sentences=moves_sentences)
        self.run = sha256(f"{agreement.name}\n{run_key(self.config, own.checksum)}".encode()).hexdigest()[:16]

    def train(self, common: np.ndarray, round: int) -> Trained:
        """Charge a round to the ledger, then train it.

        After an error, the client sends nothing.

        Args:
            common: Common weights, float32 [size].
            round: Number of the round, from 0.

        Raises:
            BudgetExceeded: If the round was started before.
            TrainingFailed: If the server's weights do not fit, the weights are not finite, or the noise check fails.
            StoreError: If the measurements of earlier rounds cannot be read; the round is not charged.
        """
        plan, visit = self.plan, self._visit(round)
        if common.shape != (self.holding.shared,) or not np.isfinite(common).all():
            raise TrainingFailed(
                f"The server sent {common.size:,} weights, expected {self.holding.shared:,} finite weights"
            )
        if self._failed_before():
            raise TrainingFailed(f"round={round + 1}: the noise check of this run failed before; nothing is sent")
        self._measurements()  # before the round is charged: what cannot be read costs nothing
        epsilon = own_epsilon(plan, round + 1) if self._epsilon_is_valid else math.inf
        self.ledger.charge(self._entry(round, epsilon))
        streams, monitor, server = self._streams(), self._monitor(common.size), self._server_plan
        client_monitor = ClientNoiseMonitor(plan, server, monitor, streams, self._index) if monitor and server else None
        if client_monitor:
            client_monitor.start_round(common, round)
        trained = self._trained(common.copy(), visit, streams, monitor if not client_monitor else None)
        update = message(plan, common, trained, streams, self._index, round)
        if update is None:
            if round + 1 == len(plan.rounds):
                check_files.destroy(self._folder)
            raise TrainingFailed(f"round={round + 1}: the weights are no longer finite; nothing is sent")
        if client_monitor:
            client_monitor.observe(self._index, trained, update)
        if monitor:
            check = monitor.verdict().without_private_values()
            self._save_check(monitor, ended=check.failed or round + 1 == len(plan.rounds))
            if check.failed:
                raise TrainingFailed(f"round={round + 1}: the noise check failed; nothing is sent: {check.faults[0]}")
        if plan.server:
            secure = plan.secure_round(round, common.size)
            update = coarse(update, secure.share if secure else plan.server.noise_std)
        return Trained(update=update, examples=len(self.holding.split), epsilon=epsilon)

    def _failed_before(self) -> bool:
        result = self._folder / check_files.RESULT
        return result.exists() and bool(json.loads(result.read_bytes())["faults"])

    def _visit(self, round: int) -> LocalTraining:
        if not 0 <= round < len(self.plan.rounds):
            raise TrainingFailed(f"The server requested round {round + 1}, expected 1 to {len(self.plan.rounds)}")
        return self.plan.rounds[round][self._index]

    def _trained(
        self, weights: np.ndarray, visit: LocalTraining, streams: Secrets | Seeds, monitor: NoiseMonitor | None
    ) -> np.ndarray | None:
        """Return the weights after the steps of this round; None if they are not finite."""
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
        """Return the random streams of a round; those of the operating system are new each time and never saved."""
        if not self.plan.private:
            return Seeds(self.config.seed)
        return Secrets.drawn() if self.config.privacy.noise_source == "system" else self._secrets

    @cached_property
    def _server_plan(self) -> PrivacyPlan | None:
        """The plan of the mechanism on whole clients, for this client alone in all its rounds."""
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
            neighbouring=self.plan.neighbours,
            at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )

    def _measurements(self) -> dict[str, np.ndarray]:
        """Return what the noise check measured in earlier rounds. Raises StoreError if it cannot be read."""
        key, saved = self._folder / check_files.KEY, self._folder / check_files.SAVED
        try:
            content = saved.read_bytes() if saved.exists() else b""
            if content and not content.startswith(_UNSEALED):
                head, _, sealed = content.partition(b"\n")
                if not head.startswith(self._sealed_as):
                    raise SealBroken("it belongs to another run or version")
                content = unseal(key.read_bytes(), sealed, head)
            if not content:
                return {}
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return {name: arrays[name].copy() for name in arrays.files}
        except Exception as error:  # numpy evaluates headers, so parser and allocation errors are possible too
            raise StoreError(
                f"The measurements of the noise check in {saved} cannot be read: {error}. No round was charged. "
                "Restore the file, or continue without them: python -m federation forget FILE"
            ) from error

    def _monitor(self, size: int) -> NoiseMonitor | None:
        """Return the noise check of this run with its earlier measurements.

        A secret key of the run selects the weights and steps that the check measures, and seals its measurements.

        Raises:
            StoreError: If they cannot be read.
        """
        if not self.plan.private:
            return None
        key, measured = self._folder / check_files.KEY, self._measurements()
        try:
            key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not key.exists():
                with atomic_write(key, "The key of the noise check") as temporary:
                    temporary.write_bytes(system.token_bytes(32))
            key.touch()  # the files of a run that gets no more rounds are destroyed
            secrets = Secrets(key.read_bytes())
        except OSError as error:
            raise StoreError(f"The key of the noise check {key} cannot be used: {error.strerror or error}.") from error
        plans: Sequence[PrivacyPlan] = [self._server_plan or self.plan.parts[self._index]]
        layers = [(title, where) for title, where in self.holding.layers if where.stop <= size]
        monitor = NoiseMonitor(
            plans,
            size,
            layers=layers,
            unit=self.plan.mechanism.unit,
            secrets=secrets,
            checks=self.config.federation.clients,
            verdicts=len(self.plan.rounds),
        )
        monitor.state = measured  # a file of an earlier version may lack some
        return monitor

    @property
    def _folder(self) -> Path:
        """Folder of this run's noise check."""
        return self.agreement.client / self.run

    @property
    def _sealed_as(self) -> bytes:
        """Start of the first line of sealed measurements, which the number of measured steps follows."""
        return f"federation check 1, run {self.run}, step ".encode()

    def _save_check(self, monitor: NoiseMonitor, *, ended: bool) -> None:
        """Save the verdict, and the sealed measurements until the run has ended, when their key is destroyed too.

        Args:
            monitor: The noise check.
            ended: Whether no round of the run will follow.
        """
        key, saved = self._folder / check_files.KEY, self._folder / check_files.SAVED
        with atomic_write(self._folder / check_files.RESULT, "The result of the noise check") as temporary:
            faults = monitor.verdict().without_private_values().faults
            temporary.write_text(json.dumps({"faults": faults}), encoding="utf-8")
        if ended:
            check_files.destroy(self._folder)
            return
        content, head = io.BytesIO(), self._sealed_as + str(monitor.steps_seen).encode()
        np.savez(content, allow_pickle=False, **monitor.state)
        with ExitStack() as stack:
            unsealed = saved.exists() and saved.read_bytes().startswith(_UNSEALED)
            before = stack.enter_context(saved.open("r+b")) if unsealed else None
            with atomic_write(saved, "The noise check") as temporary:
                temporary.write_bytes(head + b"\n" + seal(key.read_bytes(), content.getbuffer(), head))
            if before:
                overwrite(before)


def split(config: SimulationConfig, settings: Settings) -> list[Sequence[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """Return the tokens and tags of each client's sentences, in order, with the partition of a simulation."""
    corpus = corpora.resolve(config.corpus, settings)
    plan = plan_of(config, corpus)
    train = corpus.load().train
    shards = (plan.chosen[indices] for indices in plan.sentences)
    return [[(train[number].tokens, train[number].tags) for number in shard.tolist()] for shard in shards]
