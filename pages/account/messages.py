"""Texts of the page Account."""

from collections.abc import Sequence

from engine.access.roles import Role, User
from engine.records import Run

_ALLOWED = {
    Role.VIEWER: "See published and shared runs, tag your own text with their models, and download figures.",
    Role.RUNNER: "Start runs and audits, upload corpora, set their budgets, and open a class poll. Your runs and "
    "corpora are private until you share them: a run on the page Runs, a corpus on Explore.",
    Role.ADMIN: "See and change the data of all users, set the budgets of public corpora, publish runs, and read the "
    "audit log.",
}


def who(person: User) -> str:
    """Return the heading: the user and their role."""
    article = "an" if person.role == Role.ADMIN else "a"
    name = person.name.replace("`", "'")
    return f"You are `{name}`, {article} {person.role}"


def allowed(role: Role) -> list[str]:
    """Return a sentence for each permission of a role."""
    return [said for each, said in _ALLOWED.items() if role.may(each)]


def holds(person: User, own: Sequence[Run], corpora: int) -> str:
    """Return how much of the limits is used, given the user's runs and the number of uploaded corpora."""
    active = sum(not run.status.state.final for run in own)
    limits = person.limits
    return (
        f"Active runs: {active:,} of {limits.runs:,}. Stored runs: {len(own):,}. "
        f"Uploaded corpora: {corpora:,} of {limits.uploads:,}."
    )
