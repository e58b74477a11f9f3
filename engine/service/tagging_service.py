"""Tagging any text with published and saved taggers."""

from collections.abc import Callable, Collection

from engine.records import RunKind
from engine.service.model_service import ModelService
from engine.service.run_queries import RunQueries
from engine.service.tagging_client import AvailableModel, TaggingClient, TaggingResult
from engine.tagging import published_taggers


class TaggingService:
    """List taggers and tag texts. Methods raise EpsilonError with a sentence for the user."""

    def __init__(self, queries: RunQueries, models: ModelService, client: TaggingClient) -> None:
        self._queries, self._models, self._client = queries, models, client

    def available_models(self) -> list[AvailableModel]:
        """Return the published taggers, the largest ε first, then those that the user's own runs have saved.

        Runs of several silos are left out, since they have a tagger for each. Raises StoreError.
        """
        by_config = {run.config: run for run in self._queries.published()}
        named = [(name, by_config.get(config)) for name, config in published_taggers.published().items()]
        published = [AvailableModel(run, name) for name, run in named if run and self._models.exists(run.run_id)]
        listed, saved = {model.run.run_id for model in published}, self._models.sizes()
        own = [
            run
            for run in (self._queries.recent(5000) if saved else [])
            if run.run_id in saved and run.run_id not in listed and run.kind == RunKind.RUN and not run.config.platforms
        ]
        return [*published, *(AvailableModel(self._queries.get(run.run_id), None) for run in own)]

    def tag(
        self, text: str, identities: Collection[str], on_progress: Callable[[str], None] = lambda stage: None
    ) -> TaggingResult:
        """Tag a text with the taggers of these runs, in a process of its own.

        The first text takes seconds, later ones a second for 500 words.

        Args:
            text: At most ``MOST_CHARACTERS`` characters.
            identities: Of the runs whose taggers are asked.
            on_progress: Called with each stage; it may raise to leave the request.

        Raises:
            InvalidConfig: The text is empty or too long.
            RunNotFound: A run belongs to another user.
            TrainingFailed: The process broke down.
        """
        for identity in identities:
            self._queries.require_visible(identity)
        return self._client.tag(text, identities, on_progress)
