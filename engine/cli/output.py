"""What a verb says in the terminal: text or JSON, a bar of progress, a sentence for an option that cannot be read."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer


def write(as_json: bool, fields: Any, text: str) -> None:
    """Print the text, or the fields as one line of JSON."""
    typer.echo(json.dumps(fields, ensure_ascii=False) if as_json else text)


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error, where a person looks at it; programs get none."""
    if quiet or not sys.stderr.isatty():
        yield lambda stage, progress: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda stage, progress: bar.update(task, description=stage, completed=progress)


def sentence(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """What Typer says, with the value that it leaves out when an option is no number."""
    parameter = getattr(error, "param", None)
    for place, word in enumerate(arguments):
        name, is_joined, value = word.partition("=")
        if parameter is not None and name in parameter.opts and (is_joined or place + 1 < len(arguments)):
            value = value if is_joined else arguments[place + 1]
            return f"{parameter.name}={value!r}: {error.message}"
    return error.format_message()
