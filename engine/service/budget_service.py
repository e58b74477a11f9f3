"""Charge runs to the privacy budgets of their corpora.

A corpus is known by its content, so that a copy under another name, or another split, gets no second budget. A run is
charged in full when it is submitted, before its first step, and settled at its actual cost when it ends. Runs with the
same noise (resumed, or rerun with the same seed) are charged once. With noise from the operating system, each
submission is charged. A run without a guarantee is refused unless the user accepts an unprotected access.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from engine import corpus as corpora
from engine.access.roles import Role
from engine.config import OWN, SimulationConfig
from engine.corpus import CorpusHandle, shared_sentences
from engine.corpus.files import corpus_names
from engine.errors import EpsilonError, InvalidConfig, StoreError
from engine.federated import accounting
from engine.federated.plan import FederatedPlan
from engine.privacy.budget import BOOKED, LOOK, SPENT, Budget, BudgetState, ChargeRequest
from engine.records import Run, RunKind
from engine.reports.labels import corpus_title
from engine.service.access_service import AccessService
from engine.service.budget_accounts import BudgetAccounts, shared_text
from engine.service.budget_totals import AffordableRun, new_total, usual_settings
from engine.service.context import ServiceContext
from engine.service.preview_service import PreviewService
from engine.service.run_queries import RunQueries

_TRIES = 20
AUDIT = "an audit, of models of its own"
"""Description of an audit in the ledger."""
_OTHERS = "a run of another user"


@dataclass(frozen=True, kw_only=True)
class BudgetEffect:
    """How a run would change the budgets of its corpora.

    Attributes:
        text: Description; empty without a budget.
        unprotected: Names of the corpora whose totals would no longer hold; the user must accept that.
    """

    text: str = ""
    unprotected: tuple[str, ...] = ()


class BudgetService:
    """Set the privacy budgets of corpora, and charge runs to them. Methods raise EpsilonError with a sentence.

    Attributes:
        accounts: The budgets that a corpus draws on.
    """

    def __init__(
        self, context: ServiceContext, access: AccessService, queries: RunQueries, previews: PreviewService
    ) -> None:
        self._context, self._access, self._queries, self._previews = context, access, queries, previews
        self.accounts = BudgetAccounts(context)

    def state(self, corpus: str) -> BudgetState:
        """Return the charges to a corpus; runs of other users appear with their cost only.

        Raises:
            CorpusError: The corpus is not available.
            StoreError: The privacy ledger was changed by hand.
        """
        from engine.store import privacy_ledger

        key, base = self.accounts.key_of(corpus)
        with self._context.store.exclusive() as connection:
            found = privacy_ledger.account(connection, key, base)
        seen = self._queries.visible({each.run for each in found.bookings} | {each.run for each in found.looks})
        return replace(
            found,
            bookings=tuple(
                item if item.run in seen else replace(item, run="", what=_OTHERS) for item in found.bookings
            ),
            looks=tuple(
                item if not item.run or item.run in seen else replace(item, run="", what=_OTHERS)
                for item in found.looks
            ),
        )

    def set_total(self, corpus: str, epsilon: float, delta: float = 1e-5, unit: str = "sentence") -> BudgetState:
        """Set or change the total ε of a corpus, and charge its earlier runs as far as they are known.

        Args:
            corpus: Name of the corpus.
            epsilon: Total ε, in (0, 1000].
            delta: δ of the total, a probability.
            unit: Protected unit, "sentence" or "client".

        Returns:
            The state of the budget.

        Raises:
            InvalidConfig: A value is out of range, or earlier runs have no common cost for this unit.
            BudgetExceeded: The earlier runs cost more than the total.
            CorpusError: The corpus is not available.
            StoreError: Runs are submitted faster than they can be counted.
        """
        from engine.store import privacy_ledger

        key, base = self.accounts.key_of(corpus)
        self._require_manager("set a budget", base)
        shared_sentences.remember(CorpusHandle(base, self._context.settings))
        now = self.state(base)
        found = new_total(now, epsilon, delta, unit, base, lambda: self._train_sentences(base))
        for _ in range(_TRIES):
            with self._context.store.exclusive() as connection:
                stamp = privacy_ledger.stamp(connection)
            earlier = [] if now.budget else list(self._earlier(base, found))
            if unit == "client" and len({each["parties"] for each in earlier if "parties" in each}) > 1:
                raise InvalidConfig(
                    f"unit='client', expected 'sentence': runs on {base} split it among different clients, whose "
                    "common loss is not known"
                )
            with self._context.store.exclusive() as connection:
                if privacy_ledger.stamp(connection) == stamp:  # else a run came in between
                    privacy_ledger.set_total(connection, key, base, found, earlier)
                    break
        else:
            raise StoreError(
                f"Runs on {base} are submitted faster than they can be counted, so no budget was set. Try again."
            )
        return self.state(base)

    def _require_manager(self, deed: str, corpus: str) -> None:
        """Raise NotAllowed unless the user may set the budget of a corpus: its owner, or an admin."""
        own = corpus.startswith(OWN)
        self._access.authorize(deed, corpus, Role.RUNNER if own else Role.ADMIN)
        if own:
            self._access.require_owner("corpus", corpus)

    def preview(self, config: SimulationConfig) -> BudgetEffect:
        """Return how a run would change the budgets of its corpora.

        Raises:
            InvalidConfig: The configuration is not valid.
            CorpusError: A corpus is not available.
            StoreError: The database failed.
        """
        from engine.store import privacy_ledger

        if not self.exists():
            return BudgetEffect()
        identity, said, unprotected = self._queries.identity(config), [], []
        for wish in self.charge_requests(identity, identity, config, self._previews.plan(config)):
            with self._context.store.exclusive() as connection:
                now = privacy_ledger.account(connection, wish.corpus, wish.name)
            if now.budget is None:
                continue
            if refused := privacy_ledger.problem(now, wish):
                said.append(f"{refused}.")
                unprotected += [wish.name] if wish.may_be_unprotected(now.budget) else []
            else:
                more = now.with_more(wish.stream, wish.cost(now.budget), again=wish.again) - now.share
                cost = f"{wish.shared}This run costs {more:.0%} of the budget of {corpus_title(wish.name)}"
                said.append(f"{cost}; {now.share:.0%} is spent so far.")
            if not now.holds:
                said.append(f"The total of {corpus_title(wish.name)} no longer holds: there were unprotected accesses.")
        return BudgetEffect(text=" ".join(said), unprotected=tuple(unprotected))

    def exists(self) -> bool:
        """Return whether any corpus has a budget."""
        from engine.store import privacy_ledger

        with self._context.store.exclusive() as connection:
            return privacy_ledger.has_budgets(connection)

    def check(self, found: Sequence[ChargeRequest]) -> None:
        """Raise BudgetExceeded if a budget does not admit a request. Nothing is charged. Raises StoreError."""
        from engine.store import privacy_ledger

        with self._context.store.exclusive() as connection:
            privacy_ledger.check(connection, found)

    def charge(self, found: Sequence[ChargeRequest]) -> None:
        """Charge requests that belong to no stored run. Raises BudgetExceeded, StoreError."""
        from engine.store import privacy_ledger

        with self._context.store.exclusive() as connection:
            privacy_ledger.charge(connection, found)

    def charge_requests(
        self,
        stream: str,
        identity: str,
        config: SimulationConfig,
        plan: FederatedPlan,
        *,
        ended: bool = False,
        unprotected: bool = False,
    ) -> list[ChargeRequest]:
        """Return the charges of a run, one for each corpus whose budget it draws on.

        Args:
            stream: Name of the noise stream.
            identity: Identity of the run.
            config: Its configuration.
            plan: Its plan.
            ended: See :class:`ChargeRequest`.
            unprotected: Whether the user accepts unprotected accesses.

        Raises:
            CorpusError: A corpus is not available.
            NotAllowed: The user may not accept them.
            StoreError: The database failed.
        """
        federation = config.federation
        without = _learns_without_noise(plan) or self._queries.overlap(config).breaks_privacy
        again = config.privacy.noise_source == "system"
        if again and federation.participants is not None and config.privacy.kind.noise != "server":
            # Participants are drawn again, so that one client may join every round.
            plan = self._previews.plan(replace(config, federation=replace(federation, participants=None)))
        cost = functools.cache(lambda unit, order: accounting.divergence(plan, unit, order))
        return self._accepted(
            [
                ChargeRequest(
                    corpus=account.corpus,
                    name=account.name,
                    stream=identity if again else stream,
                    run=identity,
                    what=_what(config, account.shared_by) + (", without a privacy guarantee" if without else ""),
                    cost=lambda budget: math.inf if without else cost(budget.unit, budget.order),
                    neighbouring=lambda budget: accounting.adjacency(plan, budget.unit),
                    again=again,
                    even=_even(config),
                    steps=plan.steps,
                    ended=ended,
                    parties=self._parties(config, plan),
                    title=corpus_title(account.name),
                    shared=shared_text(account),
                    unprotected=unprotected,
                )
                for account in self.accounts.of_run(config.corpus)
            ]
        )

    def _accepted(self, requests: list[ChargeRequest]) -> list[ChargeRequest]:
        """Return the requests; raise NotAllowed if the user accepts an unprotected access without the role for it."""
        budgets = {state.corpus: state.budget for state in self.accounts.states()}
        for wish in requests:
            budget = budgets.get(wish.corpus)
            if budget and wish.unprotected and wish.may_be_unprotected(budget):
                self._require_manager("access without protection", wish.name)
        return requests

    def _parties(self, config: SimulationConfig, plan: FederatedPlan) -> str:
        """Return a digest of the split of the corpus among clients; two runs with one digest have the same clients."""
        if config.platforms:
            return "the corpus"
        shards = sorted(sha256(plan.chosen[shard].tobytes()).hexdigest() for shard in plan.shards)
        return sha256("\n".join([self._queries.corpus(config).checksum, *shards]).encode()).hexdigest()[:16]

    def unprotected_accesses(
        self, identity: str, config: SimulationConfig, what: str, *, unprotected: bool
    ) -> list[ChargeRequest]:
        """Return requests for an access to the corpora of a configuration that no ε protects.

        Args:
            identity: Identity of the run.
            config: The configuration.
            what: Description of the access.
            unprotected: Whether the user accepts it.

        Raises:
            CorpusError: A corpus is not available.
            NotAllowed: The user may not accept it.
            StoreError: The database failed.
        """
        return self._accepted(
            [
                ChargeRequest(
                    corpus=account.corpus,
                    name=account.name,
                    stream=identity,
                    run=identity,
                    what=what,
                    cost=lambda _: math.inf,
                    again=False,
                    even=False,
                    steps=0,
                    title=corpus_title(account.name),
                    shared=shared_text(account),
                    unprotected=unprotected,
                )
                for account in self.accounts.of_run(config.corpus)
            ]
        )

    def _earlier(self, corpus: str, budget: Budget) -> Iterator[dict[str, Any]]:
        """Yield ledger entries of all stored runs on a corpus, of all users, from before it had a budget.

        Stopped runs are charged in full. Deleted runs are unknown. Published runs are not releases of the user; they
        are listed without a charge.
        """
        from engine.store import privacy_ledger

        key, known = self.accounts.key_of(corpus)[0], {corpus: True}

        def is_on_it(run: Run) -> bool:
            names = corpus_names(run.config.corpus)
            known.update({name: self.accounts.shares(key, name) for name in names - known.keys()})
            return any(known[name] for name in names)

        if shown := sum(is_on_it(run) for run in self._queries.published()):
            yield {"run": "", "what": f"{shown:,} published runs, not charged", "kind": LOOK}
        for run in filter(is_on_it, self._queries.runs_of_all_users()):
            if run.kind == RunKind.AUDIT:  # its noise is not that of the audited run
                yield {"run": run.run_id, "what": f"{AUDIT}, before there was a budget", "kind": LOOK}
                continue
            try:
                plan = self._previews.plan(run.config)
                cost = accounting.divergence(plan, budget.unit, budget.order)
                cost = math.inf if _learns_without_noise(plan) else cost
                parties = self._parties(run.config, plan)
            except EpsilonError:
                cost, parties = math.inf, ""
            other = "" if corpus in corpus_names(run.config.corpus) else run.config.corpus
            entry = {"run": run.run_id, "what": f"{_what(run.config, other)}, before there was a budget"}
            if not math.isfinite(cost) or self._queries.overlap(run.config).breaks_privacy:
                yield {**entry, "kind": LOOK}
                continue
            held = accounting.adjacency(plan, budget.unit)
            parts = {"stream": _stream(run), "cost": cost, "parties": parties, "neighbouring": held}
            if run.status.state.final:
                with self._context.store.exclusive() as connection:
                    failed = privacy_ledger.failed_check(connection, run.run_id)
                    never = privacy_ledger.never_began(connection, run.run_id)
                if failed:
                    yield {**entry, "what": f"{entry['what']}, {privacy_ledger.FAILED_CHECK}", "kind": LOOK}
                yield {**entry, **parts, "kind": SPENT, "cost": 0.0 if never else cost}
            else:
                steps = {"steps": plan.steps, "even": False, "before": 0.0, "again": False, "own": cost}
                yield {**entry, **parts, "kind": BOOKED, **steps}

    def affordable_runs(self, now: BudgetState) -> list[AffordableRun]:
        """Return the paper settings and the recommended settings that the rest of the budget can pay for."""
        if now.budget is None:
            return []
        types = corpora.declared_types(now.name, corpora.catalogue(self._context.settings))
        settings = usual_settings(now.name, self._train_sentences(now.name), types)
        found, left = [], now.budget.filter.capacity - now.booked
        for title, config in settings.items():
            try:
                cost = accounting.divergence(self._previews.plan(config), now.budget.unit, now.budget.order)
            except InvalidConfig:
                continue
            if math.isfinite(cost):
                share = cost / now.budget.filter.capacity
                found.append(AffordableRun(title=title, config=config, share=share, times=max(0, int(left / cost))))
        return found

    def _train_sentences(self, corpus: str) -> int:
        return corpora.resolve(corpus, self._context.settings).train_sentences


def _even(config: SimulationConfig) -> bool:
    """Return whether the worst-case cost grows evenly with the steps.

    It does not with a data piece for each round, with shuffled batches (an epoch costs as much as its first step), or
    with randomly drawn participants.
    """
    federation, shuffled = config.federation, config.privacy.sampling == "shuffle"
    pieces = federation.schedule == "incremental" and federation.rounds > 1
    return federation.participants is None and not pieces and not shuffled


def _what(config: SimulationConfig, other_corpus: str = "") -> str:
    clients = f", {config.federation.clients:,} clients" if config.federation.clients > 1 else ""
    on = f", on {other_corpus}" if other_corpus else ""
    return f"{config.tagger.name}, σ = {config.privacy.noise_multiplier:g}, {config.privacy.mechanism}{clients}{on}"


def _learns_without_noise(plan: FederatedPlan) -> bool:
    """Return whether parts of a run are trained without noise: all, or the private layers of silos."""
    return not plan.private or bool(plan.server and plan.platforms)


def _stream(run: Run) -> str:
    return run.run_id if run.config.privacy.noise_source == "system" else run.parent or run.run_id
