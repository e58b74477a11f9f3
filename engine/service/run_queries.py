"""Published runs and the user's own, as one: found, listed, laid along a trade-off curve."""

import getpass
import math
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from engine import corpus as corpora
from engine.access import roles
from engine.access.roles import AuditLogEntry, Role, User
from engine.config import SimulationConfig, but_for_noise, but_for_seed, run_id
from engine.corpus import AnyCorpus
from engine.embeddings.contamination import NONE, Overlap, apply_contamination, overlap
from engine.errors import CorpusError, EpsilonError, NotAllowed, RunNotFound, StoreError
from engine.federated.plan import MASKED
from engine.records import PrivacySpent, RoundRecord, Run, RunKind, RunState, RunStatus
from engine.service.reproducibility import Rerun, RerunComparison, compare, repeat_id
from engine.settings import Settings
from engine.store import published, published_index
from engine.store.published import Published

if TYPE_CHECKING:
    from engine.access.access_store import AccessStore
    from engine.store.run_store import RunStore

LOOK_SECONDS = 0.5
"""For so long an answer holds that many sessions ask for all the time: how a run is that they follow."""

_MOST_ENDS = 20_000
"""Last records that are kept in memory, some 10 kB each."""


@dataclass(frozen=True)
class Overview:
    """A run in a list. last: its newest record, None before the first. note: of the user, empty if there is none.
    outcome: of one that repeats another, once both are done."""

    run: Run
    last_record: RoundRecord | None
    note: str
    comparison: RerunComparison | None = None


class RunQueries:
    """All runs of these settings, or those that there are for one person. Methods raise EpsilonError with a sentence
    for the user."""

    def __init__(self, settings: Settings, person: User | None = None) -> None:
        self.user = person
        # What nobody asks for, nobody opens: the database is not touched before a corpus of somebody's own is named.
        own = None if person is None or person.role.may(Role.ADMIN) else lambda: self._belongings.own_corpora()
        self.settings = replace(settings, own=own)
        self._final_records: dict[str, RoundRecord] = {}
        self._published_cache = (Published((), ()), Published((), ()))
        self._status_cache: dict[str, tuple[float, Run | StoreError]] = {}
        self._looking = threading.Lock()

    def for_user(self, person: User) -> Self:
        """The same for one person, for whom the runs and corpora of others are not there."""
        theirs = type(self)(self.settings, person)
        theirs.__dict__["_every"] = self._every
        return theirs

    @cached_property
    def _every(self) -> "RunStore":
        from engine.store.run_store import RunStore

        return RunStore(self.settings.store_url)

    @cached_property
    def _store(self) -> "RunStore":
        return self._every.for_user(self.user) if self.user else self._every

    @cached_property
    def _belongings(self) -> "AccessStore":
        from engine.access.access_store import AccessStore

        return AccessStore(self._store)

    @property
    def book(self) -> "RunStore":
        """The database, as the book of budgets (:mod:`engine.service.budget_service`)."""
        return self._store

    def authorize(self, deed: str, subject: str = "", needed: Role = Role.RUNNER) -> None:
        """Write down that somebody does this, where several people use the program, and refuse it to who may not.
        Raises NotAllowed, StoreError."""
        if self.settings.access is None:
            return
        if self.user is None:
            self._belongings.log_action(_at_the_shell(), deed, subject)
            return
        name = self.user.name
        role = roles.read(self.settings.access).role(name)  # as it is now, however long a page has been open
        self._belongings.log_action(name, deed, subject, refused=not role.may(needed))
        if not role.may(needed):
            raise NotAllowed(f"{name} is a {role} here, and this takes the role {needed}: {deed}.")

    def close(self) -> None:
        """Let go of the database."""
        if "_every" in self.__dict__:
            self._every.close()

    def note_sign_in(self) -> None:
        """Write down that the person came."""
        self.authorize("sign in", needed=Role.VIEWER)

    def require_owner(self, kind: str, name: str) -> None:
        """Nothing where a run or a corpus ("run", "corpus") is theirs to change. Raises NotAllowed."""
        if self.user:
            self._belongings.require_owner(kind, name)

    def seen(self, identities: Collection[str]) -> set[str]:
        """Those of these runs that are there for whoever asks, and any that were deleted, for who keeps the machine."""
        if self.user is None or self.user.role.may(Role.ADMIN):
            return set(identities)
        return set(identities) & (self._published.by_id.keys() | {run.run_id for run in self._store.newest(100_000)[0]})

    def share(self, kind: str, name: str, *, shared: bool) -> None:
        """Let everybody who may sign in see a run or use a corpus, or nobody else any longer. Raises NotAllowed."""
        self.authorize(f"share {kind}" if shared else f"keep {kind} private", name)
        self._belongings.share(kind, name, shared=shared)

    def shared(self, kind: str) -> frozenset[str]:
        """Names of the runs, or corpora, that everybody who may sign in may use."""
        return self._belongings.shared(kind)

    def audit_log(self, limit: int = 10_000) -> Sequence[AuditLogEntry]:
        """Who did what, newest first. Raises NotAllowed for all but those who keep the dashboard."""
        if self.user and not self.user.role.may(Role.ADMIN):
            raise NotAllowed(f"{self.user.name} is a {self.user.role} here, and the log is for admins.")
        return self._belongings.audit_log(limit)

    def corpus(self, config: SimulationConfig) -> AnyCorpus:
        """The corpus of a configuration, as it is now."""
        return corpora.of_run(config, self.settings)

    def identity(self, config: SimulationConfig) -> str:
        """The run that this configuration is. Raises CorpusError if its corpus is not here."""
        return run_id(config, self.corpus(config).checksum)

    def find(self, config: SimulationConfig) -> Run | None:
        """The run with this configuration, if it is published or stored in whatever state; else the published one of
        an older engine.

        Where the corpus is not here, a published run of the same configuration is taken at its word.
        """
        same = self._published.by_config.get(config, [])
        try:
            checksum = self.corpus(config).checksum
        except CorpusError:
            return same[0] if same else None
        known = next((run for run in same if run.provenance and run.provenance.corpus_checksum == checksum), None)
        if known and not known.outdated:
            return known
        try:
            return self._with_valid_epsilon(self._store.get(run_id(config, checksum)))
        except RunNotFound:
            return known
        except StoreError:
            if known:
                return known  # what is published can be seen all the same; problems() says what is wrong
            raise

    def get(self, identity: str) -> Run:
        """The run with its records so far. Raises RunNotFound."""
        return self._published.by_id.get(identity) or self._with_valid_epsilon(self._store.get(identity))

    def status(self, identity: str) -> RunStatus:
        """How the run is doing; cheap enough to be asked often. Raises RunNotFound."""
        known = self._published.by_id.get(identity)
        return known.status if known else self._store.status(identity)

    def rounds(self, identity: str, after: int = -1) -> tuple[RoundRecord, ...]:
        """The records of a run with a round greater than ``after``."""
        if known := self._published.by_id.get(identity):
            return tuple(record for record in known.records if record.round > after)
        return self._store.records(identity, after)

    def refresh(self, run: Run) -> Run:
        """A run of the store with what has been recorded since. Whoever follows it shares one look at the database,
        which is ``LOOK_SECONDS`` old at most; and its failure, which may have taken seconds. Raises RunNotFound."""
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
        status = self._store.status(run.run_id)
        new = self._store.records(run.run_id, run.records[-1].round if run.records else -1)
        return replace(run, status=status, records=(*run.records, *new))

    def recent(self, limit: int = 200, before: Run | None = None) -> list[Run]:
        """So many runs without their records, newest first; only those older than ``before``, where one is given."""
        place = _age(before) if before else None
        stored, _ = self._store.newest(limit, before=place and (-place[0], place[1]))
        known = {run.run_id for run in stored}
        published = (run for run in self.published() if run.run_id not in known and (not place or _age(run) > place))
        return sorted([*stored, *(replace(run, records=()) for run in published)], key=_age)[:limit]

    def count(self) -> int:
        """How many runs there are, published ones included; one that is stored too counts twice."""
        return self._store.number() + len(self._published.runs)

    def has_active(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self._store.newest(1, RunState.QUEUED, RunState.RUNNING)[0])

    def overview(self, limit: int = 5000, *, repeats: bool = False, before: Run | None = None) -> list[Overview]:
        """So many runs, newest first, each with its newest record; those that repeat or attack another only where asked
        for. before: as in :meth:`recent`."""
        every = [run for run in self.recent(limit, before) if repeats or run.kind == RunKind.RUN]
        there = self._published.by_id
        published = {run.run_id: there[run.run_id].records[-1] for run in every if run.run_id in there}
        known, notes = published | self._final_records, self._store.notes()
        new = self._store.last_records({run.run_id for run in every} - known.keys())
        # A run that has ended says nothing more, unless it is taken up again, which its state shows.
        ended = {run.run_id: new[run.run_id] for run in every if run.run_id in new and run.status.state == "done"}
        self._final_records = (self._final_records if len(self._final_records) < _MOST_ENDS else {}) | ended
        known |= new
        firsts = {repeat_id(run.run_id): known.get(run.run_id) for run in every if run.kind != RunKind.REPEAT}
        judged: dict[tuple[str, str], Overlap] = {}  # a corpus is looked for once, not for each of its runs
        return [
            Overview(
                run,
                self._believable(run.config, last, judged),
                notes.get(run.run_id, ""),
                compare(firsts.get(run.run_id), last),
            )
            for run in every
            for last in [known.get(run.run_id)]
        ]

    def repeated(self, firsts: Iterable[Run]) -> dict[str, Rerun]:
        """Of these runs those that were asked for once more, by their identity, and what came of it."""
        found = {}
        for first in firsts:
            with suppress(RunNotFound):
                again = self._store.get(repeat_id(first.run_id))
                found[first.run_id] = Rerun(again.status.state, compare(first.final, again.final))
        return found

    def runs_by_noise(self, config: SimulationConfig) -> list[Run]:
        """Finished runs that differ from ``config`` in their noise only, by ε, the largest last.

        One for each noise multiplier: of today's engine where there is one, that with the seed of ``config``, else that
        with the smallest seed; without noise the one that does not clip either.
        """
        try:
            found = {run.run_id: run for run in self._stored_done(config)}
        except EpsilonError:
            found = {}  # what is published can be seen all the same; problems() says what is wrong
        wanted = but_for_noise(config)
        found |= {run.run_id: run for run in self._published.alike(config) if but_for_noise(run.config) == wanted}
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
        """The runs of a configuration with whatever seed, done or under way, the smallest seed first: one for each, of
        today's engine where there is any."""
        wanted = but_for_seed(config)
        alike = [run for run in self._published.alike(config) if but_for_seed(run.config) == wanted]
        try:
            for run in self._store.newest(1000)[0]:
                under_way = not run.status.state.final or run.status.state == RunState.DONE
                same = but_for_seed(run.config) == wanted
                if same and under_way and run.kind == RunKind.RUN and run.run_id == self.identity(run.config):
                    alike.append(self.get(run.run_id))
        except EpsilonError:
            pass  # what is published can be seen all the same; problems() says what is wrong
        today = [run for run in alike if not run.outdated] or alike
        return sorted({run.config.seed: run for run in today}.values(), key=lambda run: run.config.seed)

    def _stored_done(self, config: SimulationConfig) -> list[Run]:
        done, _ = self._store.newest(1000, RunState.DONE)
        alike = [run for run in done if but_for_noise(run.config) == but_for_noise(config)]
        if not alike:
            return []
        try:  # an older corpus or engine would not be the same setting
            fresh = [run for run in alike if run.run_id == self.identity(run.config)]
        except CorpusError:
            return []
        return [run for run in map(self.get, (run.run_id for run in fresh)) if run.final]

    def _with_valid_epsilon(self, run: Run) -> Run:
        """One of the user's runs with the ε that may be believed."""
        return replace(run, records=tuple(filter(None, (self._believable(run.config, each) for each in run.records))))

    def _believable(
        self, config: SimulationConfig, record: RoundRecord | None, judged: dict[tuple[str, str], Overlap] | None = None
    ) -> RoundRecord | None:
        """The record, ε = ∞ where the features were fitted on its sentences, or names were masked by those of all
        platforms: older runs did not look at that. judged: what corpora and features share, as far as it is known; what
        is found out joins it."""
        if record is None or not config.privacy.private or math.isinf(record.privacy.epsilon):
            return record
        if config.federation.masked:
            why = f"{MASKED[0].upper()}{MASKED[1:]}: ε is ∞."
            nothing = PrivacySpent(epsilon=math.inf, delta=record.privacy.delta, assumptions=(why,))
            return replace(record, privacy=nothing)
        of, judged = (config.corpus, config.features), {} if judged is None else judged
        if of not in judged:
            judged[of] = self.overlap(config)
        privacy = apply_contamination(record.privacy, judged[of])
        return record if privacy is record.privacy else replace(record, privacy=privacy)

    def problems(self) -> list[str]:
        """What could not be read, a sentence each; nothing of it is touched."""
        found = list(self._files.problems)
        try:
            return found + self._store.newest(1000)[1]
        except EpsilonError as error:
            return [*found, str(error)]

    def published(self) -> list[Run]:
        """The published runs; those of an older engine only where there is none of today's, marked as outdated."""
        return list(self._published.runs)

    @property
    def _files(self) -> Published:
        return published.lately(self.settings.published, self.settings.home / published_index.NAME)

    @property
    def _published(self) -> Published:
        every = self._files
        before, ours = self._published_cache
        if before is not every:
            ours = every.today()
            self._published_cache = every, ours  # at once: other threads read both
        return ours

    def overlap(self, config: SimulationConfig) -> Overlap:
        """What the corpus shares with the sentences that its features were fitted on; nothing is known of a corpus
        that is not here. Raises StoreError."""
        try:
            return overlap(self.corpus(config), config.features)
        except CorpusError:
            return NONE


def _age(run: Run) -> tuple[float, str]:
    """Newest first; of those that were asked for at the same moment by identity, as the store has them."""
    return -(run.status.created or 0.0), run.run_id


def _at_the_shell() -> str:
    """Whoever may use this machine as the program's user may do everything, and is no person who signed in."""
    try:
        return f"shell: {getpass.getuser()}"[:64]
    except (KeyError, OSError):  # a user without a name, as in containers
        return "shell"


def _preference(run: Run, wanted: SimulationConfig) -> tuple[bool, bool, bool, int]:
    config = run.config
    clips_only = not config.privacy.private and config.privacy.clip_norm is not None
    return clips_only, run.outdated, config.seed != wanted.seed, config.seed
