"""Tables as CSV in which a spreadsheet program executes no cell."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""First characters of a cell that spreadsheet programs read as a formula (OWASP, *CSV injection*)."""
_WITHIN = re.compile(r"(?<=[^\s;])([;\t\r\n][\s;]*)(?=[=+\-@＝＋－＠])")
"""Where a cell may end although it is quoted.

Programs that separate cells by semicolons or tabs, as in many countries, take a quotation mark within a line for text.
"""


def neutral(value: Any) -> Any:
    """Return a cell that no spreadsheet program executes: text that could be a formula gets an apostrophe in front.

    Numbers stay as they are, also as text, and so does every other value.
    """
    if not isinstance(value, str):
        return value
    text = _WITHIN.sub(r"\1'", value)
    if not value.lstrip(" \n;\ufeff").startswith(_STARTS):
        return text
    try:
        float(value)
    except ValueError:
        return f"'{text}"
    return value


def csv_text(table: "pd.DataFrame") -> str:
    """Return a table as CSV, without its index."""
    return table.rename(columns=neutral).map(neutral).to_csv(index=False)
