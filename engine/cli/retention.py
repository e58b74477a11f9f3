"""The command `retention`: list or delete what is older than a number of days."""

from typing import Annotated, Any

import typer

from engine.cli.output import Json, write
from engine.errors import InvalidConfig
from engine.service import Application
from engine.settings import MOST_DAYS


def retention(
    days: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_DAYS, help="Days since the last use.  [default: EPSILON_RETENTION_DAYS]"),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it. Without this option it is only listed.")] = False,
    as_json: Json = False,
) -> None:
    """List or delete ended runs, unused uploads and log entries that are older than a number of days."""
    from engine.service import retention as expiry

    app = Application.from_environment()
    days = days or app.settings.retention_days
    if days is None:
        raise InvalidConfig("days: expected --days N, or the variable EPSILON_RETENTION_DAYS")
    found = expiry.find(app, days)
    if delete:
        found = expiry.delete(app, found)
    fields: dict[str, Any] = {
        "before": found.before,
        "deleted": delete,
        "runs": [run.run_id for run in found.runs],
        "corpora": found.corpora,
        "log_entries": found.log_entries,
        "logs": [str(path) for path in found.logs],
        "without_budget": found.without_budget,
    }
    lines = [f"{'Deleted' if delete else 'Would be deleted'}, {expiry.summary(found)}."]
    lines += [f"run {run.run_id} on {run.config.corpus}, of {run.owner or 'no owner'}" for run in found.runs]
    lines += [f"corpus {name}" for name in found.corpora]
    if found.without_budget:
        lines.append(
            f"Runs on {', '.join(found.without_budget)} are charged to no budget; one that is set after the deletion "
            "does not count them."
        )
    if not delete:
        lines.append("Nothing was deleted; --delete deletes it. Charges to budgets and published runs always stay.")
    write(as_json, fields, "\n".join(lines))
