"""``tag`` and ``redact``: names in files, folders and standard input; ``score``: names in two files."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.cli.output import progress_bar, write
from engine.errors import InvalidConfig
from engine.reports.scores import score_fields, score_table
from engine.service import Application
from engine.tagging import published_taggers
from engine.tagging.entities import Entity
from engine.tagging.redaction import REPLACEMENTS, redact

MOST_BYTES = 50_000_000
"""Of one file."""
_TOGETHER = 200_000
"""Characters of texts that are tagged at a time."""

Places = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PATH…]", help="Files, or folders of .txt files; without any, or -, standard input."),
]
Epsilon = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(published_taggers.published()), help="The published tagger with this ε.  [default: inf]"
    ),
]
RunOption = Annotated[str | None, typer.Option("--run", metavar="ID", help="The tagger of this run of yours.")]
Json = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each text.")]


@dataclass(frozen=True)
class _Text:
    """A text, where it is from (None is standard input), and what its file is called within the folder that was
    named."""

    path: Path | None
    name: Path
    text: str

    @property
    def fields(self) -> dict[str, str]:
        """Where it is from, for other programs."""
        return {} if self.path is None else {"file": str(self.path)}


def tag(paths: Places = None, epsilon: Epsilon = None, run: RunOption = None, as_json: Json = False) -> None:
    """Find the names in texts. A line for each: where it starts and ends, its type, its probability, the name."""
    for each, found in _tagged(paths, epsilon, run, quiet=as_json):
        if as_json:
            _print(each.fields | {"text": each.text, "entities": [_fields(entity) for entity in found]})
            continue
        for one in found:
            file = f"{each.path}\t" if each.path else ""
            name = " ".join(each.text[one.start : one.end].split())
            typer.echo(f"{file}{one.start}\t{one.end}\t{one.type}\t{one.score:.4f}\t{name}")


def redacted(
    paths: Places = None,
    epsilon: Epsilon = None,
    run: RunOption = None,
    replace: Annotated[
        str, typer.Option(metavar="|".join(REPLACEMENTS), help="What stands in the place of a name.")
    ] = REPLACEMENTS[0],
    output: Annotated[
        Path | None, typer.Option(help="A folder for the new texts; needed for several files, unless as JSON.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take the names out of texts. What the tagger misses stays: a demonstration, no certified anonymiser."""
    if replace not in REPLACEMENTS:
        raise InvalidConfig(f"replace={replace!r}, expected one of {', '.join(REPLACEMENTS)}")
    if output is not None and (not paths or paths == [Path("-")]):
        raise InvalidConfig(f"output={str(output)!r}, expected none for standard input")
    several = len(paths or []) > 1 or any(path.is_dir() for path in paths or [])
    if several and output is None and not as_json:
        raise InvalidConfig("output is missing: several texts need a folder to be written to, or --json")
    for each, found in _tagged(paths, epsilon, run, quiet=as_json or output is None, output=output):
        new = redact(each.text, found, replace)
        if output is not None:
            _write(new.text, output / each.name)
        if as_json:
            _print(each.fields | new.fields)
        elif output is None:
            sys.stdout.write(new.text)


def _tagged(
    paths: list[Path] | None, epsilon: str | None, run: str | None, *, quiet: bool, output: Path | None = None
) -> Iterator[tuple[_Text, tuple[Entity, ...]]]:
    """Each text with its names. Raises InvalidConfig, RunNotFound, StoreError, VectorsMissing."""
    app = Application.from_environment()
    model = app.models.load(_identity(app, epsilon, run))
    texts = _texts(paths)
    if output is not None:
        _check_targets(texts, output)
    from engine.tagging.pipeline import TextTagger

    with progress_bar(quiet=quiet) as tell:
        tagger, done = TextTagger(app.settings, lambda stage: tell(stage, 0.0)), 0
        for some in _together(texts):
            (found,) = tagger.tag([each.text for each in some], [model])
            done += len(some)
            tell(f"{done:,} of {len(texts):,} texts", done / len(texts))
            yield from ((each, names.entities) for each, names in zip(some, found, strict=True))


def _identity(app: Application, epsilon: str | None, run: str | None) -> str:
    """The run whose tagger is asked for. Raises InvalidConfig."""
    if epsilon is not None and run is not None:
        raise InvalidConfig(f"epsilon={epsilon!r} and run={run!r}, expected one of them")
    if run is not None:
        if app.queries.get(run).config.platforms:
            raise InvalidConfig(f"run={run!r} has a tagger for each of its platforms, expected a run of one corpus")
        return run
    config = published_taggers.asked_for(epsilon or "inf")
    known = next((each.run_id for each in app.queries.published() if each.config == config), None)
    if known is None:
        raise InvalidConfig(f"epsilon={epsilon!r}: the published run of this tagger is not here")
    return known


def _texts(paths: list[Path] | None) -> list[_Text]:
    """What is to be tagged. Raises InvalidConfig for what is not there, is no text, or is empty."""
    if not paths or paths == [Path("-")]:
        return [_Text(None, Path(), _read("standard input", sys.stdin.buffer.read(MOST_BYTES + 1)))]
    files: list[tuple[Path, Path]] = []
    for path in paths:
        if not path.is_dir():
            files.append((path, Path(path.name)))
            continue
        inside = sorted(each for each in path.rglob("*.txt") if each.is_file())
        if not inside:
            raise InvalidConfig(f"{path} has no .txt file")
        files += [(each, each.relative_to(path)) for each in inside]
    return [_Text(path, name, _read(str(path), _bytes(path))) for path, name in files]


def _check_targets(texts: list[_Text], folder: Path) -> None:
    """Nothing that was read is written over. Raises InvalidConfig."""
    targets = [(folder / each.name).resolve() for each in texts]
    read = {each.path.resolve() for each in texts if each.path}
    for target in targets:
        if target in read or targets.count(target) > 1:
            raise InvalidConfig(f"output={str(folder)!r}: {target.name} would be written over another of the texts")


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}") from error


def _read(name: str, content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise InvalidConfig(f"{name} has more than {MOST_BYTES:,} bytes")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{name} is no text in UTF-8: byte {error.start:,} cannot be read") from error
    if not text.strip():
        raise InvalidConfig(f"{name} is empty")
    return text


def _together(texts: list[_Text]) -> Iterator[list[_Text]]:
    some: list[_Text] = []
    for each in texts:
        if some and sum(len(one.text) for one in some) + len(each.text) > _TOGETHER:
            yield some
            some = []
        some.append(each)
    yield some


def _write(text: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidConfig(f"output: {path} cannot be written: {error.strerror}") from error


def _fields(entity: Entity) -> dict[str, Any]:
    return {"start": entity.start, "end": entity.end, "type": entity.type, "score": round(entity.score, 4)}


def _print(fields: dict[str, Any]) -> None:
    typer.echo(json.dumps(fields, ensure_ascii=False))


def score(
    gold: Annotated[Path, typer.Argument(help="Column file with the right tags.")],
    predicted: Annotated[Path, typer.Argument(help="Column file with the same sentences and the tags to judge.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Score predicted tags. Whole names, names that overlap, and tokens, with and without O."""
    from engine.scoring import score_files

    scores = score_files(gold, predicted)
    write(as_json, score_fields(scores), score_table(scores))
