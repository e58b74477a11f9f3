"""Charge runs to the privacy budgets of their corpora.

A corpus is known by its content, so that another name, or another split into parts, buys no second budget. A run is
booked whole when it is submitted, before its first step, and settled at what it took when it has ended. Runs with the
same noise (one that goes on, or is repeated, from the same seed) count once; where the noise comes from the operating
system each submission counts, since a new one may draw anew.
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
from engine.config import JOIN, PrivacyConfig, SimulationConfig
from engine.corpus import CorpusHandle
from engine.corpus.files import OWN, base_name_and_split, corpus_names
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
"""What an attack on trainings like a run's is listed as."""
_OTHERS = "a run of somebody else"
_WHOLE = PrivacyPlan(
    examples=1, batch_size=1, steps=1, noise_multiplier=1.0, clip_norm=1.0, delta=1e-5, sampling="poisson"
)
"""A release that everybody is in: the order that suits it suits all such, whatever their noise."""


@dataclass(frozen=True, kw_only=True)
class AffordableRun:
    """A setting that could be run. share: of the allowance that it takes; times: how often it still fits."""

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
        """The checksum of a corpus's whole content, and its name without a split. Raises CorpusError."""
        base = base_name_and_split(corpus)[0]
        return CorpusHandle(base, self._context.settings).checksum, base

    def state(self, corpus: str) -> BudgetState:
        """What is booked on a corpus; of the runs of others how much, not what. Raises CorpusError, StoreError where it
        was
        changed by hand."""
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
        """Give a corpus a total, or another one; what was trained on it before is booked too, as far as it is known.

        Raises
        ------
        InvalidConfig, BudgetExceeded where more is spent already, CorpusError, StoreError.
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
            raise StoreError(f"Runs on {base} come faster than they can be counted: no budget was set. Try again.")
        return self.state(base)

    def preview(self, config: SimulationConfig) -> str:
        """What a run would take of the budgets of its corpora, in sentences; empty where these have none. Raises
        InvalidConfig, CorpusError, StoreError."""
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
                said.append(f"{wish.name} has a budget, and this run has no noise: it would be listed as a look.")
            elif now.budget.unit == "client" and others:
                said.append(f"The budget of {wish.name} does not admit it: {privacy_ledger.OTHER_CLIENTS}.")
            elif share <= 1:
                said.append(f"{share - now.share:.0%} of the budget of {wish.name}; {now.share:.0%} is booked.")
            else:
                said.append(f"{privacy_ledger.refusal(now, share)}.")
        return " ".join(said)

    def exists(self) -> bool:
        """Whether any corpus has a budget."""
        from engine.store import privacy_ledger

        with self._context.store.exclusive() as connection:
            return privacy_ledger.has_budgets(connection)

    def charge(self, found: Sequence[ChargeRequest]) -> None:
        """Book what is done beside the runs that are kept. Raises BudgetExceeded, StoreError."""
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
        """What a run is to be booked as, on each of its corpora. stream: of its noise. ended: see
        :class:`ChargeRequest`."""
        federation = config.federation
        unprotected = not plan.private or self._queries.overlap(config).breaks_privacy
        again = config.privacy.noise_source == "system"
        if again and federation.participants is not None and config.privacy.kind.noise != "server":
            # Who takes part will be drawn anew: somebody may join every round.
            plan = self._previews.plan(replace(config, federation=replace(federation, participants=None)))
        return [
            ChargeRequest(
                corpus=key,
                name=base,
                stream=identity if again else stream,
                run=identity,
                what=_what(config) + (", without any promise" if unprotected else ""),
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
        """By what the clients of a run are told from those of another on the same corpus: which sentences each has. Of
        platforms one has all of it."""
        if config.platforms:
            return "the corpus"
        shards = sorted(sha256(plan.chosen[shard].tobytes()).hexdigest() for shard in plan.shards)
        return sha256("\n".join([self._queries.corpus(config).checksum, *shards]).encode()).hexdigest()[:16]

    def unprotected_accesses(self, identity: str, config: SimulationConfig, what: str) -> list[ChargeRequest]:
        """What was done to corpora of a configuration beside runs, and without any promise. Of a corpus that is not
        here
        any more nothing is known."""
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
        """A total as it is set. Its order is that of the one before it, once something is booked, else the one at which
        the
        most trainings by good practice fit, each of half of it. Raises InvalidConfig."""
        number("epsilon", epsilon, 0, 1000, "a number in (0, 1000]", low_open=True)
        one_of("unit", unit, UNITS)
        PrivacyConfig(delta=delta)
        if now.budget and now.bookings and unit != now.budget.unit:
            raise InvalidConfig(f"unit={unit!r}, expected {now.budget.unit!r}: what is booked was counted for that")
        usual = _WHOLE
        if unit == "sentence":
            usual = _usual(corpus, self._train_sentences(corpus), epsilon / 2)
        # Fixed with the first booking: from then on what was seen could have chosen it.
        order = now.budget.order if now.budget and now.bookings else best_order_filter(epsilon, delta, usual).order
        found = Budget(epsilon=epsilon, delta=delta, unit=unit, order=order, set_at=_now())
        if found.filter.capacity <= 0:
            raise InvalidConfig(f"epsilon={epsilon:g}: at delta={delta:g} no run fits; raise epsilon or delta")
        return found

    def _earlier(self, corpus: str, budget: Budget) -> Iterator[dict[str, Any]]:
        """Entries of all runs of the store on a corpus, whoever's and whatever it was called, from before it had a
        budget:
        what they took, whole where they were stopped. What was deleted is not known any more. Published runs are no
        releases of the user's: that they are there is listed."""
        from engine.store import privacy_ledger

        key, known = self.key_of(corpus)[0], {corpus: True}

        def is_on_it(run: Run) -> bool:
            names = corpus_names(run.config.corpus)
            for name in names - known.keys():
                with suppress(CorpusError):  # what is not here any more is not this one
                    known[name] = self.key_of(name)[0] == key
            return any(known.get(name) for name in names)

        if shown := sum(is_on_it(run) for run in self._queries.published()):
            yield {"run": "", "what": f"published runs, {shown:,} of them: none is booked", "kind": LOOK}
        for run in filter(is_on_it, self._queries.runs_of_all_users()):
            if run.kind == RunKind.AUDIT:  # it has noise of its own, which is not that of the run that it attacks
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
        """What could still be run: the paper's setting and good practice, as often as they fit."""
        if now.budget is None:
            return []
        corpus, sentences = now.name, self._train_sentences(now.name)
        settings = {
            "the paper's setting, σ = 1": SimulationConfig(corpus=corpus, privacy=PrivacyConfig(noise_multiplier=1))
        }
        for epsilon in recommended_settings.EPSILONS:
            try:
                settings[f"good practice, ε = {epsilon:g}"] = recommended_settings.recommended_settings(
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
    """Whether what a run costs the one who pays most grows evenly with its steps: not where a piece is paid for whole
    in its own round, an epoch of fixed batches with its first step, or a round by whom chance draws."""
    federation, shuffled = config.federation, config.privacy.sampling == "shuffle"
    pieces = federation.schedule == "incremental" and federation.rounds > 1
    return federation.participants is None and not pieces and not shuffled


def _what(config: SimulationConfig) -> str:
    clients = f", {config.federation.clients:,} clients" if config.federation.clients > 1 else ""
    return f"{config.tagger.name}, σ = {config.privacy.noise_multiplier:g}, {config.privacy.mechanism}{clients}"


def _usual(corpus: str, sentences: int, epsilon: float) -> PrivacyPlan:
    try:
        return PrivacyPlan.from_config(recommended_settings.recommended_settings(corpus, sentences, epsilon), sentences)
    except InvalidConfig:  # too few sentences, or too small an ε, for any
        return _WHOLE


def _stream(run: Run) -> str:
    return run.run_id if run.config.privacy.noise_source == "system" else run.parent or run.run_id


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
