"""The one door to runs for pages and the command line.

Light to import: the database, Dask, TensorFlow, spaCy and dp_accounting are imported when they are first needed, the
middle three never in this process.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from engine import corpus
from engine.config import DEFAULT_CLIP_NORM, FEATURES, SimulationConfig, run_id
from engine.corpus import CorpusInfo
from engine.corpus.layout import layout
from engine.embeddings.apart import NONE, Overlap, believable, overlap
from engine.errors import CorpusError, EpsilonError, InvalidConfig, RunNotFound, StoreError
from engine.federated.accounting import spent
from engine.federated.plan import FederatedPlan, chosen_layout, plan_of
from engine.privacy.plan import tier
from engine.records import Measurement, PrivacySpent, RoundRecord, Run, RunState, RunStatus, Study
from engine.repeats import Outcome, Repeat, is_repeat, outcome, repeat_id
from engine.settings import Settings
from engine.store import key_file, measured, published, studies
from engine.store.published import Published

if TYPE_CHECKING:
    from pathlib import Path

    from engine.store.database import Store


LONGEST_NOTE = 2000
"""Characters."""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a run would be, before it is started.

    privacy: spent at its end. tier: in words (see :func:`engine.privacy.plan.tier`). train_sentences: that it would
    learn from. steps: optimiser steps. warnings: what the reader of ε and F1 should know, one sentence each.
    estimated_seconds: judged by the runs that are known, None without any. overlap: with the sentences that the
    features were fitted on.
    """

    privacy: PrivacySpent
    tier: str
    train_sentences: int
    steps: int
    warnings: tuple[str, ...]
    estimated_seconds: float | None
    overlap: Overlap = NONE


@dataclass(frozen=True)
class Holdings:
    """What each client holds. sentences, tokens: [clients]. entities: names of each of ``types``, [clients, types]."""

    sentences: tuple[int, ...]
    tokens: tuple[int, ...]
    types: tuple[str, ...]
    entities: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Overview:
    """A run in a list. last: its newest record, None before the first. note: of the user, empty if there is none.
    outcome: of one that repeats another, once both are done."""

    run: Run
    last: RoundRecord | None
    note: str
    outcome: Outcome | None = None


class Runs:
    """Published runs and the user's own, as one. Methods raise EpsilonError with a sentence for the user."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._ends: dict[str, RoundRecord] = {}
        self._seen = (Published((), ()), Published((), ()))

    @classmethod
    def from_environment(cls) -> "Runs":
        """The runs of this machine's settings."""
        return cls(Settings.from_environment())

    @cached_property
    def _store(self) -> "Store":
        from engine.store.database import Store

        return Store(self.settings.store_url)

    # Asking

    def identity(self, config: SimulationConfig) -> str:
        """The run that this configuration is. Raises CorpusError if its corpus is not here."""
        return run_id(config, corpus.checksum(config.corpus, self.settings))

    def find(self, config: SimulationConfig) -> Run | None:
        """The run with this configuration, if it is published or stored in whatever state; else the published one of
        an older engine.

        Where the corpus is not here, a published run of the same configuration is taken at its word.
        """
        same = self._published.by_config.get(config, [])
        try:
            checksum = corpus.checksum(config.corpus, self.settings)
        except CorpusError:
            return same[0] if same else None
        known = next((run for run in same if run.provenance and run.provenance.corpus_checksum == checksum), None)
        if known and not known.outdated:
            return known
        try:
            return self._judged(self._store.get(run_id(config, checksum)))
        except RunNotFound:
            return known
        except StoreError:
            if known:
                return known  # what is published can be seen all the same; problems() says what is wrong
            raise

    def get(self, identity: str) -> Run:
        """The run with its records so far. Raises RunNotFound."""
        return self._published.by_id.get(identity) or self._judged(self._store.get(identity))

    def status(self, identity: str) -> RunStatus:
        """How the run is doing; cheap enough to be asked often. Raises RunNotFound."""
        known = self._published.by_id.get(identity)
        return known.status if known else self._store.status(identity)

    def rounds(self, identity: str, after: int = -1) -> tuple[RoundRecord, ...]:
        """The records of a run with a round greater than ``after``."""
        if known := self._published.by_id.get(identity):
            return tuple(record for record in known.records if record.round > after)
        return self._store.records(identity, after)

    def recent(self, limit: int = 200) -> list[Run]:
        """All runs without their records, newest first."""
        stored, _ = self._store.newest(limit)
        known = {run.run_id for run in stored}
        every = stored + [replace(run, records=()) for run in self.published() if run.run_id not in known]
        return sorted(every, key=lambda run: run.status.created or 0.0, reverse=True)[:limit]

    def overview(self, limit: int = 5000, *, repeats: bool = False) -> list[Overview]:
        """All runs, newest first, each with its newest record; those that repeat another only where asked for."""
        every = [run for run in self.recent(limit) if repeats or not is_repeat(run.run_id)]
        published = {run.run_id: run.records[-1] for run in self.published()}
        known, notes = published | self._ends, self._store.notes()
        new = self._store.last_records({run.run_id for run in every} - known.keys())
        # A run that has ended says nothing more, unless it is taken up again, which its state shows.
        self._ends |= {run.run_id: new[run.run_id] for run in every if run.run_id in new and run.status.state == "done"}
        known |= new
        firsts = {repeat_id(identity): record for identity, record in known.items() if not is_repeat(identity)}
        return [
            Overview(
                run,
                self._believable(run.config, last),
                notes.get(run.run_id, ""),
                outcome(firsts.get(run.run_id), last),
            )
            for run in every
            for last in [known.get(run.run_id)]
        ]

    def repeated(self, firsts: Iterable[Run]) -> dict[str, Repeat]:
        """Of these runs those that were asked for once more, by their identity, and what came of it."""
        found = {}
        for first in firsts:
            with suppress(RunNotFound):
                again = self._store.get(repeat_id(first.run_id))
                found[first.run_id] = Repeat(again.status.state, outcome(first.final, again.final))
        return found

    def tradeoff(self, config: SimulationConfig) -> list[Run]:
        """Finished runs that differ from ``config`` in their noise only, by ε, the largest last.

        One for each noise multiplier: of today's engine where there is one, that with the seed of ``config``, else that
        with the smallest seed; without noise the one that does not clip either.
        """
        try:
            found = {run.run_id: run for run in self._stored_done(config)}
        except EpsilonError:
            found = {}  # what is published can be seen all the same; problems() says what is wrong
        found |= {run.run_id: run for run in self.published() if _but_for_noise(run.config) == _but_for_noise(config)}
        by_noise: dict[float, Run] = {}
        for run in sorted(found.values(), key=lambda run: _preference(run, config)):
            check = run.records[-1].noise_check
            if check and check.failed:
                continue
            if run.config.privacy.private and math.isinf(run.records[-1].privacy.epsilon):
                continue  # the features were fitted on its sentences
            by_noise.setdefault(run.config.privacy.noise_multiplier, run)
        return sorted(by_noise.values(), key=lambda run: run.records[-1].privacy.epsilon)

    def _stored_done(self, config: SimulationConfig) -> list[Run]:
        done, _ = self._store.newest(1000, RunState.DONE)
        alike = [run for run in done if _but_for_noise(run.config) == _but_for_noise(config)]
        if not alike:
            return []
        try:  # an older corpus or engine would not be the same setting
            fresh = [run for run in alike if run.run_id == self.identity(run.config)]
        except CorpusError:
            return []
        return [run for run in map(self.get, (run.run_id for run in fresh)) if run.final]

    def _judged(self, run: Run) -> Run:
        """One of the user's runs with the ε that may be believed."""
        return replace(run, records=tuple(filter(None, (self._believable(run.config, each) for each in run.records))))

    def _believable(self, config: SimulationConfig, record: RoundRecord | None) -> RoundRecord | None:
        """The record, ε = ∞ where the features were fitted on its sentences: older runs did not look at that."""
        if record is None or not config.privacy.private or math.isinf(record.privacy.epsilon):
            return record
        return replace(record, privacy=believable(record.privacy, self.overlap(config)))

    def problems(self) -> list[str]:
        """What could not be read, a sentence each; nothing of it is touched."""
        found = list(published.read_all(self.settings.published).problems)
        try:
            return found + self._store.newest(1000)[1]
        except EpsilonError as error:
            return [*found, str(error)]

    def published(self) -> list[Run]:
        """The published runs; those of an older engine only where there is none of today's, marked as outdated."""
        return list(self._published.runs)

    @property
    def _published(self) -> Published:
        every = published.read_all(self.settings.published)
        before, ours = self._seen
        if before is not every:
            ours = every.today()
            self._seen = every, ours  # at once: other threads read both
        return ours

    # Doing

    def submit(self, config: SimulationConfig, *, owner_pid: int | None = None) -> RunStatus:
        """Have a run computed in the background, unless it is done or under way already.

        owner_pid: a process with which the workers shall end. Raises InvalidConfig, CorpusError or VectorsMissing
        before anything is stored, ClusterError when it is stored and waits for workers that could not be started.
        """
        known = self.find(config)
        if known and known.status.state == RunState.DONE and not known.outdated:
            return known.status
        return self._submit(self.identity(config), config, owner_pid)

    def submit_again(self, config: SimulationConfig, *, owner_pid: int | None = None) -> RunStatus:
        """Have a run that is done computed once more beside the first, which stays as it is; one that is not done is
        submitted. A repetition that was done before makes room for the new one. Raises what :meth:`submit` raises, and
        InvalidConfig where the keys of the noise are gone."""
        known = self.find(config)
        if known is None or known.status.state != RunState.DONE or known.outdated:
            return self.submit(config, owner_pid=owner_pid)
        _refuse_again(known)
        again = repeat_id(known.run_id)
        with suppress(RunNotFound):
            if self._store.status(again).state == RunState.DONE:
                self.delete(again)
        return self._submit(again, config, owner_pid)

    def _submit(self, identity: str, config: SimulationConfig, owner_pid: int | None) -> RunStatus:
        from engine import dispatch, embeddings

        self.plan(config)
        embeddings.find(config.embeddings)
        self._store.submit(identity, config, corpus.checksum(config.corpus, self.settings))
        dispatch.ensure_cluster(self.settings, owner_pid)
        return self.status(identity)

    def submit_all(
        self, configs: Iterable[SimulationConfig], *, again: bool = False, owner_pid: int | None = None
    ) -> list[RunStatus]:
        """Have many runs computed, in this order, or computed again. Raises what :meth:`submit` raises, before any is
        stored if a configuration does not fit; what was stored is kept."""
        wanted, submit = list(configs), self.submit_again if again else self.submit
        for config in wanted:
            self.plan(config)
            known = self.find(config) if again else None
            if known and known.status.state == RunState.DONE and not known.outdated:
                _refuse_again(known)
        return [submit(config, owner_pid=owner_pid) for config in wanted]

    def cancel(self, identity: str) -> RunStatus:
        """Stop a run that waits or runs; what it recorded stays, and it can be taken up again. Raises RunNotFound."""
        self._store.cancel(identity)
        return self.status(identity)

    def delete(self, identity: str) -> None:
        """Forget one of the user's runs with its records, its note and its checkpoint. Raises RunNotFound, or
        InvalidConfig for a published run."""
        if identity in self._published.by_id:
            raise InvalidConfig(f"run {identity} is published: its file is in {self.settings.published.name}/")
        self._store.delete(identity)
        self._ends.pop(identity, None)
        checkpoint = self.settings.home / "checkpoints" / f"{identity}.npz"
        checkpoint.unlink(missing_ok=True)
        key_file.destroy(checkpoint.with_suffix(".key"))

    def write_note(self, identity: str, text: str) -> None:
        """Put a note beside one of the user's runs; an empty one removes it. Raises RunNotFound, InvalidConfig."""
        if len(text) > LONGEST_NOTE:
            raise InvalidConfig(f"the note has {len(text):,} characters, expected at most {LONGEST_NOTE:,}")
        self._store.write_note(identity, text.strip())

    def publish(self, identity: str) -> "Path":
        """Write a finished run to the folder of published results. Raises RunNotFound, InvalidConfig, StoreError."""
        if is_repeat(identity):
            raise InvalidConfig(f"run {identity} repeats another: the first one is what can be published")
        return published.write(self.get(identity), self.settings.published)

    def measurements(self) -> dict[str, Measurement]:
        """What the benchmarks measured and kept, by their names."""
        return measured.read_all(self.settings.published)

    def studies(self) -> dict[str, Study]:
        """Searches for a recipe by name, the user's own before the published ones."""
        return studies.read_all(self.settings.home, self.settings.published)

    def resume(self, *, owner_pid: int | None = None) -> None:
        """See that workers are there for runs that wait, or were left by an app that crashed. Raises ClusterError."""
        from engine import dispatch

        if self._store.unfinished():
            dispatch.ensure_cluster(self.settings, owner_pid)

    def close(self) -> None:
        """Let go of the database."""
        if "_store" in self.__dict__:
            self._store.close()

    # Before a run

    def plan(self, config: SimulationConfig) -> FederatedPlan:
        """What a run would do to the data. Raises InvalidConfig, CorpusError, StoreError."""
        return plan_of(config, self.settings)

    def preview(self, config: SimulationConfig) -> Preview:
        """What a run would be. The first ε of a process takes two seconds, unless it is already known of a run."""
        plan = self.plan(config)
        sentences = sum(map(len, plan.shards))
        shared = self.overlap(config)
        privacy = self._known_privacy(config, sentences) or spent(plan, plan.steps, len(plan.rounds))
        privacy = believable(privacy, shared)
        return Preview(
            privacy=privacy,
            tier=tier(privacy.epsilon),
            train_sentences=sentences,
            steps=plan.steps,
            warnings=(*shared.warnings, *plan.warnings()),
            estimated_seconds=self._estimate(config, sentences),
            overlap=shared,
        )

    def overlap(self, config: SimulationConfig) -> Overlap:
        """What the corpus shares with the sentences that its features were fitted on; nothing is known of a corpus
        that is not here. Raises StoreError."""
        try:
            return overlap(config.corpus, config.features, self.settings)
        except CorpusError:
            return NONE

    def holdings(self, config: SimulationConfig) -> Holdings:
        """Who would hold what. Raises InvalidConfig, CorpusError if the corpus is not here, StoreError."""
        plan, known = self.plan(config), chosen_layout(config, self.settings)
        return Holdings(
            sentences=tuple(map(len, plan.shards)),
            tokens=tuple(int(known.tokens[shard].sum()) for shard in plan.shards),
            types=known.types,
            entities=tuple(tuple(known.entities[shard].sum(0).tolist()) for shard in plan.shards),
        )

    def person_epsilon(self, config: SimulationConfig, sentences: int, last: RoundRecord | None = None) -> float | None:
        """ε of a person with so many of the sentences, wherever they lie, after the ``last`` record or at the end.

        None where no such figure is known: whole clients are protected, or batches are shuffled. Some tenths of a
        second at first; remembered. Raises InvalidConfig, CorpusError, StoreError.
        """
        from engine.privacy.groups import group_epsilon

        plan = self.plan(config)
        if plan.server or config.privacy.sampling != "poisson":
            return None
        taken = plan.taken(last.step if last else plan.steps)
        return group_epsilon(zip(plan.parts, taken, strict=True), sentences)

    def longest_document(self, name: str) -> int | None:
        """Sentences in the longest document of a corpus's training part; None if it has no documents or is not here.
        Raises StoreError."""
        try:
            documents = layout(name, self.settings).documents
        except CorpusError:
            return None
        return None if documents is None else int(np.unique(documents, return_counts=True)[1].max())

    def _known_privacy(self, config: SimulationConfig, sentences: int) -> PrivacySpent | None:
        """What a published run of the same plan has spent: a seed or a hidden size changes no ε."""
        if not _priced_by_sizes(config):
            return None
        for run in self.published():
            if (
                run.provenance
                and not run.outdated
                and _price(run.config, run.provenance.train_sentences) == _price(config, sentences)
            ):
                return run.records[-1].privacy
        return None

    def _estimate(self, config: SimulationConfig, sentences: int) -> float | None:
        """Seconds by the quickest known run of a tagger of this size, those on the same corpus first.

        About a third of a published run is scoring, which does not depend on how long it trains.
        """
        every = self.published()
        try:
            done, _ = self._store.newest(50, RunState.DONE)
        except EpsilonError:
            done = []  # what is wrong with the store is said elsewhere
        work = _work(config, sentences)
        known = [
            (
                run.config.corpus != config.corpus,
                run.provenance.wall_seconds * (0.3 + 0.7 * work / _work(run.config, run.provenance.train_sentences)),
            )
            for run in (*every, *done)
            if run.provenance and _layers(run.config) == _layers(config)
        ]
        return min(known)[1] if known else None

    # Corpora and vectors

    def corpora(self) -> list[CorpusInfo]:
        """The catalogue, the embedded corpus first."""
        return corpus.catalogue(self.settings)

    def corpus_overlap(self, name: str) -> Overlap | None:
        """What a corpus shares with the sentences that any features were fitted on; None if it cannot be read."""
        try:
            return overlap(name, FEATURES[-1], self.settings)
        except CorpusError:
            return None

    def add_corpus(self, filename: str, data: bytes) -> str:
        """Keep an uploaded column file; returns its name. Raises CorpusError, StoreError."""
        return corpus.add_upload(filename, data, self.settings)

    def train_sentences(self, name: str) -> int:
        """How many sentences a corpus has to train on. Raises CorpusError."""
        return corpus.train_sentences(name, self.settings)

    def fetch_corpus(self, name: str, progress: Callable[[float], None] = lambda share: None) -> None:
        """Download a public corpus. Raises CorpusError."""
        corpus.fetch(name, self.settings, progress)

    def vectors(self) -> list[str]:
        """Names of the installed word vectors."""
        from engine import embeddings

        return embeddings.installed()


def _preference(run: Run, wanted: SimulationConfig) -> tuple[bool, bool, bool, int]:
    config = run.config
    clips_only = not config.privacy.private and config.privacy.clip_norm is not None
    return clips_only, run.outdated, config.seed != wanted.seed, config.seed


def _refuse_again(run: Run) -> None:
    if run.config.privacy.noise_source == "system":
        raise InvalidConfig(
            f"run {run.run_id} has noise_source='system': its keys were destroyed when it ended, so it cannot be run "
            "again; another seed gives another run of the same setting"
        )


def _layers(config: SimulationConfig) -> tuple[object, ...]:
    """What decides how long a sentence takes."""
    tagger = config.tagger
    return config.features, tagger.name.split("-")[0], tagger.hidden_size, tagger.window


def _but_for_noise(config: SimulationConfig) -> SimulationConfig:
    """The configuration with a noise multiplier of 1 and seed 0, so that runs along a trade-off curve are equal."""
    clip_norm = config.privacy.clip_norm or DEFAULT_CLIP_NORM
    privacy = replace(config.privacy, noise_multiplier=1.0, clip_norm=clip_norm, noise_source="seeded")
    return replace(config, seed=0, privacy=privacy)


def _work(config: SimulationConfig, sentences: int) -> float:
    """Sentences that a run learns from, with repeats."""
    federation = config.federation
    share = (federation.participants or federation.clients) / federation.clients
    rounds = federation.rounds if federation.schedule == "averaging" else 1
    return max(1.0, config.training.epochs * sentences * rounds * share)


def _priced_by_sizes(config: SimulationConfig) -> bool:
    """Whether ε follows from settings and the number of sentences alone, whatever the seed and the words."""
    federation = config.federation
    return federation.participants is None and (
        federation.clients == 1 or federation.partition in ("random", "unequal")
    )


def _price(config: SimulationConfig, sentences: int) -> tuple[object, ...]:
    training = config.training
    return config.privacy, config.federation, training.batch_size, training.epochs, sentences
