"""The one door to runs for pages and the command line.

Light to import: the database, Dask, TensorFlow, spaCy and dp_accounting are imported when they are first needed, the
middle three never in this process.
"""

import math
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeVar

from engine.access.roles import Role, User
from engine.config import SimulationConfig, with_noise
from engine.errors import CorpusError, EpsilonError, InvalidConfig, RunNotFound, StoreError
from engine.federated.plan import FederatedPlan, plan_of
from engine.records import Audit, Measurement, RoundRecord, Run, RunKind, RunState, RunStatus, Study
from engine.settings import Settings
from engine.store import audits, benchmark_results, noise_keys, paths, published, published_models, tuning_studies

if TYPE_CHECKING:
    from pathlib import Path

    from engine.privacy.assumptions import Training
    from engine.training.model import Model

from engine.service import reproducibility, run_preview, tagging_client
from engine.service.corpus_service import Corpora
from engine.service.run_preview import Holdings, Preview
from engine.service.tagging_client import AvailableModel, TaggingClient, TaggingResult

LONGEST_NOTE = 2000
"""Characters."""
_DEEDS = {RunKind.RUN: "run", RunKind.REPEAT: "run again", RunKind.AUDIT: "audit"}
_T = TypeVar("_T")


class Application(Corpora):
    """What can be asked of runs and done with them. Methods raise EpsilonError with a sentence for the user."""

    @classmethod
    def from_environment(cls) -> "Application":
        """The runs of this machine's settings."""
        return cls(Settings.from_environment())

    def submit(self, config: SimulationConfig, *, owner_pid: int | None = None, batch: bool = False) -> RunStatus:
        """Have a run computed in the background, unless it is done or under way already.

        owner_pid: a process with which the workers shall end. batch: whether nobody waits for it, so that it
        comes after all that somebody does. Raises InvalidConfig, CorpusError or VectorsMissing before anything is
        stored, ClusterError when it is stored and waits for workers that could not be started.
        """
        known = self.find(config)
        if known and known.status.state == RunState.DONE and not known.outdated:
            return known.status
        return self._submit(self.identity(config), config, owner_pid, batch=batch)

    def resubmit(self, config: SimulationConfig, *, owner_pid: int | None = None, batch: bool = False) -> RunStatus:
        """Have a run that is done computed once more beside the first, which stays as it is; one that is not done is
        submitted. A repetition that was done before makes room for the new one. Raises what :meth:`submit` raises, and
        InvalidConfig where the keys of the noise are gone."""
        known = self.find(config)
        if known is None or known.status.state != RunState.DONE or known.outdated:
            return self.submit(config, owner_pid=owner_pid, batch=batch)
        reproducibility.refuse_again(known)
        again = reproducibility.repeat_id(known.run_id)
        with suppress(RunNotFound):
            if self._store.status(again).state == RunState.DONE:
                self.delete(again)
        return self._submit(again, config, owner_pid, RunKind.REPEAT, known.run_id, batch)

    def _submit(
        self,
        identity: str,
        config: SimulationConfig,
        owner_pid: int | None,
        kind: RunKind = RunKind.RUN,
        parent: str | None = None,
        batch: bool = False,
    ) -> RunStatus:
        from engine import embeddings
        from engine.cluster import supervisor
        from engine.service import budget_service

        self.authorize(_DEEDS[kind], identity)
        plan = self.plan(config)
        embeddings.find(config.embeddings)
        if own := embeddings.own_in_context(config.language_model, self.settings):
            _ = own.model  # refused here and now, not by a worker
        handle = self.corpus(config)
        handle.share()
        if kind == RunKind.AUDIT:
            wishes = budget_service.unprotected_accesses(self, identity, config, budget_service.AUDIT)
        else:
            wishes = budget_service.charge_requests(self, parent or identity, identity, config, plan)
        store = self._store
        store.submit(identity, config, handle.checksum, kind=kind, parent=parent, wishes=wishes, batch=batch)
        supervisor.ensure_cluster(self.settings, owner_pid)
        return self.status(identity)

    def submit_audit(self, identity: str, run: Run, owner_pid: int | None) -> RunStatus:
        """See :func:`engine.service.audit_jobs.submit`."""
        return self._submit(identity, run.config, owner_pid, RunKind.AUDIT, run.run_id)

    def submit_all(
        self,
        configs: Iterable[SimulationConfig],
        *,
        again: bool = False,
        owner_pid: int | None = None,
        batch: bool = False,
    ) -> list[RunStatus]:
        """Have many runs computed, in this order, or computed again. batch: whether they come after all that somebody
        waits for. Raises what :meth:`submit` raises, before any is stored if a configuration does not fit; what was
        stored is kept."""
        wanted, submit = list(configs), self.resubmit if again else self.submit
        for config in wanted:
            self.plan(config)
            known = self.find(config) if again else None
            if known and known.status.state == RunState.DONE and not known.outdated:
                reproducibility.refuse_again(known)
        return [submit(config, owner_pid=owner_pid, batch=batch) for config in wanted]

    def cancel(self, identity: str) -> RunStatus:
        """Stop a run that waits or runs; what it recorded stays, and it can be taken up again. Raises RunNotFound,
        NotAllowed where it is somebody else's too."""
        self.authorize("cancel", identity)
        self._store.cancel(identity)
        self._status_cache.pop(identity, None)
        return self.status(identity)

    def delete(self, identity: str) -> None:
        """Forget one of the user's runs with its records, its note, its checkpoint, its taggers and its audit. Raises
        RunNotFound, NotAllowed, or InvalidConfig for a published run."""
        if identity in self._published.by_id:
            raise InvalidConfig(f"run {identity} is published: its file is in {self.settings.published.name}/")
        self.authorize("delete", identity)
        self._final_records.pop(identity, None)
        if not self._store.delete(identity):
            return
        for name in (paths.checkpoint_name(identity), audits.name_of(identity)):
            self.settings.artefacts.remove(name)
        self._forget_models([identity])
        noise_keys.destroy(paths.key_path(self.settings, identity))

    def write_note(self, identity: str, text: str) -> None:
        """Put a note beside one of the user's runs; an empty one removes it. Raises RunNotFound, NotAllowed,
        InvalidConfig."""
        self.authorize("note", identity)
        if len(text) > LONGEST_NOTE:
            raise InvalidConfig(f"the note has {len(text):,} characters, expected at most {LONGEST_NOTE:,}")
        self._store.write_note(identity, text.strip())

    def publish(self, identity: str, *, model: bool = False) -> "Path":
        """Write a finished run to the folder of published results, and its tagger beside it where wanted (``model``,
        weights in float16). Raises RunNotFound, InvalidConfig, NotAllowed, StoreError."""
        self.authorize("publish", identity, Role.ADMIN)
        run = self.get(identity)
        if run.kind != RunKind.RUN:
            raise InvalidConfig(f"run {identity} repeats another: the first one is what can be published")
        path = published.write(run, self.settings.published)
        for platform in range(len(run.config.platforms) or 1) if model else ():
            name = paths.model_name(identity, platform)
            published_models.write(self.model(identity, platform), name, self.settings.published)
        return path

    def measurements(self) -> dict[str, Measurement]:
        """What the benchmarks measured and kept, by their names."""
        return benchmark_results.read_all(self.settings.published)

    def audits(self) -> dict[str, Audit]:
        """What was measured of privacy, by the run with the same configuration: the user's own before published
        ones."""
        self.settings.artefacts.sync_folder(audits.FOLDER)
        return audits.read_all(self.settings.published) | self._seen_of(audits.read_all(self.settings.artefacts.folder))

    def scenario(self, identity: str) -> "Training":
        """What the ledger is of: a run that is done and promises what its plan says. Raises RunNotFound, StoreError,
        InvalidConfig where nothing is promised, or its corpus is not here to see who holds what."""
        from engine.federated import accounting
        from engine.privacy.assumptions import Training

        run = self.get(identity)
        last = run.records[-1] if run.records else None
        if run.status.state != RunState.DONE:
            raise InvalidConfig(f"run={identity} is {run.status.state}: the ledger is of whole trainings")
        if last and last.noise_check and last.noise_check.failed:
            raise InvalidConfig(f"run={identity} failed its noise check, so nothing is promised")
        with suppress(CorpusError):
            if run.config.privacy.private and math.isinf(self.preview(run.config).privacy.epsilon):
                raise InvalidConfig(f"run={identity} promises nothing: its features were fitted on its own sentences")
            if run.provenance and self.corpus(run.config).checksum == run.provenance.corpus_checksum:
                longest = self.longest_document(run.config.corpus)
                return accounting.training(run.config, self.plan(run.config), longest)
        return Training.of(run.config, run.provenance.train_sentences if run.provenance else 0)

    def save_audit(self, audit: Audit) -> None:
        """Keep it in place of an earlier one; a look at its corpus. Raises StoreError."""
        from engine.service import budget_service

        self.authorize("audit", audit.run_id)
        audits.write(audit, self.settings.artefacts)
        budget_service.book(
            self, budget_service.unprotected_accesses(self, audit.run_id, audit.config, budget_service.AUDIT)
        )

    def model(self, identity: str, platform: int = 0) -> "Model":
        """The tagger of a run that is done, or of one of its platforms, counted from 0: the user's own, else a
        published one. Raises RunNotFound if none was kept, StoreError, also where the file is another run's."""
        from engine.training.model import Model

        self._require_visible(identity)
        name = paths.model_name(identity, platform)
        if path := self.settings.artefacts.get(name):
            model = Model.load(path)
            if identity not in (model.run_id, reproducibility.repeat_id(model.run_id)):
                raise StoreError(f"The tagger {path.name} is refused: it is that of run {model.run_id}.")
            return model
        if not (self.settings.published / name).is_file():
            raise RunNotFound(f"run {identity} has no tagger that was kept: run it again to have one")
        return published_models.read(name, self.settings.published)

    def has_model(self, identity: str) -> bool:
        """Whether the tagger of a run is here, kept or published. Raises RunNotFound, StoreError."""
        self._require_visible(identity)
        name = paths.model_name(identity)
        return bool(self.settings.artefacts.get(name)) or (self.settings.published / name).is_file()

    def available_models(self) -> list[AvailableModel]:
        """The taggers that any text can be tagged with: the published ones, then those of the user's own runs. Raises
        StoreError."""
        return tagging_client.available_models(self)

    def tag(
        self, text: str, identities: Collection[str], tell: Callable[[str], None] = lambda stage: None
    ) -> TaggingResult:
        """What the taggers of these runs say of a text, in a process of its own: seconds at first, then one for 500
        words. tell: is told what is going on. Raises InvalidConfig, RunNotFound, TrainingFailed."""
        for identity in identities:
            self._require_visible(identity)
        return self._tagging_client.tag(text, identities, tell)

    @cached_property
    def _tagging_client(self) -> TaggingClient:
        return TaggingClient(self.settings)

    def for_user(self, person: User) -> Self:
        """See :meth:`Catalogue.of`; all of them ask at one desk."""
        theirs = super().for_user(person)
        theirs.__dict__["_desk"] = self._tagging_client
        return theirs

    def close(self) -> None:
        """Let go of the database, and of the process that tags."""
        if "_desk" in self.__dict__:
            self._tagging_client.close()
        super().close()

    def models(self) -> dict[str, int]:
        """Bytes of the taggers that each run has kept. Raises StoreError."""
        found: dict[str, int] = {}
        for name, size in self.settings.artefacts.sizes(paths.MODELS).items():
            run = paths.run_of_model(name)
            found[run] = found.get(run, 0) + size
        return self._seen_of(found)

    def forget_models(self, identities: Iterable[str] | None = None) -> None:
        """Remove the taggers of these runs, by default all that were kept; runs and records stay. Raises NotAllowed,
        StoreError."""
        if identities is None:
            self.authorize("forget taggers", "all", Role.ADMIN)
        else:
            identities = list(identities)
            for identity in identities:
                self.authorize("forget taggers", identity)
                self.require_owner("run", identity)
        self._forget_models(identities)

    def _forget_models(self, identities: Iterable[str] | None) -> None:
        wanted = None if identities is None else set(identities)
        for name in self.settings.artefacts.sizes(paths.MODELS):
            if wanted is None or paths.run_of_model(name) in wanted:
                self.settings.artefacts.remove(name)

    def _require_visible(self, identity: str) -> None:
        """Raise RunNotFound for somebody else's run."""
        if self.user and identity not in self._published.by_id:
            self._store.status(identity)

    def _seen_of(self, found: dict[str, _T]) -> dict[str, _T]:
        """Without what belongs to somebody else's runs."""
        seen = self.seen(found)
        return {identity: each for identity, each in found.items() if identity in seen}

    def studies(self) -> dict[str, Study]:
        """Searches for a recipe by name, the user's own before the published ones. The shell alone can make any, so of
        those who sign in admins see them."""
        own = [] if self.user and not self.user.role.may(Role.ADMIN) else [self.settings.home]
        return tuning_studies.read_all(*own, self.settings.published)

    def resume(self, *, owner_pid: int | None = None) -> None:
        """See that workers are there for runs that wait, or were left by an app that crashed. Raises ClusterError."""
        from engine.cluster import supervisor

        if self._store.unfinished():
            supervisor.ensure_cluster(self.settings, owner_pid)

    # Before a run

    def plan(self, config: SimulationConfig) -> FederatedPlan:
        """What a run would do to the data. Raises InvalidConfig, CorpusError, StoreError."""
        return plan_of(config, self.corpus(config))

    def preview(self, config: SimulationConfig) -> Preview:
        """What a run would be, or, where its corpus is not here, what a published one was. The first ε of a process
        takes two seconds, unless it is already known of a run. Raises InvalidConfig, CorpusError, StoreError."""
        try:
            plan = self.plan(config)
        except CorpusError as error:
            run = self.find(config)
            if run is None or not run.published:
                raise
            return run_preview.of_published(run, str(error))
        published = self.published()
        try:
            done = [run for run in self._store.newest(50, RunState.DONE)[0] if run.kind != RunKind.AUDIT]
        except EpsilonError:
            done = []  # what is wrong with the store is said elsewhere
        return run_preview.preview(config, plan, self.overlap(config), published, done)

    def noise_multiplier_for(self, config: SimulationConfig, target_epsilon: float) -> float:
        """The noise multiplier with which a run of this configuration costs at most so much. Takes seconds. Raises
        InvalidConfig where none does, CorpusError, StoreError."""
        from engine.federated import accounting

        private = config if config.privacy.private else with_noise(config, 1.0)
        if self.overlap(config).breaks_privacy:
            raise InvalidConfig(f"target_epsilon={target_epsilon:g} cannot be reached: ε is ∞ with these features")
        return accounting.noise_multiplier_for(self.plan(private), target_epsilon)

    def holdings(self, config: SimulationConfig) -> Holdings:
        """Who would hold what. Raises InvalidConfig, CorpusError if the corpus is not here, StoreError."""
        return run_preview.holdings(self.plan(config), self.corpus(config).layout, config.platforms)

    def person_epsilon(self, config: SimulationConfig, sentences: int, last: RoundRecord | None = None) -> float | None:
        """ε of a person with so many of the sentences, wherever they lie, after the ``last`` record or at the end.

        None where no such figure is known: whole clients are protected, or batches are shuffled. Some tenths of a
        second at first; remembered. Raises InvalidConfig, CorpusError, StoreError.
        """
        from engine.privacy.group_privacy import group_epsilon

        plan = self.plan(config)
        if plan.server or config.privacy.sampling != "poisson":
            return None
        taken = plan.taken(last.step if last else plan.steps)
        return group_epsilon(zip(plan.parts, taken, strict=True), sentences)
