"""Find the budgets that a corpus draws on: its own, and those of corpora that share sentences with it.

A corpus with one more sentence has another checksum. Its sentences are nevertheless those of the first corpus, whose
budget therefore pays for runs on them too. Comparisons are restricted to corpora that the user may use: a user could
otherwise learn from an upload which sentences another user has.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine.config import JOIN, OWN
from engine.corpus import CorpusHandle, shared_sentences
from engine.corpus.files import base_name_and_split, own_files
from engine.errors import CorpusError
from engine.privacy.budget import BudgetState
from engine.reports.labels import corpus_title
from engine.service.context import ServiceContext


@dataclass(frozen=True, kw_only=True)
class Account:
    """A corpus whose budget a run draws on.

    Attributes:
        corpus: Checksum of its content.
        name: Its name, without a split.
        shared_by: Name of the run's corpus that shares sentences with it; empty if the run trains on it.
        shared: Number of these sentences.
    """

    corpus: str
    name: str
    shared_by: str = ""
    shared: int = 0


def shared_text(account: Account) -> str:
    """Return why a run draws on a budget of another corpus; empty for its own."""
    if not account.shared_by:
        return ""
    return f"{corpus_title(account.shared_by)} shares {account.shared:,} sentences with {corpus_title(account.name)}. "


def sharing_text(accounts: Iterable[Account]) -> str:
    """Return the other budgets that runs on a corpus draw on, in sentences; empty without any."""
    return " ".join(
        f"Its runs draw on the budget of {corpus_title(account.name)} too: {account.shared:,} sentences are in both."
        for account in accounts
    )


class BudgetAccounts:
    """Accounts of corpora in the privacy ledger. Methods raise StoreError if the database fails."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def key_of(self, corpus: str) -> tuple[str, str]:
        """Return the checksum of a corpus with all its splits, and its name without a split. Raises CorpusError."""
        base = base_name_and_split(corpus)[0]
        return CorpusHandle(base, self._context.settings).checksum, base

    def states(self) -> list[BudgetState]:
        """Return the budgets of all corpora that have one."""
        from engine.store import privacy_ledger

        with self._context.store.exclusive() as connection:
            return privacy_ledger.accounts(connection) if privacy_ledger.has_budgets(connection) else []

    def entries_of(self, runs: Collection[str], corpora: Collection[str]) -> list[dict[str, Any]]:
        """Return the entries of the privacy ledger on these runs, and the totals of these corpora.

        Args:
            runs: Identities of runs, which may have been deleted.
            corpora: Checksums of corpora.
        """
        from engine.store import privacy_ledger

        with self._context.store.exclusive() as connection:
            return privacy_ledger.entries_of(connection, runs, corpora)

    def of_run(self, corpus: str) -> list[Account]:
        """Return the accounts of a run: its corpora, and corpora with a budget that share sentences with them.

        Args:
            corpus: Names of the corpora of a run, as in its configuration.

        Raises:
            CorpusError: A corpus of the run is not available.
        """
        own = dict(self.key_of(name) for name in corpus.split(JOIN))
        found = {key: Account(corpus=key, name=base) for key, base in own.items()}
        states = self.states()
        for base in own.values():
            for account in self._sharing(base, states):
                found.setdefault(account.corpus, account)
        return list(found.values())

    def with_budget(self, corpus: str) -> list[str]:
        """Return the names of the corpora with a budget that runs on ``corpus`` draw on; empty if it is not available.

        Args:
            corpus: As in :meth:`of_run`.
        """
        with suppress(CorpusError):
            budgets = {state.corpus for state in self.states()}
            return [account.name for account in self.of_run(corpus) if account.corpus in budgets]
        return []

    def sharing(self, corpus: str) -> list[Account]:
        """Return the other corpora with a budget that share sentences with this one. Raises CorpusError."""
        return self._sharing(self.key_of(corpus)[1], self.states())

    def _sharing(self, base: str, states: Iterable[BudgetState]) -> list[Account]:
        found, handle = [], CorpusHandle(base, self._context.settings)
        for state in states:
            if state.corpus != handle.checksum and (theirs := self._sentences(state.corpus, state.name)):
                shared = shared_sentences.in_common(shared_sentences.remember(handle), theirs)
                if shared:
                    found.append(Account(corpus=state.corpus, name=state.name, shared_by=base, shared=shared))
        return found

    def shares(self, corpus: str, name: str) -> bool:
        """Return whether the corpus with this name, if it is available, has the sentences of another or shares some.

        Args:
            corpus: Checksum of the other corpus.
            name: Name of a corpus.
        """
        with suppress(CorpusError):
            handle = CorpusHandle(base_name_and_split(name)[0], self._context.settings)
            if handle.checksum == corpus:
                return True
            theirs = shared_sentences.remembered(corpus, self._context.settings.artefacts)
            return theirs is not None and shared_sentences.in_common(shared_sentences.remember(handle), theirs) > 0
        return False  # a corpus that is no longer available is another one

    def _sentences(self, checksum: str, name: str) -> shared_sentences.Checksums | None:
        """Return the checksums of a corpus's sentences; None if the user may not use it, or it is gone."""
        settings = self._context.settings
        if settings.own is not None and name.startswith(OWN) and name not in own_files(settings):
            return None
        known = shared_sentences.remembered(checksum, settings.artefacts)
        if known is None:
            with suppress(CorpusError):
                handle = CorpusHandle(name, settings)
                if handle.checksum == checksum:
                    return shared_sentences.remember(handle)
        return known
