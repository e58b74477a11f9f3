"""Listing, uploading, renaming and deleting corpora."""

from collections.abc import Callable, Collection
from contextlib import suppress

from engine import corpus as corpora
from engine.config import FEATURES
from engine.corpus import CorpusInfo, derived_files, uploads
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
        """The catalogue, the embedded corpus first."""
        return corpora.catalogue(self._context.settings)

    def statistics(self, name: str) -> CorpusStatistics:
        """What a corpus holds, and what of it others hold too. Raises CorpusError."""
        return corpus_statistics.compute_statistics(name, self._context.settings)

    def overlap(self, name: str) -> Overlap | None:
        """What a corpus shares with the sentences that any features were fitted on; None if it cannot be read."""
        try:
            return overlap(corpora.resolve(name, self._context.settings), FEATURES[-1])
        except CorpusError:
            return None

    def add(
        self, filename: str, data: bytes, tell: Callable[[str], None] = lambda stage: None
    ) -> tuple[str, ImportSummary]:
        """Keep an uploaded corpus, a file or a zip; returns its name and what was read of it, in a process of its own.
        tell: is told what is going on. Raises CorpusError, NotAllowed, StoreError."""
        self._access.authorize("upload", filename)
        self._context.access_store.refuse_more_corpora()  # before minutes of reading, and once more when it is kept
        found: list[ImportSummary] = []
        name = corpora.add_upload(
            filename,
            data,
            self._context.settings,
            lambda path, shown: found.append(corpus_import.read(path, shown, self._context.settings, tell)),
            self._context.access_store.keep_corpus,
        )
        return name, found[0]

    def own(self) -> frozenset[str]:
        """Names of the corpora that the person who signed in brought."""
        return self._context.access_store.brought()

    def rename(self, name: str, title: str) -> str:
        """Give one of the user's own corpora another name; returns it. Raises InvalidConfig where runs are called by
        the old one, CorpusError, NotAllowed, StoreError."""
        self._access.authorize("rename corpus", name)
        self._access.require_owner("corpus", name)
        if runs := len(self._queries._runs_of(self._context.all_users_store, name)):  # those of whomever
            raise InvalidConfig(f"corpus={name!r} has {runs:,} runs, which are called by its name: delete them first")
        new = corpora.rename(name, title, self._context.settings)
        self._context.access_store.forget_corpus(name, new)
        return new

    def delete(self, name: str) -> None:
        """Remove one of the user's own corpora, all runs on it, or on a split of it, with what they kept, and what was
        worked out from its sentences: of splits and of several platforms, what there are runs on. What somebody else
        uploaded too, or runs that are somebody else's, stay for them. Raises CorpusError, NotAllowed, StoreError."""
        self._access.authorize("delete corpus", name)
        self._access.require_owner("corpus", name)
        uploads.own_file(name, self._context.settings)  # of what is none no run ends
        checksums = self._checksums(name)
        for run in self._queries.runs_of(name):
            with suppress(NotAllowed):
                self._runs.delete(run.run_id)
        if not self._context.access_store.give_up_corpus(name):
            return
        corpora.delete(name, self._context.settings)
        self._context.access_store.forget_corpus(name)
        for checksum in checksums:
            derived_files.forget(checksum, self._context.settings.artefacts)

    def _checksums(self, name: str) -> set[str]:
        """Those under which something was worked out from the sentences of one of the user's own corpora, by runs of
        whomever. Raises CorpusError, StoreError."""
        found, asked = (
            {corpora.resolve(name, self._context.settings).checksum},
            self._context.all_users_store.checksums(),
        )
        on_it = self._queries._runs_of(self._context.all_users_store, name)
        for config in {(run.config.corpus, run.config.federation.masked): run.config for run in on_it}.values():
            found |= corpora.checksums_of(name, config, self._context.settings)
        return found | {asked[run.run_id] for run in on_it if run.run_id in asked}

    def train_sentences(self, name: str) -> int:
        """How many sentences a corpus has to train on. Raises CorpusError."""
        return corpora.resolve(name, self._context.settings).train_sentences

    def shared_sentences(self, name: str) -> int:
        """How many training sentences of several corpora no platform trains on, or one alone of those that have them.
        Raises CorpusError, StoreError."""
        found = corpora.resolve(name, self._context.settings)
        return found.train_sentences - sum(map(len, found.own))

    def training_sentences(self, name: str, numbers: Collection[int]) -> dict[int, Sentence]:
        """Those of a corpus' training sentences with these numbers, as far as there are any. Raises CorpusError."""
        train = corpora.resolve(name, self._context.settings).parts[0].load().train
        return {number: train[number] for number in numbers if 0 <= number < len(train)}

    def download(self, name: str, progress: Callable[[float], None] = lambda share: None) -> None:
        """Download a public corpus. Raises CorpusError, NotAllowed."""
        self._access.authorize("fetch corpus", name)
        corpora.fetch(name, self._context.settings, progress)

    def language_models(self) -> list[str]:
        """What may stand behind vectors in context: MiniLM first, then the user's own. Raises VectorsMissing if that
        cannot be used."""
        return custom_model.installed(self._context.settings)

    def vectors(self) -> list[str]:
        """Names of the installed word vectors."""
        from engine import embeddings

        return embeddings.installed()
