"""Roles of the users of a shared dashboard.

The operator sets them in a file (EPSILON_ACCESS_FILE). Streamlit reads its sign-in from the same file: the section
``[auth]`` is Streamlit's, the other sections are ours::

    [auth]
    redirect_uri = "https://epsilon.example.org/oauth2callback"
    cookie_secret = "…"
    client_id = "…"
    client_secret = "…"
    server_metadata_url = "https://login.example.org/.well-known/openid-configuration"

    [people]
    admin = ["ada@example.org"]
    runner = ["rita@example.org", "*@lab.example.org"]
    viewer = ["*"]

    [limits]
    runs = 20
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine.errors import InvalidConfig, NotAllowed
from engine.validation import integer

EVERYBODY = "*"
"""Any user who can sign in."""
_SECRETS = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
_SHORTEST = 32
"""Minimum length of the cookie secret in characters: an attacker who guesses it can impersonate any user."""
_LONGEST_NAME = 64
SIGN_OUT = "sign out"
"""Action in the audit log; its subject is the time of the sign-in, by the identity provider's clock."""
HOURS = 12
"""Hours until a session expires: a provider does not report that a user has left."""


class Role(StrEnum):
    """Roles of users; each has more permissions than the one before."""

    VIEWER = "viewer"
    RUNNER = "runner"
    ADMIN = "admin"

    def may(self, needed: "Role") -> bool:
        """Return whether this role includes the permissions of ``needed``."""
        roles = list(Role)
        return roles.index(self) >= roles.index(needed)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one user.

    Attributes:
        runs: Queued and running runs at a time.
        uploads: Uploaded corpora.
    """

    runs: int = 20
    uploads: int = 20

    def __post_init__(self) -> None:
        for name in ("runs", "uploads"):
            integer(f"limits.{name}", getattr(self, name), 1, 100_000)


@dataclass(frozen=True, kw_only=True)
class User:
    """A signed-in user.

    Attributes:
        name: Name that the identity provider confirms, usually an e-mail address.
        role: The user's role.
        limits: The user's limits.
    """

    name: str
    role: Role
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True)
class AuditLogEntry:
    """An action of a user.

    Attributes:
        number: Number of the entry.
        at: Seconds since 1970 UTC.
        person: Name of the user.
        action: The action.
        subject: A run, a corpus, or a file name.
        refused: Whether the user lacked permission.
    """

    number: int
    at: float
    person: str
    action: str
    subject: str
    refused: bool


@dataclass(frozen=True, kw_only=True)
class Belongings:
    """What the database holds on a user.

    Attributes:
        person: Name of the user.
        runs: Identities of the user's runs.
        shared: Those that the user has made visible to all users.
        joint: Those that other users submitted too.
        corpora: Names of the user's uploaded corpora.
        log: The user's entries in the audit log, newest first.
    """

    person: str
    runs: frozenset[str]
    shared: frozenset[str]
    joint: frozenset[str]
    corpora: frozenset[str]
    log: tuple[AuditLogEntry, ...]


@dataclass(frozen=True, kw_only=True)
class Access:
    """The content of the operator's file.

    Attributes:
        roles: Role by user name, by ``*@`` and a domain, or by ``*``.
        claim: OpenID Connect claim that identifies a user.
        limits: Limits of each user.
        host: Name of the server, as in ``redirect_uri``.
    """

    roles: Mapping[str, Role]
    claim: str
    limits: Limits
    host: str = ""

    def person(self, claims: Mapping[str, Any]) -> User:
        """Return the user that these claims identify (OpenID Connect Core 1.0, sections 2 and 5.1).

        Raises:
            NotAllowed: If the claims identify no user, or the user has no role.
        """
        name = claims.get(self.claim)
        if not isinstance(name, str) or not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise NotAllowed(
                f"The sign-in has no claim {self.claim} of at most {_LONGEST_NAME} characters that identifies a user."
            )
        if self.claim == "email":
            if claims.get("email_verified") is not True:
                raise NotAllowed(f"The identity provider has not verified the address {name}.")
            name = name.lower()
        return User(name=name, role=self.role(name), limits=self.limits)

    def role(self, name: str) -> Role:
        """Return the role of a user. Raises NotAllowed if there is none."""
        domain = f"*@{name.rpartition('@')[2]}" if "@" in name else ""
        role = next((self.roles[key] for key in (name, domain, EVERYBODY) if key in self.roles), None)
        if role is None or name == EVERYBODY:
            raise NotAllowed(f"{name} has no role here. The operator of this dashboard can assign one.")
        return role


def is_current(claims: Mapping[str, Any], now: float) -> bool:
    """Return whether a session has not expired, with five minutes of tolerance for the provider's clock.

    Args:
        claims: Claims of the sign-in.
        now: Seconds since 1970 UTC.
    """
    signed_in = claims.get("iat")
    return isinstance(signed_in, int | float) and 0 <= now + 300 - signed_in < 3600 * HOURS + 300


def read(path: Path) -> Access:
    """Return the operator's file, which is read again after a change. Raises InvalidConfig."""
    try:
        status = path.stat()
    except OSError as error:
        raise InvalidConfig(f"EPSILON_ACCESS_FILE={path} cannot be read: {error.strerror}") from error
    if os.name == "posix" and status.st_mode & 0o077:
        raise InvalidConfig(
            f"EPSILON_ACCESS_FILE={path} may be read by other users, who could impersonate anyone: chmod 600 it"
        )
    return _read(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=2)
def _read(path: Path, size: int, changed: int) -> Access:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfig(f"EPSILON_ACCESS_FILE={path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfig(f"EPSILON_ACCESS_FILE={path} is not valid TOML: {error}") from error
    try:
        return _parse(content)
    except InvalidConfig as error:
        raise InvalidConfig(f"EPSILON_ACCESS_FILE={path}: {error}") from error


def _parse(content: Mapping[str, Any]) -> Access:
    sections = {name: content.get(name, {}) for name in ("auth", "people", "limits")}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise InvalidConfig(f"{name}={section!r}, expected a section [{name}]")
    auth, people, limits = sections.values()
    for name in _SECRETS:
        if not isinstance(auth.get(name), str) or not auth[name]:
            raise InvalidConfig(f"auth.{name} is missing; Streamlit's sign-in requires it")
    if len(auth["cookie_secret"]) < _SHORTEST:
        raise InvalidConfig(f"auth.cookie_secret has {len(auth['cookie_secret'])} characters, expected {_SHORTEST}")
    redirect = urlsplit(auth["redirect_uri"])
    if redirect.scheme != "https" and not (
        redirect.scheme == "http" and redirect.hostname in ("localhost", "127.0.0.1")
    ):
        raise InvalidConfig(f"auth.redirect_uri={auth['redirect_uri']!r}, expected https:// (http:// for localhost)")
    if redirect.path != "/oauth2callback":
        raise InvalidConfig(f"auth.redirect_uri={auth['redirect_uri']!r}, expected /oauth2callback at its end")
    claim = people.get("claim", "email")
    if claim not in ("email", "sub", "oid"):
        raise InvalidConfig(f"people.claim={claim!r}, expected email, sub or oid")
    roles = dict(_roles(people, lower=claim == "email"))
    if Role.ADMIN not in roles.values():
        raise InvalidConfig("people.admin is empty, expected at least one administrator")
    if roles.get(EVERYBODY) == Role.ADMIN:
        raise InvalidConfig(
            'people.admin has "*", expected names: anyone who can sign in could see and change everything'
        )
    unknown = set(limits) - {"runs", "uploads"}
    if unknown:
        raise InvalidConfig(f"limits.{min(unknown)}, expected runs or uploads")
    return Access(roles=roles, claim=claim, limits=Limits(**limits), host=redirect.hostname or "")


def _roles(people: Mapping[str, Any], *, lower: bool) -> Mapping[str, Role]:
    roles: dict[str, Role] = {}
    for key, names in people.items():
        if key == "claim":
            continue
        if key not in list(Role):
            raise InvalidConfig(f"people.{key}, expected claim, {', '.join(Role)}")
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise InvalidConfig(f"people.{key}={names!r}, expected a list of names")
        for name in (name.lower() if lower else name for name in names):
            if name in roles:
                raise InvalidConfig(f"people.{key} has {name!r} again, expected one role for each name")
            roles[name] = Role(key)
    return roles
