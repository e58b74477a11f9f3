"""The access file of a shared dashboard, and the roles of users who sign in."""

import pytest

from engine.access import roles
from engine.access.roles import Limits, Role
from engine.errors import InvalidConfig, NotAllowed

AUTH = {
    "redirect_uri": "https://epsilon.example.org/oauth2callback",
    "cookie_secret": "c" * 32,
    "client_id": "epsilon",
    "client_secret": "s",
    "server_metadata_url": "https://login.example.org/.well-known/openid-configuration",
}
PEOPLE = 'admin = ["Ada@example.org"]\nrunner = ["*@lab.example.org"]\nviewer = ["*"]'


def text(people: str = PEOPLE, limits: str = "", **auth: str) -> str:
    lines = "\n".join(f'{name} = "{value}"' for name, value in (AUTH | auth).items() if value)
    return f"[auth]\n{lines}\n[people]\n{people}\n{limits}"


@pytest.fixture
def file(tmp_path):
    """Return a function that writes the access file and returns its path."""

    def write(content: str, mode: int = 0o600):
        path = tmp_path / "access.toml"
        path.write_text(content)
        path.chmod(mode)
        return path

    return write


def claims(email: object = "ada@example.org", **more: object) -> dict[str, object]:
    return {"sub": "1", "email": email, "email_verified": True} | more


def test_role_is_that_of_the_name_the_domain_or_all_users(file):
    access = roles.read(file(text(limits="[limits]\nruns = 3")))
    assert access.person(claims("ADA@example.org")).role == Role.ADMIN
    assert access.person(claims("rita@lab.example.org")).role == Role.RUNNER
    assert access.person(claims("vera@example.net")).role == Role.VIEWER
    person = access.person(claims("Rita@Lab.example.org"))
    assert (person.name, person.limits) == ("rita@lab.example.org", Limits(runs=3, uploads=20))
    assert [role for role in Role if Role.RUNNER.may(role)] == [Role.VIEWER, Role.RUNNER]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rita@evil-lab.example.org.example.net", "has no role here"),
        ("rita@sub.lab.example.org", "has no role here"),
        ("x@y@lab.example.org.", "has no role here"),
        ("*", "has no role here"),
        ("", "has no claim email"),
        (None, "has no claim email"),
        (["ada@example.org"], "has no claim email"),
        ("a" * 60 + "@example.org", "has no claim email"),
        ("ada@example.org\n", "has no claim email"),
        ("ada@example.org\u202e", "has no claim email"),
    ],
)
def test_other_names_have_no_role(file, name, message):
    access = roles.read(file(text('admin = ["ada@example.org"]\nrunner = ["*@lab.example.org"]')))
    with pytest.raises(NotAllowed, match=message):
        access.person(claims(name))


@pytest.mark.parametrize("verified", [False, None, "true", 1, "missing"])
def test_an_unverified_address_is_refused(file, verified):
    unverified = claims(email_verified=verified)
    if verified == "missing":
        del unverified["email_verified"]
    with pytest.raises(NotAllowed, match="not verified the address"):
        roles.read(file(text())).person(unverified)


def test_claim_selects_another_claim_than_email(file):
    access = roles.read(file(text('claim = "oid"\nadmin = ["B7"]\nrunner = ["b7"]')))
    assert access.person({"oid": "B7", "email": "ada@example.org"}).role == Role.ADMIN
    assert access.person({"oid": "b7"}).role == Role.RUNNER
    with pytest.raises(NotAllowed, match="has no claim oid"):
        access.person(claims())


def test_a_session_expires_after_twelve_hours():
    assert roles.is_current({"iat": 1000}, 1000 + 3600 * roles.HOURS - 1)
    assert not roles.is_current({"iat": 1000}, 1000 + 3600 * roles.HOURS + 1)
    assert roles.is_current({"iat": 1000}, 900)  # clocks differ
    assert not roles.is_current({"iat": 10_000}, 1000)
    for missing in ({}, {"iat": None}, {"iat": "1000"}):
        assert not roles.is_current(missing, 1000)


def test_a_changed_file_takes_effect(file):
    assert roles.read(file(text())).role("ada@example.org") == Role.ADMIN
    changed = file(text('admin = ["rudi@example.org"]\nviewer = ["ada@example.org"]'))
    assert roles.read(changed).role("ada@example.org") == Role.VIEWER


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[auth", "is not valid TOML"),
        ("auth = 3", "auth=3, expected a section"),
        (text(client_secret=""), "auth.client_secret is missing"),
        (text(cookie_secret="short"), "auth.cookie_secret has 5 characters, expected 32"),  # pragma: allowlist secret
        (text(redirect_uri="http://epsilon.example.org/oauth2callback"), "expected https://"),
        (text(redirect_uri="https://epsilon.example.org/"), "expected /oauth2callback"),
        (text('viewer = ["*"]'), "people.admin is empty"),
        (text('admin = ["*"]'), 'people.admin has "*"'),
        (text('admin = ["a"]\nowner = ["b"]'), "people.owner, expected claim, viewer, runner, admin"),
        (text('admin = "a"'), "people.admin='a', expected a list of names"),
        (text('admin = ["a", 3]'), "expected a list of names"),
        (text('admin = ["a"]\nviewer = ["A"]'), "people.viewer has 'a' again"),
        (text('claim = "name"\nadmin = ["a"]'), "people.claim='name', expected email, sub or oid"),
        (text(limits="[limits]\nruns = 0"), "limits.runs=0, expected a whole number from 1"),
        (text(limits="[limits]\ndisk = 3"), "limits.disk, expected runs or uploads"),
    ],
)
def test_an_invalid_file_is_refused_with_its_field(file, content, message):
    with pytest.raises(InvalidConfig) as refused:
        roles.read(file(content))
    assert str(refused.value).startswith("EPSILON_ACCESS_FILE=")
    assert message in str(refused.value)


def test_a_missing_or_world_readable_file_is_refused(file, tmp_path):
    with pytest.raises(InvalidConfig, match=r"other users, .*chmod 600"):
        roles.read(file(text(), 0o644))
    with pytest.raises(InvalidConfig, match="No such file"):
        roles.read(tmp_path / "none.toml")
