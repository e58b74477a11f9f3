"""Listing, uploading, renaming and deleting corpora."""

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from engine import corpus as corpora
from engine.config.feature_registry import MOST_FITTED
from engine.corpus import CorpusInfo, derived_files, files, uploads
from engine.corpus.declared_types import REFUSE, DeclaredTypes, described
from engine.corpus.sentences import Sentence
from engine.embeddings import custom_model
from engine.embeddings.contamination import Overlap, overlap
from engine.errors import CorpusError, InvalidConfig, NotAllowed
from engine.service import corpus_import, corpus_statistics
from engine.service.access_service import AccessService
from engine.service.context import ServiceContext
from engine.service.corpus_import import ImportSummary
from engine.service.corpus_statistics import CorpusStatistics
from engine.service.run_queries import RunQueries
from engine.service.run_service import RunService


class CorpusService:
    """List and change corpora. Methods raise EpsilonError with a sentence for the user."""

    def __init__(self, context: ServiceContext, access: AccessService, queries: RunQueries, runs: RunService) -> None:
        self._context, self._access, self._queries, self._runs = context, access, queries, runs

    def all(self) -> list[CorpusInfo]:
        """Return the catalogue, the embedded corpus first."""
        return corpora.catalogue(self._context.settings)

    def statistics(self, name: str) -> CorpusStatistics:
        """Return the statistics of a corpus and its overlap with others. Raises CorpusError."""
        return corpus_statistics.compute_statistics(name, self._context.settings)

    def overlap(self, name: str) -> Overlap | None:
        """Return the overlap of a corpus with the training data of any features; None if it cannot be read."""
        try:
            return overlap(corpora.resolve(name, self._context.settings), MOST_FITTED.name)
        except CorpusError:
            return None

    def inspect(self, filename: str, data: bytes, tell: Callable[[str], None] = lambda stage: None) -> ImportSummary:
        """Read a file to upload in a separate process, and save nothing. Raises CorpusError, NotAllowed, StoreError."""
        self._access.authorize("upload", filename)
        with uploads.written(filename, data, self._context.settings) as path:
            return self._read(path, filename, tell, inspect=True)

    def add(
        self,
        filename: str,
        data: bytes,
        tell: Callable[[str], None] = lambda stage: None,
        *,
        types: str | None = None,
        undeclared: str = REFUSE,
    ) -> tuple[str, ImportSummary]:
        """Save an uploaded corpus; it is read in a separate process.

        Args:
            filename: Name of the file or zip.
            data: Its content.
            tell: Called with each stage.
            types: Its entity types, separated by spaces or commas; None for those that the file declares.
            undeclared: Treatment of other types, see :mod:`engine.corpus.declared_types`.

        Returns:
            The name of the corpus, and a summary of its content.

        Raises:
            CorpusError: The file is not valid, or declares no entity types.
            NotAllowed: The user may not upload, or has too many corpora.
            StoreError: The database failed.
        """
        self._access.authorize("upload", filename)
        self._context.access_store.refuse_more_corpora()  # before minutes of reading, and again when it is saved
        found: list[ImportSummary] = []

        def check(path: Path, shown: str) -> None:
            if files.declaration(path) is None:
                names = self._read(path, shown, tell, inspect=True).names
                raise CorpusError(
                    f"{shown} declares no entity types, expected them with the upload; it has {described(names)}"
                )
            found.append(self._read(path, shown, tell, inspect=False))

        name = corpora.add_upload(
            filename,
            data,
            self._context.settings,
            check,
            self._context.access_store.keep_corpus,
            DeclaredTypes.parse(types, undeclared) if types is not None else None,
        )
        return name, found[0]

    def _read(self, path: Path, shown: str, tell: Callable[[str], None], *, inspect: bool) -> ImportSummary:
        user = self._context.user.name if self._context.user else ""
        return corpus_import.read(path, shown, user, self._context.settings, tell, inspect=inspect)

    def own(self) -> frozenset[str]:
        """Return the names of the corpora that the user uploaded."""
        return self._context.access_store.brought()

    def rename(self, name: str, title: str) -> str:
        """Rename a corpus of the user; return its new name.

        Raises:
            InvalidConfig: Runs use the old name.
            CorpusError: The new name is not valid.
            NotAllowed: The corpus belongs to another user.
            StoreError: The database failed.
        """
        self._access.authorize("rename corpus", name)
        self._access.require_owner("corpus", name)
        if runs := len(self._queries.runs_of_all_users(name)):
            raise InvalidConfig(f"corpus={name!r} has {runs:,} runs, which use its name: delete them first")
        new = corpora.rename(name, title, self._context.settings)
        self._context.access_store.forget_corpus(name, new)
        return new

    def delete(self, name: str, *, ended_before: float | None = None) -> None:
        """Delete a corpus of the user with its runs, its splits' runs, and all files derived from its sentences.

        A copy that another user uploaded, and runs of other users, stay.

        Args:
            name: Name of the corpus.
            ended_before: Keep the corpus unless all its runs ended before this time, seconds since 1970; None for any
                state.

        Raises:
            CorpusError: There is no such corpus.
            InvalidConfig: One of its runs is published, or has not ended before that time.
            NotAllowed: The corpus belongs to another user.
            StoreError: The database failed.
        """
        self._access.authorize("delete corpus", name)
        self._access.require_owner("corpus", name)
        uploads.own_file(name, self._context.settings)  # fails before any run is deleted
        checksums = self._checksums(name)
        for run in self._queries.runs_of(name):
            with suppress(NotAllowed):
                self._runs.delete(run.run_id, ended_before=ended_before)
        if not self._context.access_store.give_up_corpus(name):
            return
        corpora.delete(name, self._context.settings)
        self._context.access_store.forget_corpus(name)
        for checksum in checksums:
            derived_files.forget(checksum, self._context.settings.artefacts)

    def _checksums(self, name: str) -> set[str]:
        """Return the checksums under which files were derived from a corpus, by runs of any user, and by deleted ones.

        Raises CorpusError, StoreError.
        """
        own, asked = corpora.resolve(name, self._context.settings).checksum, self._context.all_users_store.checksums()
        found = {own, *derived_files.listed_splits(own, self._context.settings.artefacts)}
        on_it = self._queries.runs_of_all_users(name)
        for config in {corpora.variant(run.config): run.config for run in on_it}.values():
            found |= corpora.checksums_of(name, config, self._context.settings)
        return found | {asked[run.run_id] for run in on_it if run.run_id in asked}

    def checksum(self, name: str) -> str:
        """Return the checksum of a corpus in its current state, in hexadecimal. Raises CorpusError."""
        return corpora.resolve(name, self._context.settings).checksum

    def train_sentences(self, name: str) -> int:
        """Return the number of training sentences of a corpus. Raises CorpusError."""
        return corpora.resolve(name, self._context.settings).train_sentences

    def shared_sentences(self, name: str) -> int:
        """Return the number of training sentences that several clients have and at most one of them trains on.

        Raises CorpusError, StoreError.
        """
        found = corpora.resolve(name, self._context.settings)
        return found.train_sentences - sum(map(len, found.own))

    def training_sentences(self, name: str, numbers: Collection[int]) -> dict[int, Sentence]:
        """Return the training sentences with these numbers, as far as they exist. Raises CorpusError."""
        train = corpora.resolve(name, self._context.settings).parts[0].load().train
        return {number: train[number] for number in numbers if 0 <= number < len(train)}

    def download(self, name: str, progress: Callable[[float], None] = lambda share: None) -> None:
        """Download a public corpus. Raises CorpusError, NotAllowed."""
        self._access.authorize("fetch corpus", name)
        corpora.fetch(name, self._context.settings, progress)

    def language_models(self) -> list[str]:
        """Return the available language models: MiniLM first, a custom one last.

        Raises:
            VectorsMissing: If the custom one is not usable.
        """
        return custom_model.installed(self._context.settings)

    def vectors(self) -> list[str]:
        """Return the names of the installed word vectors."""
        from engine import embeddings

        return embeddings.installed()
