"""Published and stored runs as one list: find them, list them, order them by noise."""

import math
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from engine import corpus as corpora
from engine.config import SimulationConfig, but_for_noise, but_for_seed, run_id
from engine.corpus import AnyCorpus
from engine.corpus.files import corpus_names
from engine.embeddings.contamination import Overlap, apply_contamination, by_name, kind_of, overlap
from engine.errors import CorpusError, EpsilonError, RunNotFound, StoreError
from engine.federated.plan import MASKED
from engine.records import Measurement, PrivacySpent, RoundRecord, Run, RunKind, RunState, RunStatus, Study
from engine.service.context import ServiceContext
from engine.service.reproducibility import Rerun, RerunComparison, compare, repeat_id
from engine.store import benchmark_results, published, published_index, tuning_studies
from engine.store.published import Published

if TYPE_CHECKING:
    from engine.store.run_store import RunStore

_T = TypeVar("_T")
LOOK_SECONDS = 0.5
"""Seconds for which sessions that follow a run share one query."""

_MOST_ENDS = 20_000
"""Largest number of final records in memory, about 10 kB each."""


@dataclass(frozen=True)
class Overview:
    """A run in a list.

    Attributes:
        run: The run, without its records.
        last_record: Its newest record; None before the first.
        note: The user's note; empty without one.
        comparison: For a rerun, the comparison with its first run once both are done.
    """

    run: Run
    last_record: RoundRecord | None
    note: str
    comparison: RerunComparison | None = None


class RunQueries:
    """Read published and stored runs, as far as the user may see them. Methods raise EpsilonError with a sentence."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._final_records: dict[str, RoundRecord] = {}
        self._status_cache: dict[str, tuple[float, Run | StoreError]] = {}
        self._checksum_cache: dict[tuple[str, float, bool], tuple[float, str | None]] = {}
        self._looking = threading.Lock()

    def corpus(self, config: SimulationConfig, expected: str | None = None) -> AnyCorpus:
        """Return the corpus of a configuration in its current state, or that of an earlier run with its checksum."""
        return corpora.of_run(config, self._context.settings, expected)

    def identity(self, config: SimulationConfig) -> str:
        """Return the identity of the run of a configuration. Raises CorpusError if its corpus is not available."""
        return run_id(config, self.corpus(config).checksum)

    def overlap(self, config: SimulationConfig) -> Overlap:
        """Return the overlap of the corpus with the sentences that public parts were fitted on. Raises StoreError.

        Of a corpus that is not available, only its name is known.
        """
        try:
            return overlap(self.corpus(config), kind_of(config))
        except CorpusError:
            return by_name(config)

    def find(self, config: SimulationConfig) -> Run | None:
        """Return the published or stored run of a configuration, else the published one of an older engine.

        Without the corpus, a published run of the same configuration is returned unverified.
        """
        return self.find_all([config])[config]

    def find_all(self, configs: Iterable[SimulationConfig]) -> dict[SimulationConfig, Run | None]:
        """Return the result of :meth:`find` for each configuration, with one query for all that are not published."""
        found: dict[SimulationConfig, Run | None] = {}
        asked: dict[str, SimulationConfig] = {}
        for config in dict.fromkeys(configs):
            same = self.published_runs.by_config.get(config, [])
            checksum = self._checksum(config)
            if checksum is None:
                found[config] = same[0] if same else None
                continue
            of_corpus = (run for run in same if run.provenance and run.provenance.corpus_checksum == checksum)
            found[config] = known = next(of_corpus, None)
            if known is None or known.outdated:
                asked[run_id(config, checksum)] = config
        stored: Collection[str] = asked
        if len(asked) > 1:
            with suppress(StoreError):  # then each run is asked for, and published ones stay visible
                stored = self._context.store.existing(asked)
        for identity, config in asked.items():
            if identity not in stored:
                continue
            try:
                found[config] = self._with_valid_epsilon(self._context.store.get(identity))
            except RunNotFound:
                pass
            except StoreError:
                if found[config] is None:
                    raise  # else the published run stays visible; problems() reports the error
        return found

    def _checksum(self, config: SimulationConfig) -> str | None:
        """Return the checksum of a corpus, at most ``LOOK_SECONDS`` old; None without the corpus.

        A page asks for a hundred runs on few corpora, and must find their files each time.
        """
        key, now = corpora.variant(config), time.monotonic()
        at, checksum = self._checksum_cache.get(key, (-math.inf, None))
        if now - at > LOOK_SECONDS:
            try:
                checksum = self.corpus(config).checksum
            except CorpusError:
                checksum = None
            self._checksum_cache[key] = now, checksum
        return checksum

    def get(self, identity: str) -> Run:
        """Return a run with its records so far. Raises RunNotFound."""
        return self.published_runs.by_id.get(identity) or self._with_valid_epsilon(self._context.store.get(identity))

    def status(self, identity: str) -> RunStatus:
        """Return the status of a run; cheap enough for polling. Raises RunNotFound."""
        known = self.published_runs.by_id.get(identity)
        return known.status if known else self._context.store.status(identity)

    def rounds(self, identity: str, after: int = -1) -> tuple[RoundRecord, ...]:
        """Return the records of a run with a round above ``after``."""
        if known := self.published_runs.by_id.get(identity):
            return tuple(record for record in known.records if record.round > after)
        return self._context.store.records(identity, after)

    def refresh(self, run: Run) -> Run:
        """Return a stored run with its new records.

        All sessions that follow a run share one query, at most ``LOOK_SECONDS`` old, and its failure, which may have
        taken seconds. Raises RunNotFound, StoreError.
        """
        with self._looking:
            at, found = self._status_cache.get(run.run_id, (-math.inf, run))
            if time.monotonic() - at > LOOK_SECONDS:
                try:
                    found = self._look(run)
                except StoreError as error:
                    found = error
                self._status_cache = {
                    each: look for each, look in self._status_cache.items() if look[0] > time.monotonic() - 60
                }
                self._status_cache[run.run_id] = time.monotonic(), found
        if isinstance(found, StoreError):
            raise found
        return found if len(found.records) >= len(run.records) else replace(run, status=found.status)

    def _look(self, run: Run) -> Run:
        status = self._context.store.status(run.run_id)
        new = self._context.store.records(run.run_id, run.records[-1].round if run.records else -1)
        return replace(run, status=status, records=(*run.records, *new))

    def forget(self, identity: str) -> None:
        """Drop the cached state of a run that changes."""
        self._status_cache.pop(identity, None)
        self._final_records.pop(identity, None)

    def recent(self, limit: int = 200, before: Run | None = None) -> list[Run]:
        """Return up to ``limit`` runs without records, newest first; with ``before``, only older ones."""
        place = _age(before) if before else None
        stored, _ = self._context.store.newest(limit, before=place and (-place[0], place[1]))
        known = {run.run_id for run in stored}
        published = (run for run in self.published() if run.run_id not in known and (not place or _age(run) > place))
        return sorted([*stored, *(replace(run, records=()) for run in published)], key=_age)[:limit]

    def count(self) -> int:
        """Return the number of runs; a run that is both published and stored counts twice."""
        return self._context.store.number() + len(self.published_runs.runs)

    def has_active(self) -> bool:
        """Return whether any run is queued or running."""
        return bool(self._context.store.newest(1, RunState.QUEUED, RunState.RUNNING)[0])

    def overview(self, limit: int = 5000, *, repeats: bool = False, before: Run | None = None) -> list[Overview]:
        """Return up to ``limit`` runs with their newest record, newest first.

        Args:
            limit: Largest number of runs.
            repeats: Whether to include reruns and audits.
            before: Return only runs older than this one.
        """
        every = [run for run in self.recent(limit, before) if repeats or run.kind == RunKind.RUN]
        there = self.published_runs.by_id
        published = {run.run_id: there[run.run_id].records[-1] for run in every if run.run_id in there}
        known, notes = published | self._final_records, self._context.store.notes()
        new = self._context.store.last_records({run.run_id for run in every} - known.keys())
        # A finished run gets no more records unless it is resumed, which its state shows.
        ended = {run.run_id: new[run.run_id] for run in every if run.run_id in new and run.status.state == "done"}
        self._final_records = (self._final_records if len(self._final_records) < _MOST_ENDS else {}) | ended
        known |= new
        firsts = {repeat_id(run.run_id): known.get(run.run_id) for run in every if run.kind != RunKind.REPEAT}
        judged: dict[tuple[str, str], Overlap] = {}  # each corpus is checked once
        return [
            Overview(
                run,
                # A published ε is checked by tests: here, all corpora would be read for the first page of a new server.
                last if run.run_id in published else self._believable(run.config, last, judged),
                notes.get(run.run_id, ""),
                compare(firsts.get(run.run_id), last),
            )
            for run in every
            for last in [known.get(run.run_id)]
        ]

    def repeated(self, firsts: Iterable[Run]) -> dict[str, Rerun]:
        """Return the reruns of these runs, by the identity of the first run."""
        by_id, found = {repeat_id(first.run_id): first for first in firsts}, {}
        for identity in self._context.store.existing(by_id):
            with suppress(RunNotFound):  # deleted meanwhile
                again, first = self._context.store.get(identity), by_id[identity]
                found[first.run_id] = Rerun(again.status.state, compare(first.final, again.final))
        return found

    def runs_by_noise(self, config: SimulationConfig) -> list[Run]:
        """Return finished runs that differ from ``config`` only in their noise, smallest ε first.

        One run is returned for each noise multiplier. Runs of the current engine come before older ones, the seed of
        ``config`` before smaller seeds. Without noise, the run without clipping is returned.
        """
        try:
            found = {run.run_id: run for run in self._stored_done(config)}
        except EpsilonError:
            found = {}  # published runs stay visible; problems() reports the error
        wanted = but_for_noise(config)
        found |= {run.run_id: run for run in self.published_runs.alike(config) if but_for_noise(run.config) == wanted}
        by_noise: dict[float, Run] = {}
        for run in sorted(found.values(), key=lambda run: _preference(run, config)):
            check = run.records[-1].noise_check
            if check and check.failed:
                continue
            if run.config.privacy.private and math.isinf(run.records[-1].privacy.epsilon):
                continue  # the features were fitted on its sentences
            by_noise.setdefault(run.config.privacy.noise_multiplier, run)
        return sorted(by_noise.values(), key=lambda run: run.records[-1].privacy.epsilon)

    def seeds(self, config: SimulationConfig) -> list[Run]:
        """Return the finished and active runs of a configuration with any seed, smallest seed first.

        Each seed has one run, of the current engine if there is one.
        """
        wanted = but_for_seed(config)
        alike = [run for run in self.published_runs.alike(config) if but_for_seed(run.config) == wanted]
        try:
            for run in self._context.store.newest(1000)[0]:
                under_way = not run.status.state.final or run.status.state == RunState.DONE
                same = but_for_seed(run.config) == wanted
                if same and under_way and run.kind == RunKind.RUN and run.run_id == self.identity(run.config):
                    alike.append(self.get(run.run_id))
        except EpsilonError:
            pass  # published runs stay visible; problems() reports the error
        today = [run for run in alike if not run.outdated] or alike
        return sorted({run.config.seed: run for run in today}.values(), key=lambda run: run.config.seed)

    def visible(self, identities: Collection[str]) -> set[str]:
        """Return those of these identities that the user may see; the operator sees deleted ones too."""
        if self._context.sees_everything:
            return set(identities)
        return set(identities) & (
            self.published_runs.by_id.keys() | {run.run_id for run in self._context.store.newest(100_000)[0]}
        )

    def only_visible(self, found: dict[str, _T]) -> dict[str, _T]:
        """Return the items whose run the user may see."""
        seen = self.visible(found)
        return {identity: each for identity, each in found.items() if identity in seen}

    def require_visible(self, identity: str) -> None:
        """Raise RunNotFound for the run of another user."""
        if self._context.user and identity not in self.published_runs.by_id:
            self._context.store.status(identity)

    def runs_of(self, corpus: str | None = None) -> list[Run]:
        """Return the runs that the user may see, without records; with ``corpus``, only those on it or on its
        splits."""
        return self._runs_of(self._context.store, corpus)

    def runs_of_all_users(self, corpus: str | None = None) -> list[Run]:
        """Return the stored runs of all users, without records: charges to a corpus do not depend on the user."""
        return self._runs_of(self._context.all_users_store, corpus)

    def _runs_of(self, store: "RunStore", corpus: str | None) -> list[Run]:
        every = store.newest(100_000)[0]
        return [run for run in every if corpus is None or corpus in corpus_names(run.config.corpus)]

    def notes(self) -> dict[str, str]:
        """Return the notes of the runs that the user may see, by run identity."""
        return self._context.store.notes()

    def checksums(self) -> dict[str, str]:
        """Return the checksum of the corpus of each run that the user may see, at its submission."""
        return self._context.store.checksums()

    def measurements(self) -> dict[str, Measurement]:
        """Return the published benchmark results by name."""
        return benchmark_results.read_all(self._context.settings.published)

    def studies(self) -> dict[str, Study]:
        """Return hyperparameter searches by name; the operator's own replace published ones.

        Only the command line starts searches, so other users see published ones alone.
        """
        own = [self._context.settings.home] if self._context.sees_everything else []
        return tuning_studies.read_all(*own, self._context.settings.published)

    def problems(self) -> list[str]:
        """Return a sentence for each file or row that could not be read. Nothing is changed."""
        found = list(self._files.problems)
        try:
            return found + self._context.store.newest(1000)[1]
        except EpsilonError as error:
            return [*found, str(error)]

    def published(self) -> list[Run]:
        """Return the published runs; outdated ones only without a run of the current engine."""
        return list(self.published_runs.runs)

    @property
    def has_read_published(self) -> bool:
        """Whether this process has read the published runs."""
        return published.has_read(self._context.settings.published, self._context.settings.home / published_index.NAME)

    def _stored_done(self, config: SimulationConfig) -> list[Run]:
        done, _ = self._context.store.newest(1000, RunState.DONE)
        alike = [run for run in done if but_for_noise(run.config) == but_for_noise(config)]
        if not alike:
            return []
        try:  # an older corpus or engine would not be the same setting
            fresh = [run for run in alike if run.run_id == self.identity(run.config)]
        except CorpusError:
            return []
        return [run for run in map(self.get, (run.run_id for run in fresh)) if run.final]

    def _with_valid_epsilon(self, run: Run) -> Run:
        """Return a stored run with ε = ∞ where its ε is not valid."""
        return replace(run, records=tuple(filter(None, (self._believable(run.config, each) for each in run.records))))

    def _believable(
        self, config: SimulationConfig, record: RoundRecord | None, judged: dict[tuple[str, str], Overlap] | None = None
    ) -> RoundRecord | None:
        """Return a record, with ε = ∞ if its ε is not valid.

        It is not valid if the features were fitted on the corpus, or entities of all clients were masked. Older runs
        did not check this.

        Args:
            config: Configuration of the run.
            record: The record; None gives None.
            judged: Known overlaps by corpus and features; new ones are added.
        """
        if record is None or not config.privacy.private or math.isinf(record.privacy.epsilon):
            return record
        if config.federation.masked:
            why = f"{MASKED[0].upper()}{MASKED[1:]}: ε is ∞."
            nothing = PrivacySpent(epsilon=math.inf, delta=record.privacy.delta, assumptions=(why,))
            return replace(record, privacy=nothing)
        of, judged = (config.corpus, kind_of(config)), {} if judged is None else judged
        if of not in judged:
            judged[of] = self.overlap(config)
        privacy = apply_contamination(record.privacy, judged[of])
        return record if privacy is record.privacy else replace(record, privacy=privacy)

    @property
    def _files(self) -> Published:
        return published.lately(self._context.settings.published, self._context.settings.home / published_index.NAME)

    @property
    def published_runs(self) -> Published:
        """The index of published runs."""
        return self._files.today


def _age(run: Run) -> tuple[float, str]:
    """Return a sort key: newest first, equal times by identity as in the store."""
    return -(run.status.created or 0.0), run.run_id


def _preference(run: Run, wanted: SimulationConfig) -> tuple[bool, bool, bool, int]:
    config = run.config
    clips_only = not config.privacy.private and config.privacy.clip_norm is not None
    return clips_only, run.outdated, config.seed != wanted.seed, config.seed
