"""The plan, ε, data split and duration of a run before it starts."""

import math
from contextlib import suppress
from typing import TYPE_CHECKING

from engine import corpus as corpora
from engine.config import SimulationConfig, with_noise
from engine.errors import CorpusError, EpsilonError, InvalidConfig
from engine.federated.plan import FederatedPlan, plan_of
from engine.records import RoundRecord, RunKind, RunState
from engine.service import run_preview
from engine.service.context import ServiceContext
from engine.service.run_preview import Holdings, Preview
from engine.service.run_queries import RunQueries

if TYPE_CHECKING:
    from engine.privacy.assumptions import Training


class PreviewService:
    """Plan a run without starting it. Methods raise EpsilonError with a sentence for the user."""

    def __init__(self, context: ServiceContext, queries: RunQueries) -> None:
        self._context, self._queries = context, queries

    def plan(self, config: SimulationConfig) -> FederatedPlan:
        """What a run would do to the data. Raises InvalidConfig, CorpusError, StoreError."""
        return plan_of(config, self._queries.corpus(config))

    def preview(self, config: SimulationConfig) -> Preview:
        """What a run would be, or, where its corpus is not here, what a published one was. The first ε of a process
        takes two seconds, unless it is already known of a run. Raises InvalidConfig, CorpusError, StoreError."""
        try:
            plan = self.plan(config)
        except CorpusError as error:
            run = self._queries.find(config)
            if run is None or not run.published:
                raise
            return run_preview.of_published(run, str(error))
        published = self._queries.published()
        try:
            done = [run for run in self._context.store.newest(50, RunState.DONE)[0] if run.kind != RunKind.AUDIT]
        except EpsilonError:
            done = []  # what is wrong with the store is said elsewhere
        return run_preview.preview(config, plan, self._queries.overlap(config), published, done)

    def noise_multiplier_for(self, config: SimulationConfig, target_epsilon: float) -> float:
        """The noise multiplier with which a run of this configuration costs at most so much. Takes seconds. Raises
        InvalidConfig where none does, CorpusError, StoreError."""
        from engine.federated import accounting

        private = config if config.privacy.private else with_noise(config, 1.0)
        if self._queries.overlap(config).breaks_privacy:
            raise InvalidConfig(f"target_epsilon={target_epsilon:g} cannot be reached: ε is ∞ with these features")
        return accounting.noise_multiplier_for(self.plan(private), target_epsilon)

    def holdings(self, config: SimulationConfig) -> Holdings:
        """Who would hold what. Raises InvalidConfig, CorpusError if the corpus is not here, StoreError."""
        return run_preview.holdings(self.plan(config), self._queries.corpus(config).layout, config.platforms)

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

    def scenario(self, identity: str) -> "Training":
        """What the ledger is of: a run that is done and promises what its plan says. Raises RunNotFound, StoreError,
        InvalidConfig where nothing is promised, or its corpus is not here to see who holds what."""
        from engine.federated import accounting
        from engine.privacy.assumptions import Training

        run = self._queries.get(identity)
        last = run.records[-1] if run.records else None
        if run.status.state != RunState.DONE:
            raise InvalidConfig(f"run={identity} is {run.status.state}: the ledger is of whole trainings")
        if last and last.noise_check and last.noise_check.failed:
            raise InvalidConfig(f"run={identity} failed its noise check, so nothing is promised")
        with suppress(CorpusError):
            if run.config.privacy.private and math.isinf(self.preview(run.config).privacy.epsilon):
                raise InvalidConfig(f"run={identity} promises nothing: its features were fitted on its own sentences")
            if run.provenance and self._queries.corpus(run.config).checksum == run.provenance.corpus_checksum:
                longest = self.longest_document(run.config.corpus)
                return accounting.training(run.config, self.plan(run.config), longest)
        return Training.of(run.config, run.provenance.train_sentences if run.provenance else 0)

    def longest_document(self, name: str) -> int | None:
        """Sentences in the longest document of a corpus's training part; None if it has no documents or is not here.
        Raises StoreError."""
        try:
            return run_preview.longest_document(corpora.resolve(name, self._context.settings).layout)
        except CorpusError:
            return None
