"""The book of budgets: entries that are only ever added, each sealed with all before it by SHA-256.

Entries, in the order of their numbers, say what an account is (:class:`engine.privacy.budget.BudgetState`). One that
was changed, taken out or put in between breaks the seals after it, and then nothing more is booked. Whoever rewrites
all later entries too, or cuts off the last ones, is found out by whoever kept a seal, and by nobody else: the program
has no secret that its user has not.

All of it happens on a connection of :meth:`engine.store.run_store.RunStore.exclusive`.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
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
    Budget,
    BudgetState,
    Charge,
    ChargeRequest,
    UnprotectedAccess,
)
from engine.store.schema import bookings, records, runs

OTHER_CLIENTS = (
    "what is booked was counted for other clients than this run's, each of which has sentences of several of those, so "
    "that no sum holds for any of them: split the corpus as before (partition, clients, share of the data, seed)"
)
FAILED_CHECK = "failed its noise check: nothing is promised"
"""Why a run that stays booked is a look too."""
_FINAL = ("done", "failed", "cancelled")


def stamp(connection: Connection) -> tuple[int, float]:
    """What changes with each run that is submitted: how many there are, and when the last one was."""
    count, last = connection.execute(select(func.count(), func.max(runs.c.created))).one()
    return int(count), float(last or 0.0)


def account(connection: Connection, corpus: str, name: str = "") -> BudgetState:
    """What the book says of a corpus, runs that have ended settled. Raises StoreError where it was changed by hand."""
    finalize(connection)
    return _account(connection, corpus, name)


def _account(connection: Connection, corpus: str, name: str) -> BudgetState:
    entries, seal = _entries(connection)
    return _folded(corpus, name, [each for each in entries if each["corpus"] == corpus], seal)


def accounts(connection: Connection) -> list[BudgetState]:
    """Those of all corpora that have a budget, as they are booked. Raises StoreError."""
    entries, seal = _entries(connection)
    of_each = {entry["corpus"]: [each for each in entries if each["corpus"] == entry["corpus"]] for entry in entries}
    found = [_folded(corpus, "", theirs, seal) for corpus, theirs in of_each.items()]
    return [each for each in found if each.budget]


def has_budgets(connection: Connection) -> bool:
    """Whether there is any entry: without one no corpus has a budget."""
    return connection.execute(select(bookings.c.number).limit(1)).first() is not None


def finalize(connection: Connection, run: str | None = None) -> None:
    """Book what runs that have ended really took: all, or one. One whose noise check failed stays booked, as what was
    meant, and is a look too: no divergence bounds what it took."""
    entries, _ = _entries(connection)
    for entry in _open(entries):
        if run is None or entry["run"] == run:
            spent = _spent(connection, entry)
            if spent is not None:
                _append(connection, {**_head(entry), "kind": SPENT, "cost": spent})
                if failed_check(connection, entry["run"]):
                    what = f"{entry['what']}, {FAILED_CHECK}"
                    look = {"corpus": entry["corpus"], "name": entry["name"], "run": entry["run"], "what": what}
                    _append(connection, {**look, "kind": LOOK})


def failed_check(connection: Connection, run: str) -> bool:
    """Whether the noise check of a run, or of one of its platforms, failed at any record. One that cannot be read says
    nothing here: of it all stays booked."""
    for body in connection.execute(select(records.c.body).where(records.c.run_id == run)).scalars():
        with suppress(ValueError, TypeError, AttributeError):
            record = json.loads(body)
            if any((each.get("noise_check") or {}).get("faults") for each in (record, *record.get("platforms", ()))):
                return True
    return False


def charge(connection: Connection, wishes: Sequence[ChargeRequest]) -> None:
    """Book a run on its corpora that have a budget, before its first step. Raises BudgetExceeded, in which case nothing
    is booked, StoreError."""
    if wishes:
        finalize(connection)
    for wish in wishes:
        now = _account(connection, wish.corpus, wish.name)
        budget = now.budget
        if budget is None:
            continue
        entry = {"corpus": wish.corpus, "name": wish.name, "run": wish.run, "what": wish.what}
        if wish.looks:
            _append(connection, {**entry, "kind": LOOK})
            continue
        if budget.unit == "client" and any(each.parties not in ("", wish.parties) for each in now.bookings):
            raise BudgetExceeded(f"{_total_text(now.name, budget)}; {OTHER_CLIENTS}")
        cost = wish.cost(budget)
        share = now.with_more(wish.stream, cost, again=wish.again)
        if not share <= 1:
            raise BudgetExceeded(refusal(now, share))
        earlier = next((each.rdp for each in now.bookings if each.stream == wish.stream), 0.0)
        whole = earlier + cost if wish.again else max(earlier, cost)
        steps: dict[str, Any] = {
            "steps": wish.steps,
            "even": wish.even,
            "before": earlier,
            "again": wish.again,
            "own": cost,
        }
        steps["parties"] = wish.parties
        kind = SPENT if wish.ended else BOOKED
        _append(connection, {**entry, "kind": kind, "stream": wish.stream, "cost": whole, **steps})


def set_total(
    connection: Connection, corpus: str, name: str, budget: Budget, earlier: Iterable[dict[str, Any]]
) -> None:
    """Set a corpus's total, or another one. earlier: what was trained on it before it had any, as entries. Raises
    BudgetExceeded where more is spent already, StoreError."""
    finalize(connection)
    _append(connection, {"kind": BUDGET, "corpus": corpus, "name": name, **asdict(budget)})
    for entry in earlier:
        _append(connection, {"corpus": corpus, "name": name, **entry})
    now = _account(connection, corpus, name)
    if now.share > 1:
        raise BudgetExceeded(
            f"epsilon={budget.epsilon:g}: what was trained on {name} already takes {now.share:.0%} of that, at δ = "
            f"{budget.delta:g} of each {budget.unit}; expected more"
        )


def refusal(now: BudgetState, share: float) -> str:
    """Why a run is not admitted, with the sum."""
    budget = now.budget
    if budget is None:
        return ""
    total = _total_text(now.name, budget)
    if share == float("inf"):
        return f"{total}; this run promises nothing to a {budget.unit}, so it cannot be booked"
    whole = f"{share:.0%}" if share < 10 else "more than ten times all of it"
    return (
        f"{total}. {now.share:.0%} of it is booked, and this run would make that {whole}: more noise, fewer epochs "
        "or another total may help"
    )


def _total_text(name: str, budget: Budget) -> str:
    return f"The budget of {name} is ε = {budget.epsilon:g} at δ = {budget.delta:g} of each {budget.unit}"


def _folded(corpus: str, name: str, entries: Sequence[dict[str, Any]], seal: str) -> BudgetState:
    totals: list[Budget] = []
    booked: dict[str, Charge] = {}
    looks: list[UnprotectedAccess] = []
    for entry in entries:
        if entry["kind"] == BUDGET:
            totals.append(Budget(**{key: entry[key] for key in ("epsilon", "delta", "unit", "order", "set_at")}))
        elif entry["kind"] == LOOK:
            looks.append(UnprotectedAccess(run=entry["run"], what=entry["what"], at=entry["at"]))
        else:
            booked[entry["stream"]] = Charge(
                stream=entry["stream"],
                run=entry["run"],
                what=entry["what"],
                rdp=float(entry["cost"]),
                pending=entry["kind"] == BOOKED,
                at=entry["at"],
                parties=entry.get("parties", ""),
            )
    called = entries[-1]["name"] if entries else name
    return BudgetState(
        corpus=corpus,
        name=name or called,
        totals=tuple(totals),
        bookings=tuple(booked.values()),
        looks=tuple(looks),
        chain_hash=seal,
    )


def _open(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last entry of each stream on each corpus that is of a run that had not ended."""
    last = {(entry["corpus"], entry["stream"]): entry for entry in entries if entry["kind"] in (BOOKED, SPENT)}
    return [entry for entry in last.values() if entry["kind"] == BOOKED]


def _head(entry: dict[str, Any]) -> dict[str, Any]:
    names = ("corpus", "name", "run", "what", "stream", "parties")
    return {name: entry[name] for name in names if name in entry}


def _spent(connection: Connection, entry: dict[str, Any]) -> float | None:
    """What a run that has ended took, None while it goes on, or where it is not known any more: then all of it stays
    booked. What is released of a run are its records; a run that was stopped counts to the last of them."""
    state = connection.execute(select(runs.c.state).where(runs.c.run_id == entry["run"])).scalar()
    if state is None or state not in _FINAL:
        return None
    whole = float(entry["cost"])
    if state == "done":
        return whole
    body = connection.execute(
        select(records.c.body).where(records.c.run_id == entry["run"]).order_by(records.c.round.desc()).limit(1)
    ).scalar()
    try:
        taken = int(json.loads(body)["step"]) if body else 0
    except (ValueError, TypeError, KeyError):
        return whole
    if taken == 0:
        return float(entry["before"])
    if not entry["even"]:
        return whole
    part = float(entry["own"]) * min(1.0, taken / int(entry["steps"]))
    before = float(entry["before"])
    return before + part if entry["again"] else max(before, part)


def _entries(connection: Connection) -> tuple[list[dict[str, Any]], str]:
    found, seal = [], ""
    query = select(bookings.c.number, bookings.c.entry, bookings.c.seal).order_by(bookings.c.number)
    for place, row in enumerate(connection.execute(query), start=1):
        good = row.number == place and row.seal == _sealed(seal, row.number, row.entry)
        try:
            found.append(json.loads(row.entry))
        except ValueError:
            good = False
        if not good:
            raise StoreError(
                f"The book of budgets was changed by hand at entry {place:,}: nothing is booked on top of that. Bring "
                "back a copy of the database from before."
            )
        seal = row.seal
    return found, seal


def _append(connection: Connection, entry: dict[str, Any]) -> None:
    last = connection.execute(
        select(bookings.c.number, bookings.c.seal).order_by(bookings.c.number.desc()).limit(1)
    ).first()
    number, before = (last.number + 1, last.seal) if last else (1, "")
    text = json.dumps({"at": _now(), **entry}, sort_keys=True, ensure_ascii=False, allow_nan=False)
    connection.execute(insert(bookings).values(number=number, entry=text, seal=_sealed(before, number, text)))


def _sealed(before: str, number: int, entry: str) -> str:
    return hashlib.sha256(f"{before}\n{number}\n{entry}".encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
