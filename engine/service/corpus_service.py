"""What can be asked of corpora, and done with the user's own."""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from engine import corpus as corpora
from engine.config import FEATURES
from engine.corpus import CorpusInfo, derived_files, uploads
from engine.corpus.files import corpus_names
from engine.corpus.sentences import Sentence
from engine.embeddings import custom_model
from engine.embeddings.contamination import Overlap, overlap
from engine.errors import CorpusError, InvalidConfig, NotAllowed
from engine.records import Run
from engine.service import corpus_import, corpus_statistics, run_preview
from engine.service.corpus_import import ImportSummary
from engine.service.corpus_statistics import CorpusStatistics
from engine.service.run_queries import RunQueries

if TYPE_CHECKING:
    from engine.store.run_store import RunStore


class Corpora(RunQueries):
    """Methods raise EpsilonError with a sentence for the user."""

    def delete(self, identity: str) -> None:
        """Forget a run; see :meth:`engine.service.Application.delete`."""
        raise NotImplementedError

    def corpora(self) -> list[CorpusInfo]:
        """The catalogue, the embedded corpus first."""
        return corpora.catalogue(self.settings)

    def statistics(self, name: str) -> CorpusStatistics:
        """What a corpus holds, and what of it others hold too. Raises CorpusError."""
        return corpus_statistics.compute_statistics(name, self.settings)

    def corpus_overlap(self, name: str) -> Overlap | None:
        """What a corpus shares with the sentences that any features were fitted on; None if it cannot be read."""
        try:
            return overlap(corpora.resolve(name, self.settings), FEATURES[-1])
        except CorpusError:
            return None

    def add_corpus(
        self, filename: str, data: bytes, tell: Callable[[str], None] = lambda stage: None
    ) -> tuple[str, ImportSummary]:
        """Keep an uploaded corpus, a file or a zip; returns its name and what was read of it, in a process of its own.
        tell: is told what is going on. Raises CorpusError, NotAllowed, StoreError."""
        self.authorize("upload", filename)
        self._belongings.refuse_more_corpora()  # before minutes of reading, and once more when it is kept
        found: list[ImportSummary] = []
        name = corpora.add_upload(
            filename,
            data,
            self.settings,
            lambda path, shown: found.append(corpus_import.read(path, shown, self.settings, tell)),
            self._belongings.keep_corpus,
        )
        return name, found[0]

    def own_corpora(self) -> frozenset[str]:
        """Names of the corpora that the person who signed in brought."""
        return self._belongings.brought()

    def runs_of(self, corpus: str | None = None) -> list[Run]:
        """The user's own runs, or those on a corpus or a split of it, alone or as one of several platforms', without
        their records."""
        return self._runs_of(self._store, corpus)

    def _every_run(self) -> list[Run]:
        """All runs of the store, whoever's: what is booked of a corpus does not go by who asks."""
        return self._runs_of(self._every, None)

    def _runs_of(self, store: "RunStore", corpus: str | None) -> list[Run]:
        every = store.newest(100_000)[0]
        return [run for run in every if corpus is None or corpus in corpus_names(run.config.corpus)]

    def rename_corpus(self, name: str, title: str) -> str:
        """Give one of the user's own corpora another name; returns it. Raises InvalidConfig where runs are called by
        the old one, CorpusError, NotAllowed, StoreError."""
        self.authorize("rename corpus", name)
        self.require_owner("corpus", name)
        if runs := len(self._runs_of(self._every, name)):  # those of whomever
            raise InvalidConfig(f"corpus={name!r} has {runs:,} runs, which are called by its name: delete them first")
        new = corpora.rename(name, title, self.settings)
        self._belongings.forget_corpus(name, new)
        return new

    def delete_corpus(self, name: str) -> None:
        """Remove one of the user's own corpora, all runs on it, or on a split of it, with what they kept, and what was
        worked out from its sentences: of splits and of several platforms, what there are runs on. What somebody else
        uploaded too, or runs that are somebody else's, stay for them. Raises CorpusError, NotAllowed, StoreError."""
        self.authorize("delete corpus", name)
        self.require_owner("corpus", name)
        uploads.own_file(name, self.settings)  # of what is none no run ends
        checksums = self._checksums(name)
        for run in self.runs_of(name):
            with suppress(NotAllowed):
                self.delete(run.run_id)
        if not self._belongings.give_up_corpus(name):
            return
        corpora.delete(name, self.settings)
        self._belongings.forget_corpus(name)
        for checksum in checksums:
            derived_files.forget(checksum, self.settings.artefacts)

    def _checksums(self, name: str) -> set[str]:
        """Those under which something was worked out from the sentences of one of the user's own corpora, by runs of
        whomever. Raises CorpusError, StoreError."""
        found, asked = {corpora.resolve(name, self.settings).checksum}, self._every.checksums()
        on_it = self._runs_of(self._every, name)
        for config in {(run.config.corpus, run.config.federation.masked): run.config for run in on_it}.values():
            found |= corpora.checksums_of(name, config, self.settings)
        return found | {asked[run.run_id] for run in on_it if run.run_id in asked}

    def train_sentences(self, name: str) -> int:
        """How many sentences a corpus has to train on. Raises CorpusError."""
        return corpora.resolve(name, self.settings).train_sentences

    def shared_sentences(self, name: str) -> int:
        """How many training sentences of several corpora no platform trains on, or one alone of those that have them.
        Raises CorpusError, StoreError."""
        found = corpora.resolve(name, self.settings)
        return found.train_sentences - sum(map(len, found.own))

    def training_sentences(self, name: str, numbers: Collection[int]) -> dict[int, Sentence]:
        """Those of a corpus' training sentences with these numbers, as far as there are any. Raises CorpusError."""
        train = corpora.resolve(name, self.settings).parts[0].load().train
        return {number: train[number] for number in numbers if 0 <= number < len(train)}

    def fetch_corpus(self, name: str, progress: Callable[[float], None] = lambda share: None) -> None:
        """Download a public corpus. Raises CorpusError, NotAllowed."""
        self.authorize("fetch corpus", name)
        corpora.fetch(name, self.settings, progress)

    def language_models(self) -> list[str]:
        """What may stand behind vectors in context: MiniLM first, then the user's own. Raises VectorsMissing if that
        cannot be used."""
        return custom_model.installed(self.settings)

    def vectors(self) -> list[str]:
        """Names of the installed word vectors."""
        from engine import embeddings

        return embeddings.installed()

    def longest_document(self, name: str) -> int | None:
        """Sentences in the longest document of a corpus's training part; None if it has no documents or is not here.
        Raises StoreError."""
        try:
            return run_preview.longest_document(corpora.resolve(name, self.settings).layout)
        except CorpusError:
            return None
