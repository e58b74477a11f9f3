"""The plan, ε, data split and duration of a run before it starts."""

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from engine import corpus as corpora
from engine.config import PARAMETERS, SimulationConfig, with_noise
from engine.config.mechanism_registry import ZERO_OUT
from engine.errors import CorpusError, EpsilonError, InvalidConfig
from engine.federated.plan import FederatedPlan, plan_of
from engine.records import RoundRecord, Run, RunKind, RunState
from engine.service import run_preview
from engine.service.context import ServiceContext
from engine.service.run_preview import Holdings, Preview
from engine.service.run_queries import RunQueries
from engine.simulation.pretrained_head import require_common_types

if TYPE_CHECKING:
    from engine.privacy.assumptions import Training


class PreviewService:
    """Plan a run without starting it. Methods raise EpsilonError with a sentence for the user."""

    def __init__(self, context: ServiceContext, queries: RunQueries) -> None:
        self._context, self._queries = context, queries

    def plan(self, config: SimulationConfig) -> FederatedPlan:
        """Return the plan of a run. Raises InvalidConfig, CorpusError, StoreError."""
        corpus = self._queries.corpus(config)
        if config.public_head:
            with suppress(CorpusError):  # without its sentences, the types are checked before the run
                require_common_types(config.public_head, {name for part in corpus.parts for name in part.layout.types})
        return plan_of(config, corpus)

    def _published(self, config: SimulationConfig) -> Run | None:
        run = self._queries.find(config)
        return run if run and run.published else None

    def preview(self, config: SimulationConfig) -> Preview:
        """Return the preview of a run or, without its corpus, the values of its published run.

        The first ε of a process takes two seconds unless a run has it already. Raises InvalidConfig, CorpusError,
        StoreError.
        """
        try:
            plan = self.plan(config)
        except CorpusError as error:
            if run := self._published(config):
                return run_preview.of_published(run, str(error))
            if self._published(replace(config, federation=replace(config.federation, partition="random"))):
                label = PARAMETERS["partition"].option_label("random")
                raise CorpusError(
                    f"{str(error).removesuffix('.')}. A published run can be shown without it: choose the data "
                    f"partition '{label}'."
                ) from error
            raise
        published = self._queries.published()
        try:
            done = [run for run in self._context.store.newest(50, RunState.DONE)[0] if run.kind != RunKind.AUDIT]
        except EpsilonError:
            done = []  # problems() reports the error
        declared = self._queries.corpus(config).declared
        return run_preview.preview(config, plan, self._queries.overlap(config), declared, published, done)

    def noise_multiplier_for(self, config: SimulationConfig, target_epsilon: float) -> float:
        """Return the smallest noise multiplier with which a run has at most ``target_epsilon``; takes seconds.

        Raises:
            InvalidConfig: No noise multiplier reaches the target.
            CorpusError: The corpus is not available.
            StoreError: The database failed.
        """
        from engine.federated import accounting

        private = config if config.privacy.private else with_noise(config, 1.0)
        if self._queries.overlap(config).breaks_privacy:
            raise InvalidConfig(f"target_epsilon={target_epsilon:g} cannot be reached: ε is ∞ with these features")
        return accounting.noise_multiplier_for(self.plan(private), target_epsilon)

    def holdings(self, config: SimulationConfig) -> Holdings:
        """Return the split of the data among clients. Raises InvalidConfig, CorpusError, StoreError."""
        return run_preview.holdings(self.plan(config), self._queries.corpus(config).layout, config.platforms)

    def person_epsilon(self, config: SimulationConfig, sentences: int, last: RoundRecord | None = None) -> float | None:
        """Return ε of a person with ``sentences`` training sentences, anywhere (group privacy).

        It is None for client-level privacy and for shuffled batches, for which no value is known. The first value takes
        some tenths of a second.

        Args:
            config: The configuration.
            sentences: Number of sentences of the person.
            last: Record up to which ε is computed; by default the end.

        Raises:
            InvalidConfig: The configuration is not valid.
            CorpusError: The corpus is not available.
            StoreError: The database failed.
        """
        from engine.privacy.group_privacy import group_epsilon

        plan = self.plan(config)
        if plan.server or config.privacy.sampling != "poisson":
            return None
        taken = plan.taken(last.step if last else plan.steps)
        return group_epsilon(zip(plan.parts, taken, strict=True), sentences)

    def scenario(self, identity: str) -> "Training":
        """Return the training whose ε can be computed under other assumptions.

        Raises:
            RunNotFound: There is no such run.
            InvalidConfig: The run is not finished, has no privacy guarantee, or needs its corpus for the split among
                clients.
            StoreError: The database failed.
        """
        from engine.federated import accounting
        from engine.privacy.assumptions import Training

        run = self._queries.get(identity)
        last = run.records[-1] if run.records else None
        if run.status.state != RunState.DONE:
            raise InvalidConfig(
                f"run={identity} is {run.status.state}: assumptions can be changed for finished runs only"
            )
        if last and last.noise_check and last.noise_check.failed:
            raise InvalidConfig(f"run={identity} failed its noise check, so it has no privacy guarantee")
        with suppress(CorpusError):
            if run.config.privacy.private and math.isinf(self.preview(run.config).privacy.epsilon):
                raise InvalidConfig(
                    f"run={identity} has no privacy guarantee: its features or initial weights were fitted on its "
                    "sentences"
                )
            if run.provenance and self._queries.corpus(run.config).checksum == run.provenance.corpus_checksum:
                longest = self.longest_document(run.config.corpus)
                return accounting.training(run.config, self.plan(run.config), longest)
        training = Training.of(run.config, run.provenance.train_sentences if run.provenance else 0)
        # Without the corpus, only the record knows whether this program split it.
        moved = last is not None and last.privacy.neighbouring == ZERO_OUT
        return replace(training, moves_sentences=moved or training.moves_sentences)

    def longest_document(self, name: str) -> int | None:
        """Return the number of sentences in the longest training document; None without documents or corpus.

        Raises StoreError.
        """
        try:
            return run_preview.longest_document(corpora.resolve(name, self._context.settings).layout)
        except CorpusError:
            return None
