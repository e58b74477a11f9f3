"""Trained taggers that runs have saved."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.access.roles import Role
from engine.errors import RunNotFound, StoreError
from engine.service import reproducibility
from engine.service.access_service import AccessService
from engine.service.context import ServiceContext
from engine.service.run_queries import RunQueries
from engine.store import paths, published_models

if TYPE_CHECKING:
    from engine.training.model import Model


class ModelService:
    """Load and delete saved taggers. Methods raise EpsilonError with a sentence for the user."""

    def __init__(self, context: ServiceContext, access: AccessService, queries: RunQueries) -> None:
        self._context, self._access, self._queries = context, access, queries

    def load(self, identity: str, platform: int = 0) -> "Model":
        """Load the tagger of a finished run: the user's own, else a published one.

        Args:
            identity: Identity of the run.
            platform: Index of the client, for a run of several silos.

        Raises:
            RunNotFound: The run has no saved tagger.
            StoreError: The file is damaged, or belongs to another run.
        """
        from engine.training.model import Model

        self._queries.require_visible(identity)
        name = paths.model_name(identity, platform)
        if path := self._context.settings.artefacts.get(name):
            model = Model.load(path)
            if model.run_id not in (None, identity) and identity != reproducibility.repeat_id(str(model.run_id)):
                raise StoreError(f"The tagger {path.name} is refused: it belongs to run {model.run_id}.")
        elif (self._context.settings.published / name).is_file():
            model = published_models.read(name, self._context.settings.published)
        else:
            raise RunNotFound(f"run {identity} has no saved tagger: rerun it to create one")
        if model.run_id is None:
            if model.config != self._queries.get(identity).config:
                raise StoreError(f"The tagger {name} is refused: it has other settings than run {identity}.")
            return replace(model, run_id=identity)
        return model

    def exists(self, identity: str) -> bool:
        """Return whether the tagger of a run is saved or published. Raises RunNotFound, StoreError."""
        self._queries.require_visible(identity)
        name = paths.model_name(identity)
        return bool(self._context.settings.artefacts.get(name)) or (self._context.settings.published / name).is_file()

    def sizes(self) -> dict[str, int]:
        """Return the size of the saved taggers of each run, in bytes. Raises StoreError."""
        found: dict[str, int] = {}
        for name, size in self._context.settings.artefacts.sizes(paths.MODELS).items():
            run = paths.run_of_model(name)
            found[run] = found.get(run, 0) + size
        return self._queries.only_visible(found)

    def delete(self, identities: Iterable[str] | None = None) -> None:
        """Delete the taggers of these runs, by default all; runs and records stay. Raises NotAllowed, StoreError."""
        if identities is None:
            self._access.authorize("forget taggers", "all", Role.ADMIN)
        else:
            identities = list(identities)
            for identity in identities:
                self._access.authorize("forget taggers", identity)
                self._access.require_owner("run", identity)
        self.remove(identities)

    def remove(self, identities: Iterable[str] | None) -> None:
        """Remove saved taggers without asking for permission; None removes all of them."""
        wanted = None if identities is None else set(identities)
        for name in self._context.settings.artefacts.sizes(paths.MODELS):
            if wanted is None or paths.run_of_model(name) in wanted:
                self._context.settings.artefacts.remove(name)
