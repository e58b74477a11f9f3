"""Terminal output of commands: text or JSON, a progress bar, and messages for invalid options."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from engine.visible_text import visible, visible_json

Unprotected = Annotated[
    bool,
    typer.Option(
        "--unprotected",
        help="Accept an access without privacy to a corpus with a budget, whose total no longer holds from then on.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
"""The option of commands that print JSON instead of text."""


def write(as_json: bool, fields: Any, text: str) -> None:
    """Print ``fields`` as one line of JSON, or ``text``.

    Args:
        as_json: Whether to print JSON.
        fields: Values that JSON supports.
        text: The same information for readers.
    """
    say(visible_json(json.dumps(fields, ensure_ascii=False)) if as_json else text)


def say(text: str, *, err: bool = False) -> None:
    """Print text, on standard error if ``err``; controls in it have no effect on the terminal."""
    typer.echo(visible(text), err=err)


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar on standard error if that is a terminal; yield a function that updates it.

    The function takes the stage in words and the progress from 0 to 1.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda stage, progress: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda stage, progress: bar.update(task, description=stage, completed=progress)


def sentence(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """Return Typer's message, with the invalid value, which Typer omits when an option is no number."""
    parameter = getattr(error, "param", None)
    for index, word in enumerate(arguments):
        name, is_joined, value = word.partition("=")
        if parameter is not None and name in parameter.opts and (is_joined or index + 1 < len(arguments)):
            value = value if is_joined else arguments[index + 1]
            return f"{parameter.name}={value!r}: {error.message}"
    return error.format_message()
