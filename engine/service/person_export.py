"""Export of all that is held on a person who signs in, as a zip with JSON and the texts of their corpora."""

import json
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, Any

from engine import VERSION
from engine.access import roles
from engine.access.roles import SIGN_OUT, AuditLogEntry, Belongings
from engine.corpus.files import own_files
from engine.errors import CorpusError, EpsilonError, InvalidConfig, NotAllowed
from engine.service.application import Application

_SUBMISSIONS = ("run", "run again", "audit", "delete")
"""Actions of the audit log whose target is a run of the user, which may have been deleted."""
_LEFT_OUT = (
    "Saved taggers: the owner can use them on the page Tag text.",
    "Notes on runs that other users submitted too, since another user may have written them.",
    "Actions of other users, such as an admin, on the person's runs and corpora.",
    "Logs of the server and the reverse proxy, backups, and the account at the sign-in provider.",
)


def write(app: Application, person: str, file: IO[bytes]) -> dict[str, int]:
    """Write the export of a person to a file.

    Args:
        app: The application of the person, of an admin, or of the operator.
        person: Name of the person, as the sign-in provider confirms it.
        file: The zip is written here.

    Returns:
        The number of items by kind.

    Raises:
        NotAllowed: The user is neither this person nor an admin.
        InvalidConfig: Nothing is held on the person.
        StoreError: The database failed.
    """
    access = roles.read(app.settings.access) if app.settings.access else None
    if access and access.claim == "email":
        person = person.lower()
    held = app.access.belongings(person)
    if not held.runs and not held.corpora and not held.log:
        raise InvalidConfig(f"name={person!r}: nothing is held on this person, expected a name in the audit log")
    corpora = {name: path for name, path in own_files(app.settings).items() if name in held.corpora}
    checksums = set()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        listed = []
        for name, path in corpora.items():
            inside = [path] if path.is_file() else sorted(path.rglob("*"))
            texts = [each for each in inside if each.is_file() and not each.is_symlink()]
            for text in texts:
                archive.write(text, f"corpora/{text.relative_to(path.parent).as_posix()}")
            listed.append({"name": name, "bytes": sum(text.stat().st_size for text in texts), "files": len(texts)})
            with suppress(CorpusError):
                checksums.add(app.budgets.accounts.key_of(name)[0])
        submitted = {entry.subject for entry in held.log if entry.action in _SUBMISSIONS}
        values: dict[str, Any] = {
            "person": person,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "program": f"Epsilon Explorer {VERSION}",
            "account": _account(access, person),
            "sign_ins": [_time(entry.at) for entry in held.log if entry.action == "sign in"],
            "sign_outs": [_time(entry.at) for entry in held.log if entry.action == SIGN_OUT],
            "runs": _runs(app, held),
            "corpora": listed,
            "audit_log": [_entry(entry) for entry in held.log],
            "budget_entries": app.budgets.accounts.entries_of(held.runs | submitted, checksums),
            "left_out": _LEFT_OUT,
        }
        archive.writestr("person.json", json.dumps(values, indent=1, ensure_ascii=False))
    return {name: len(values[name]) for name in ("runs", "corpora", "audit_log", "budget_entries")}


def _account(access: roles.Access | None, person: str) -> Mapping[str, Any]:
    if access is None:
        return {"role": None}
    try:
        role: str | None = str(access.role(person))
    except NotAllowed:  # no longer a user
        role = None
    return {"role": role, "identified_by": access.claim, "limits": vars(access.limits)}


def _runs(app: Application, held: Belongings) -> list[dict[str, Any]]:
    notes, found = app.queries.notes(), []
    for identity in sorted(held.runs):
        fields: dict[str, Any] = {"run_id": identity, "shared": identity in held.shared}
        fields["also_of_other_users"] = identity in held.joint
        if identity not in held.joint:
            fields["note"] = notes.get(identity, "")
        try:
            run = app.queries.get(identity)
        except EpsilonError as error:
            found.append(fields | {"problem": str(error)})
            continue
        status = run.status
        times = {"submitted": status.created, "started": status.started, "ended": status.finished}
        found.append(
            fields
            | {name: at and _time(at) for name, at in times.items()}
            | {"kind": str(run.kind), "state": str(status.state), "error": status.error, "parent": run.parent}
            | {"settings": run.config.to_dict(), "records": [record.to_dict() for record in run.records]}
        )
    return found


def _entry(entry: AuditLogEntry) -> dict[str, Any]:
    return {"at": _time(entry.at), "action": entry.action, "target": entry.subject, "refused": entry.refused}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
