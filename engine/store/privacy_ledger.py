"""The privacy ledger: append-only entries in a SHA-256 hash chain.

The entries, in the order of their numbers, determine the state of each corpus's budget
(:class:`engine.privacy.budget.BudgetState`). An entry that was changed, removed or inserted breaks the chain, and the
ledger then accepts no more charges. If an attacker rewrites all later entries too, or removes the last ones, only a
user who noted an earlier chain hash can detect it: the program has no secret that its user lacks.

All functions use a connection of :meth:`engine.store.run_store.RunStore.exclusive`.
"""

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from engine.errors import BudgetExceeded, StoreError
from engine.privacy.budget import (
    BOOKED,
    BUDGET,
    LOOK,
    SPENT,
    UNUSED,
    Budget,
    BudgetState,
    Charge,
    ChargeRequest,
    UnprotectedAccess,
)
from engine.store.schema import bookings, records, runs

OTHER_CLIENTS = (
    "earlier charges protect other clients than this run's, which share sentences with several of them, so that the "
    "charges cannot be composed: partition the corpus as before (partition, clients, data fraction, seed)"
)
UNPROTECTED = (
    "To run it anyway, accept an unprotected access (in the shell: --unprotected). The total then no longer holds"
)
FAILED_CHECK = "failed its noise check: no privacy guarantee"
"""Description of an unprotected access by a run that also keeps its charge."""
_FINAL = ("done", "failed", "cancelled")


def stamp(connection: Connection) -> tuple[int, float]:
    """Return the number of runs and the time of the last submission, which change with each submitted run."""
    count, last = connection.execute(select(func.count(), func.max(runs.c.created))).one()
    return int(count), float(last or 0.0)


def account(connection: Connection, corpus: str, name: str = "") -> BudgetState:
    """Return the budget of a corpus after finished runs are finalized.

    Raises:
        StoreError: If the ledger was modified from outside.
    """
    finalize(connection)
    return _account(connection, corpus, name)


def _account(connection: Connection, corpus: str, name: str) -> BudgetState:
    entries, chain_hash = _entries(connection)
    return _state(corpus, name, [entry for entry in entries if entry["corpus"] == corpus], chain_hash)


def accounts(connection: Connection) -> list[BudgetState]:
    """Return the budgets of all corpora that have one, without finalizing finished runs. Raises StoreError."""
    entries, chain_hash = _entries(connection)
    by_corpus: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        by_corpus.setdefault(entry["corpus"], []).append(entry)
    states = [_state(corpus, "", own, chain_hash) for corpus, own in by_corpus.items()]
    return [state for state in states if state.budget]


def has_budgets(connection: Connection) -> bool:
    """Return whether the ledger has an entry; without one, no corpus has a budget."""
    return connection.execute(select(bookings.c.number).limit(1)).first() is not None


def entries_of(connection: Connection, named_runs: Collection[str], corpora: Collection[str]) -> list[dict[str, Any]]:
    """Return the entries of these runs, and the totals of these corpora, in their order.

    Args:
        connection: The transaction.
        named_runs: Identities of runs, which may have been deleted.
        corpora: Checksums of corpora.

    Raises:
        StoreError: If the ledger was modified from outside.
    """
    return [
        entry
        for entry in _entries(connection)[0]
        if (entry["corpus"] in corpora if entry["kind"] == BUDGET else entry["run"] in named_runs)
    ]


def finalize(connection: Connection, run: str | None = None) -> None:
    """Replace the pending charges of finished runs by their actual costs, and withdraw accesses that never began.

    A run whose noise check failed keeps its planned charge and is also an unprotected access: no divergence bounds its
    privacy loss. An unprotected access is withdrawn if its queued run ended before a worker claimed it, so that no step
    was taken, and has no record. A run that a worker claimed remains an access, whatever it computed.

    Args:
        connection: The transaction.
        run: Identity of one run, or None for all.
    """
    entries, _ = _entries(connection)
    for entry in _pending(entries):
        if run is None or entry["run"] == run:
            spent = _spent(connection, entry)
            if spent is not None:
                _append(connection, {**_head(entry), "kind": SPENT, "cost": spent})
                if failed_check(connection, entry["run"]):
                    what = f"{entry['what']}, {FAILED_CHECK}"
                    access = {"corpus": entry["corpus"], "name": entry["name"], "run": entry["run"], "what": what}
                    _append(connection, {**access, "kind": LOOK})

    for number, entry in _unused(entries):
        if (run is None or entry["run"] == run) and never_began(connection, entry["run"]):
            withdrawn = {name: entry[name] for name in ("corpus", "name", "run", "what")}
            _append(connection, {**withdrawn, "kind": UNUSED, "access": number})


def _unused(entries: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return the last unprotected access of each queued run on each corpus, with its number, unless withdrawn."""
    withdrawn = {entry["access"] for entry in entries if entry["kind"] == UNUSED}
    last = {
        (entry["corpus"], entry["run"]): (number, entry)
        for number, entry in enumerate(entries, start=1)
        if entry["kind"] == LOOK and entry.get("queued")
    }
    return [(number, entry) for number, entry in last.values() if number not in withdrawn]


def never_began(connection: Connection, run: str) -> bool:
    """Return whether a run ended before a worker claimed it; one that was queued again keeps its earlier records."""
    row = connection.execute(select(runs.c.state, runs.c.started).where(runs.c.run_id == run)).first()
    if row is None or row.state not in _FINAL or row.started is not None:
        return False
    return connection.execute(select(records.c.round).where(records.c.run_id == run).limit(1)).first() is None


def failed_check(connection: Connection, run: str) -> bool:
    """Return whether the noise check of a run, or of one of its clients, failed in any record.

    Unreadable records are ignored: their run keeps its whole charge.
    """
    for body in connection.execute(select(records.c.body).where(records.c.run_id == run)).scalars():
        with suppress(ValueError, TypeError, AttributeError):
            record = json.loads(body)
            if any((part.get("noise_check") or {}).get("faults") for part in (record, *record.get("platforms", ()))):
                return True
    return False


def charge(connection: Connection, wishes: Sequence[ChargeRequest], *, queued: bool = False) -> None:
    """Charge a run to its corpora that have a budget, before its first step.

    A run that a budget does not admit becomes an unprotected access if the user accepts that and may
    (:meth:`ChargeRequest.may_be_unprotected`).

    Args:
        connection: The transaction.
        wishes: The requests.
        queued: Whether the transaction also queues the run, which ends the access if it never begins.

    Raises:
        BudgetExceeded: If a budget does not admit the run. Nothing is charged.
        StoreError: If the ledger was modified from outside.
    """
    for wish, state, admitted in check(connection, wishes):
        budget = state.budget
        if budget is None:
            continue
        entry = {"corpus": wish.corpus, "name": wish.name, "run": wish.run, "what": wish.what}
        if not admitted:
            _append(connection, {**entry, "kind": LOOK, "queued": queued})
            continue
        cost = wish.cost(budget)
        earlier = next((booked.rdp for booked in state.bookings if booked.stream == wish.stream), 0.0)
        whole = earlier + cost if wish.again else max(earlier, cost)
        steps: dict[str, Any] = {
            "steps": wish.steps,
            "even": wish.even,
            "before": earlier,
            "again": wish.again,
            "own": cost,
            "parties": wish.parties,
            "neighbouring": wish.neighbouring(budget),
        }
        kind = SPENT if wish.ended else BOOKED
        _append(connection, {**entry, "kind": kind, "stream": wish.stream, "cost": whole, **steps})


def check(connection: Connection, wishes: Sequence[ChargeRequest]) -> list[tuple[ChargeRequest, BudgetState, bool]]:
    """Return each request with its account, and whether the budget admits it; the others are unprotected accesses.

    Raises:
        BudgetExceeded: If a budget does not admit a request, and it cannot be an unprotected access.
        StoreError: If the ledger was modified from outside.
    """
    if wishes:
        finalize(connection)
    found = []
    for wish in wishes:
        state = _account(connection, wish.corpus, wish.name)
        refused = problem(state, wish)
        if refused and state.budget and not (wish.unprotected and wish.may_be_unprotected(state.budget)):
            raise BudgetExceeded(refused)
        found.append((wish, state, not refused))
    return found


def set_total(
    connection: Connection, corpus: str, name: str, budget: Budget, earlier: Iterable[dict[str, Any]]
) -> None:
    """Set or change the budget of a corpus.

    Args:
        connection: The transaction.
        corpus: Checksum of the corpus.
        name: Name of the corpus.
        budget: The budget.
        earlier: Entries for trainings on the corpus before it had a budget.

    Raises:
        BudgetExceeded: If the charges already exceed the budget.
        StoreError: If the ledger was modified from outside.
    """
    finalize(connection)
    _append(connection, {"kind": BUDGET, "corpus": corpus, "name": name, **asdict(budget)})
    for entry in earlier:
        _append(connection, {"corpus": corpus, "name": name, **entry})
    state = _account(connection, corpus, name)
    if state.share > 1:
        raise BudgetExceeded(
            f"epsilon={budget.epsilon:g}: earlier training on the corpus {name} already used {state.share:.0%} of this "
            f"total at δ = {budget.delta:g} for each {budget.unit} (adjacency: {state.adjacency}); expected a larger ε"
        )


def problem(now: BudgetState, wish: ChargeRequest) -> str:
    """Return why a budget does not admit a run; empty if it does, or without a budget.

    Args:
        now: The budget and its charges.
        wish: The charge of the run.
    """
    budget = now.budget
    if budget is None:
        return ""
    total, cost = f"{wish.shared}{_total_text(now, budget, wish.title or now.name)}", wish.cost(budget)
    if math.isinf(cost):
        return f"{total}; this run has no privacy guarantee for a {budget.unit}, so it cannot be charged. {UNPROTECTED}"
    if budget.unit == "client" and any(booked.parties not in ("", wish.parties) for booked in now.bookings):
        return f"{total}; {OTHER_CLIENTS}" + (f". {UNPROTECTED}" if wish.shared else "")
    share = now.with_more(wish.stream, cost, again=wish.again)
    if share <= 1:
        return ""
    whole = f"{share:.0%}" if share < 10 else "more than ten times the budget"
    return (
        f"{total}. {now.share:.0%} of it is used, and this run would raise that to {whole}. The budget adds Rényi "
        "divergences. So a run can exceed the budget although its own ε does not. Use more noise, fewer epochs or a "
        "larger budget"
    ) + (f". {UNPROTECTED}" if wish.shared else "")


def _total_text(now: BudgetState, budget: Budget, title: str) -> str:
    guarantee = f"ε = {budget.epsilon:g} at δ = {budget.delta:g} for each {budget.unit}"
    return f"The budget of {title} is {guarantee} (adjacency: {now.adjacency})"


def _state(corpus: str, name: str, entries: Sequence[dict[str, Any]], chain_hash: str) -> BudgetState:
    totals: list[Budget] = []
    charges: dict[str, Charge] = {}
    accesses: dict[int, UnprotectedAccess] = {}
    for entry in entries:
        if entry["kind"] == BUDGET:
            totals.append(Budget(**{key: entry[key] for key in ("epsilon", "delta", "unit", "order", "set_at")}))
        elif entry["kind"] == LOOK:
            access = UnprotectedAccess(run=entry["run"], what=entry["what"], at=entry["at"], published=not entry["run"])
            accesses[entry["number"]] = access
        elif entry["kind"] == UNUSED:
            accesses.pop(entry["access"], None)
        else:
            charges[entry["stream"]] = Charge(
                stream=entry["stream"],
                run=entry["run"],
                what=entry["what"],
                rdp=float(entry["cost"]),
                pending=entry["kind"] == BOOKED,
                at=entry["at"],
                parties=entry.get("parties", ""),
                neighbouring=entry.get("neighbouring", ""),
            )
    last_name = entries[-1]["name"] if entries else name
    return BudgetState(
        corpus=corpus,
        name=name or last_name,
        totals=tuple(totals),
        bookings=tuple(charges.values()),
        looks=tuple(accesses.values()),
        chain_hash=chain_hash,
    )


def _pending(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last entry of each stream on each corpus, if it is the charge of an unfinished run."""
    last = {(entry["corpus"], entry["stream"]): entry for entry in entries if entry["kind"] in (BOOKED, SPENT)}
    return [entry for entry in last.values() if entry["kind"] == BOOKED]


def _head(entry: dict[str, Any]) -> dict[str, Any]:
    names = ("corpus", "name", "run", "what", "stream", "parties", "neighbouring")
    return {name: entry[name] for name in names if name in entry}


def _spent(connection: Connection, entry: dict[str, Any]) -> float | None:
    """Return the actual cost of a finished run, a Rényi divergence at the budget's order.

    A run releases its records, so that a cancelled run counts up to its last record. A failed run counts in full: that
    it failed, and when, can depend on steps after its last record, as when weights diverge. The result is None for a
    run that is unfinished or no longer in the store: it keeps its whole charge.
    """
    state = connection.execute(select(runs.c.state).where(runs.c.run_id == entry["run"])).scalar()
    if state not in _FINAL:
        return None
    whole = float(entry["cost"])
    if state != "cancelled":
        return whole
    body = connection.execute(
        select(records.c.body).where(records.c.run_id == entry["run"]).order_by(records.c.round.desc()).limit(1)
    ).scalar()
    try:
        steps = int(json.loads(body)["step"]) if body else 0
    except (ValueError, TypeError, KeyError):
        return whole
    if steps == 0:
        return float(entry["before"])
    if not entry["even"]:
        return whole
    partial = float(entry["own"]) * min(1.0, steps / int(entry["steps"]))
    before = float(entry["before"])
    return before + partial if entry["again"] else max(before, partial)


def _entries(connection: Connection) -> tuple[list[dict[str, Any]], str]:
    """Return all entries and the last chain hash. Raises StoreError if the chain is broken."""
    entries, chain_hash = [], ""
    query = select(bookings.c.number, bookings.c.entry, bookings.c.seal).order_by(bookings.c.number)
    for number, row in enumerate(connection.execute(query), start=1):
        valid = row.number == number and row.seal == _chain_hash(chain_hash, row.number, row.entry)
        try:
            entries.append(json.loads(row.entry) | {"number": number})
        except ValueError:
            valid = False
        if not valid:
            raise StoreError(
                f"The privacy ledger was modified from outside at entry {number:,}, so it accepts no charges. Restore "
                "an earlier copy of the database."
            )
        chain_hash = row.seal
    return entries, chain_hash


def _append(connection: Connection, entry: dict[str, Any]) -> None:
    last = connection.execute(
        select(bookings.c.number, bookings.c.seal).order_by(bookings.c.number.desc()).limit(1)
    ).first()
    number, before = (last.number + 1, last.seal) if last else (1, "")
    text = json.dumps({"at": _now(), **entry}, sort_keys=True, ensure_ascii=False, allow_nan=False)
    connection.execute(insert(bookings).values(number=number, entry=text, seal=_chain_hash(before, number, text)))


def _chain_hash(before: str, number: int, entry: str) -> str:
    return hashlib.sha256(f"{before}\n{number}\n{entry}".encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
