"""Tables as CSV in which a spreadsheet program executes no cell."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that spreadsheet programs read as a formula (OWASP, *CSV injection*)."""


def neutral(value: Any) -> Any:
    """Return a cell that no spreadsheet program executes: text that could be a formula gets an apostrophe in front.

    Numbers stay as they are, also as text, and so does every other value.
    """
    if not isinstance(value, str) or not value.lstrip(" \n").startswith(_STARTS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def csv_text(table: "pd.DataFrame") -> str:
    """Return a table as CSV, without its index."""
    return table.rename(columns=neutral).map(neutral).to_csv(index=False)
