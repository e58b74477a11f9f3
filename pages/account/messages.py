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
"""Permissions by the role that they require."""


def heading(user: User) -> str:
    """Return the heading: the user and their role."""
    article = "an" if user.role == Role.ADMIN else "a"
    name = user.name.replace("`", "'")
    return f"You are `{name}`, {article} {user.role}"


def allowed(role: Role) -> list[str]:
    """Return a sentence for each permission of a role."""
    return [text for required, text in _ALLOWED.items() if role.may(required)]


def retention(days: int) -> str:
    """Return what is deleted after a number of days."""
    return (
        f"After {days:,} days without use, ended runs and uploaded corpora are deleted here, and entries of the audit "
        "log. Charges to privacy budgets and published runs stay."
    )


def usage(user: User, own: Sequence[Run], corpora: int) -> str:
    """Return the usage of the limits.

    Args:
        user: The user with their limits.
        own: The user's runs.
        corpora: Number of corpora that the user uploaded.
    """
    active = sum(not run.status.state.final for run in own)
    limits = user.limits
    return (
        f"Active runs: {active:,} of {limits.runs:,}. Stored runs: {len(own):,}. "
        f"Uploaded corpora: {corpora:,} of {limits.uploads:,}."
    )
