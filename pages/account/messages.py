"""What the page says."""

from collections.abc import Sequence

from engine.access.roles import Role, User
from engine.records import Run

_ALLOWED = {
    Role.VIEWER: "See what is published and what others share, tag sentences of your own with it, take figures away.",
    Role.RUNNER: "Run and audit taggers, bring corpora of your own, set their budgets, open a poll for a class. What "
    "you make is yours alone, until you share a run on the page Runs or a corpus below its choice in Explore.",
    Role.ADMIN: "See and change everything of everybody, set the budgets of public corpora, publish, read the log.",
}


def who(person: User) -> str:
    """A heading."""
    article = "an" if person.role == Role.ADMIN else "a"
    name = person.name.replace("`", "'")
    return f"You are `{name}`, {article} {person.role} here"


def allowed(role: Role) -> list[str]:
    """What that allows."""
    return [said for each, said in _ALLOWED.items() if role.may(each)]


def holds(person: User, own: Sequence[Run], corpora: int) -> str:
    """How much of the limits is taken. own: the person's runs; corpora: brought ones that they may use."""
    going_on = sum(not run.status.state.final for run in own)
    limits = person.limits
    return (
        f"Under way: {going_on:,} of {limits.runs:,} runs at a time; {len(own):,} are kept. Corpora that you "
        f"brought: {corpora:,} of {limits.uploads:,}."
    )
