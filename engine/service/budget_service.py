"""Charge runs to the privacy budgets of their corpora.

A corpus is known by its content, so that a copy under another name, or another split, gets no second budget. A run is
charged in full when it is submitted, before its first step, and settled at its actual cost when it ends. Runs with the
same noise (resumed, or rerun with the same seed) are charged once. With noise from the operating system, each
submission is charged, since its noise may be new.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from engine import corpus as corpora
from engine.access.roles import Role
from engine.config import JOIN, OWN, PrivacyConfig, SimulationConfig
from engine.corpus import CorpusHandle
from engine.corpus.files import base_name_and_split, corpus_names
from engine.errors import CorpusError, EpsilonError, InvalidConfig, StoreError
from engine.experiments import recommended_settings
from engine.federated import accounting
from engine.federated.plan import FederatedPlan
from engine.privacy.budget import BOOKED, LOOK, SPENT, UNITS, Budget, BudgetState, ChargeRequest
from engine.privacy.plan import PrivacyPlan
from engine.privacy.rdp_filter import best_order_filter
from engine.records import Run, RunKind, RunState
from engine.service.access_service import AccessService
from engine.service.context import ServiceContext
from engine.service.preview_service import PreviewService
from engine.service.run_queries import RunQueries
from engine.validation import number, one_of

_TRIES = 20
AUDIT = "an audit, of models of its own"
"""Description of an audit in the ledger."""
_OTHERS = "a run of another user"
_WHOLE = PrivacyPlan(
    examples=1, batch_size=1, steps=1, noise_multiplier=1.0, clip_norm=1.0, delta=1e-5, sampling="poisson"
)
"""A release with all examples; its best Rényi order suits all such releases at any noise."""


@dataclass(frozen=True, kw_only=True)
class AffordableRun:
    """A configuration that the rest of a budget can pay for.

    Attributes:
        title: Name of the configuration.
        config: The configuration.
        share: Cost as a share of the budget, 0 to 1.
        times: Number of such runs that still fit.
    """

    title: str
    config: SimulationConfig
    share: float
    times: int


class BudgetService:
    """Set the privacy budgets of corpora, and charge runs to them. Methods raise EpsilonError with a sentence."""

    def __init__(
        self, context: ServiceContext, access: AccessService, queries: RunQueries, previews: PreviewService
    ) -> None:
        self._context, self._access, self._queries, self._previews = context, access, queries, previews

    def key_of(self, corpus: str) -> tuple[str, str]:
        """Return the checksum of a corpus with all its splits, and its name without a split. Raises CorpusError."""
        base = base_name_and_split(corpus)[0]
        return CorpusHandle(base, self._context.settings).checksum, base

    def state(self, corpus: str) -> BudgetState:
        """Return the charges to a corpus; runs of other users appear with their cost only.

        Raises:
            CorpusError: The corpus is not available.
            StoreError: The privacy ledger was changed by hand.
        """
        from engine.store import privacy_ledger

        key, base = self.key_of(corpus)
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

        key, base = self.key_of(corpus)
        self._access.authorize("set a budget", base, Role.RUNNER if base.startswith(OWN) else Role.ADMIN)
        if base.startswith(OWN):
            self._access.require_owner("corpus", base)
        now = self.state(base)
        found = self._budget(base, now, epsilon, delta, unit)
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

    def preview(self, config: SimulationConfig) -> str:
        """Describe how a run would change the budgets of its corpora; empty without a budget.

        Raises:
            InvalidConfig: The configuration is not valid.
            CorpusError: A corpus is not available.
            StoreError: The database failed.
        """
        from engine.store import privacy_ledger

        if not self.exists():
            return ""
        identity, said = self._queries.identity(config), []
        for wish in self.charge_requests(identity, identity, config, self._previews.plan(config)):
            now = self.state(wish.name)
            if now.budget is None:
                continue
            share = now.with_more(wish.stream, wish.cost(now.budget), again=wish.again)
            others = any(each.parties not in ("", wish.parties) for each in now.bookings)
            if wish.looks:
                said.append(
                    f"{wish.name} has a budget, and this run has no noise: it would be listed as an unprotected access."
                )
            elif now.budget.unit == "client" and others:
                said.append(f"The budget of {wish.name} does not admit it: {privacy_ledger.OTHER_CLIENTS}.")
            elif share <= 1:
                said.append(f"{share - now.share:.0%} of the budget of {wish.name}; {now.share:.0%} is spent.")
            else:
                said.append(f"{privacy_ledger.refusal(now, share)}.")
        return " ".join(said)

    def exists(self) -> bool:
        """Return whether any corpus has a budget."""
        from engine.store import privacy_ledger

        with self._context.store.exclusive() as connection:
            return privacy_ledger.has_budgets(connection)

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
    ) -> list[ChargeRequest]:
        """Return the charges of a run, one for each of its corpora.

        Args:
            stream: Name of the noise stream.
            identity: Identity of the run.
            config: Its configuration.
            plan: Its plan.
            ended: See :class:`ChargeRequest`.
        """
        federation = config.federation
        unprotected = not plan.private or self._queries.overlap(config).breaks_privacy
        again = config.privacy.noise_source == "system"
        if again and federation.participants is not None and config.privacy.kind.noise != "server":
            # Participants are drawn again, so that one client may join every round.
            plan = self._previews.plan(replace(config, federation=replace(federation, participants=None)))
        return [
            ChargeRequest(
                corpus=key,
                name=base,
                stream=identity if again else stream,
                run=identity,
                what=_what(config) + (", without a privacy guarantee" if unprotected else ""),
                cost=lambda budget: accounting.divergence(plan, budget.unit, budget.order),
                looks=unprotected,
                again=again,
                even=_even(config),
                steps=plan.steps,
                ended=ended,
                parties=self._parties(config, plan),
            )
            for key, base in self._budget_keys(config)
        ]

    def _parties(self, config: SimulationConfig, plan: FederatedPlan) -> str:
        """Return a digest of the split of the corpus among clients; two runs with one digest have the same clients."""
        if config.platforms:
            return "the corpus"
        shards = sorted(sha256(plan.chosen[shard].tobytes()).hexdigest() for shard in plan.shards)
        return sha256("\n".join([self._queries.corpus(config).checksum, *shards]).encode()).hexdigest()[:16]

    def unprotected_accesses(self, identity: str, config: SimulationConfig, what: str) -> list[ChargeRequest]:
        """Return entries for an access to the corpora of a configuration that no ε protects.

        They are empty if a corpus is no longer available.
        """
        try:
            corpora = self._budget_keys(config)
        except CorpusError:
            return []
        return [
            ChargeRequest(
                corpus=key,
                name=base,
                stream=identity,
                run=identity,
                what=what,
                cost=lambda _: math.inf,
                looks=True,
                again=False,
                even=False,
                steps=0,
            )
            for key, base in corpora
        ]

    def _budget_keys(self, config: SimulationConfig) -> dict[tuple[str, str], None]:
        return dict.fromkeys(self.key_of(name) for name in config.corpus.split(JOIN))

    def _budget(self, corpus: str, now: BudgetState, epsilon: float, delta: float, unit: str) -> Budget:
        """Return the budget to set.

        Its Rényi order stays fixed once a run is charged: a later choice could depend on results. Before that, the
        order admits the largest number of runs with the recommended settings, each at half of the total. Raises
        InvalidConfig.
        """
        number("epsilon", epsilon, 0, 1000, "a number in (0, 1000]", low_open=True)
        one_of("unit", unit, UNITS)
        PrivacyConfig(delta=delta)
        if now.budget and now.bookings and unit != now.budget.unit:
            raise InvalidConfig(f"unit={unit!r}, expected {now.budget.unit!r}: earlier charges use that unit")
        usual = _WHOLE
        if unit == "sentence":
            usual = _usual(corpus, self._train_sentences(corpus), epsilon / 2)
        # Fixed with the first charge: a later choice could depend on results.
        order = now.budget.order if now.budget and now.bookings else best_order_filter(epsilon, delta, usual).order
        found = Budget(epsilon=epsilon, delta=delta, unit=unit, order=order, set_at=_now())
        if found.filter.capacity <= 0:
            raise InvalidConfig(f"epsilon={epsilon:g}: at delta={delta:g} no run fits; raise epsilon or delta")
        return found

    def _earlier(self, corpus: str, budget: Budget) -> Iterator[dict[str, Any]]:
        """Yield ledger entries of all stored runs on a corpus, of all users, from before it had a budget.

        Stopped runs are charged in full. Deleted runs are unknown. Published runs are not releases of the user; they
        are listed without a charge.
        """
        from engine.store import privacy_ledger

        key, known = self.key_of(corpus)[0], {corpus: True}

        def is_on_it(run: Run) -> bool:
            names = corpus_names(run.config.corpus)
            for name in names - known.keys():
                with suppress(CorpusError):  # a corpus that is no longer available is another one
                    known[name] = self.key_of(name)[0] == key
            return any(known.get(name) for name in names)

        if shown := sum(is_on_it(run) for run in self._queries.published()):
            yield {"run": "", "what": f"published runs, {shown:,} of them: none is charged", "kind": LOOK}
        for run in filter(is_on_it, self._queries.runs_of_all_users()):
            if run.kind == RunKind.AUDIT:  # its noise is not that of the audited run
                yield {"run": run.run_id, "what": f"{AUDIT}, before there was a budget", "kind": LOOK}
                continue
            try:
                plan = self._previews.plan(run.config)
                cost = accounting.divergence(plan, budget.unit, budget.order)
                parties = self._parties(run.config, plan)
            except EpsilonError:
                cost, parties = math.inf, ""
            entry = {"run": run.run_id, "what": f"{_what(run.config)}, before there was a budget"}
            if not math.isfinite(cost) or self._queries.overlap(run.config).breaks_privacy:
                yield {**entry, "kind": LOOK}
                continue
            parts = {"stream": _stream(run), "cost": cost, "parties": parties}
            if run.status.state.final:
                with self._context.store.exclusive() as connection:
                    failed = privacy_ledger.failed_check(connection, run.run_id)
                if failed:
                    yield {**entry, "what": f"{entry['what']}, {privacy_ledger.FAILED_CHECK}", "kind": LOOK}
                never = run.status.state == RunState.CANCELLED and run.status.started is None
                yield {**entry, **parts, "kind": SPENT, "cost": 0.0 if never else cost}
            else:
                steps = {"steps": plan.steps, "even": False, "before": 0.0, "again": False, "own": cost}
                yield {**entry, **parts, "kind": BOOKED, **steps}

    def affordable_runs(self, now: BudgetState) -> list[AffordableRun]:
        """Return the paper settings and the recommended settings that the rest of the budget can pay for."""
        if now.budget is None:
            return []
        corpus, sentences = now.name, self._train_sentences(now.name)
        settings = {"paper settings, σ = 1": SimulationConfig(corpus=corpus, privacy=PrivacyConfig(noise_multiplier=1))}
        for epsilon in recommended_settings.EPSILONS:
            try:
                settings[f"recommended settings, ε = {epsilon:g}"] = recommended_settings.recommended_settings(
                    corpus, sentences, epsilon
                )
            except InvalidConfig:
                continue
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


def _what(config: SimulationConfig) -> str:
    clients = f", {config.federation.clients:,} clients" if config.federation.clients > 1 else ""
    return f"{config.tagger.name}, σ = {config.privacy.noise_multiplier:g}, {config.privacy.mechanism}{clients}"


def _usual(corpus: str, sentences: int, epsilon: float) -> PrivacyPlan:
    try:
        return PrivacyPlan.from_config(recommended_settings.recommended_settings(corpus, sentences, epsilon), sentences)
    except InvalidConfig:  # too few sentences, or too small an ε
        return _WHOLE


def _stream(run: Run) -> str:
    return run.run_id if run.config.privacy.noise_source == "system" else run.parent or run.run_id


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
