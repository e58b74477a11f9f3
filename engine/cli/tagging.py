"""The commands ``tag`` and ``redact`` for files, folders and standard input, and ``score`` for two files."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.cli.output import progress_bar, say, write
from engine.errors import InvalidConfig
from engine.reports.scores import score_fields, score_table
from engine.service import Application
from engine.tagging import published_taggers
from engine.tagging.entities import Entity
from engine.tagging.redaction import REPLACEMENTS, redact
from engine.visible_text import visible_json

MOST_BYTES = 50_000_000
"""Maximum size of one file, in bytes."""
_BATCH_CHARACTERS = 200_000
"""Maximum characters of the texts that are tagged in one batch."""

Places = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PATH…]", help="Files, or folders of .txt files; standard input for none or -."),
]
Epsilon = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(published_taggers.published()), help="The published tagger with this ε.  [default: inf]"
    ),
]
RunOption = Annotated[
    str | None, typer.Option("--run", metavar="ID", help="The tagger of your run with this identity.")
]
Json = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each text.")]


@dataclass(frozen=True)
class _Text:
    """A text. path: its file, None for standard input. name: the file's path relative to the folder argument."""

    path: Path | None
    name: Path
    text: str

    @property
    def fields(self) -> dict[str, str]:
        """The text's file as JSON fields."""
        return {} if self.path is None else {"file": str(self.path)}


def tag(paths: Places = None, epsilon: Epsilon = None, run: RunOption = None, as_json: Json = False) -> None:
    """Tag the entities in texts. Prints a line for each: start, end, type, probability, text."""
    for text, entities in _tagged(paths, epsilon, run, quiet=as_json):
        if as_json:
            _print(text.fields | {"text": text.text, "entities": [_fields(entity) for entity in entities]})
            continue
        for entity in entities:
            file = f"{text.path}\t" if text.path else ""
            mention = " ".join(text.text[entity.start : entity.end].split())
            say(f"{file}{entity.start}\t{entity.end}\t{entity.type}\t{entity.score:.4f}\t{mention}")


def redact_texts(
    paths: Places = None,
    epsilon: Epsilon = None,
    run: RunOption = None,
    replace: Annotated[
        str, typer.Option(metavar="|".join(REPLACEMENTS), help="Replacement of an entity.")
    ] = REPLACEMENTS[0],
    output: Annotated[
        Path | None, typer.Option(help="Folder for the redacted texts; required for several files without --json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Redact the entities in texts. Missed entities remain: a demonstration, no certified anonymiser."""
    if replace not in REPLACEMENTS:
        raise InvalidConfig(f"replace={replace!r}, expected one of {', '.join(REPLACEMENTS)}")
    if output is not None and (not paths or paths == [Path("-")]):
        raise InvalidConfig(f"output={str(output)!r}, expected none for standard input")
    several = len(paths or []) > 1 or any(path.is_dir() for path in paths or [])
    if several and output is None and not as_json:
        raise InvalidConfig("output is missing: several texts need an output folder, or --json")
    for text, entities in _tagged(paths, epsilon, run, quiet=as_json or output is None, output=output):
        redacted = redact(text.text, entities, replace)
        if output is not None:
            _write(redacted.text, output / text.name)
        if as_json:
            _print(text.fields | redacted.fields)
        elif output is None:
            sys.stdout.write(redacted.text)


def _tagged(
    paths: list[Path] | None, epsilon: str | None, run: str | None, *, quiet: bool, output: Path | None = None
) -> Iterator[tuple[_Text, tuple[Entity, ...]]]:
    """Yield each text with its entities. Raises InvalidConfig, RunNotFound, StoreError, VectorsMissing."""
    service = Application.from_environment()
    model = service.models.load(_identity(service, epsilon, run))
    texts = _texts(paths)
    if output is not None:
        _check_targets(texts, output)
    from engine.tagging.pipeline import TextTagger

    with progress_bar(quiet=quiet) as on_progress:
        tagger, done = TextTagger(service.settings, lambda stage: on_progress(stage, 0.0)), 0
        for batch in _batches(texts):
            (results,) = tagger.tag([text.text for text in batch], [model])
            done += len(batch)
            on_progress(f"{done:,} of {len(texts):,} texts", done / len(texts))
            yield from ((text, result.entities) for text, result in zip(batch, results, strict=True))


def _identity(service: Application, epsilon: str | None, run: str | None) -> str:
    """Return the identity of the run whose tagger the options select. Raises InvalidConfig."""
    if epsilon is not None and run is not None:
        raise InvalidConfig(f"epsilon={epsilon!r} and run={run!r}, expected one of them")
    if run is not None:
        if service.queries.get(run).config.platforms:
            raise InvalidConfig(f"run={run!r} has a tagger for each of its clients, expected a run of one corpus")
        return run
    config = published_taggers.asked_for(epsilon or "inf")
    published = next((run.run_id for run in service.queries.published() if run.config == config), None)
    if published is None:
        raise InvalidConfig(f"epsilon={epsilon!r}: the published run of this tagger is missing")
    return published


def _texts(paths: list[Path] | None) -> list[_Text]:
    """Read the texts to tag. Raises InvalidConfig for a file that is missing, not a text, or empty."""
    if not paths or paths == [Path("-")]:
        return [_Text(None, Path(), _read("standard input", sys.stdin.buffer.read(MOST_BYTES + 1)))]
    files: list[tuple[Path, Path]] = []
    for path in paths:
        if not path.is_dir():
            files.append((path, Path(path.name)))
            continue
        text_files = sorted(file for file in path.rglob("*.txt") if file.is_file())
        if not text_files:
            raise InvalidConfig(f"{path} has no .txt file")
        files += [(file, file.relative_to(path)) for file in text_files]
    return [_Text(path, name, _read(str(path), _bytes(path))) for path, name in files]


def _check_targets(texts: list[_Text], folder: Path) -> None:
    """Check that no output overwrites an input or another output. Raises InvalidConfig."""
    targets = [(folder / text.name).resolve() for text in texts]
    sources = {text.path.resolve() for text in texts if text.path}
    for target in targets:
        if target in sources or targets.count(target) > 1:
            raise InvalidConfig(f"output={str(folder)!r}: {target.name} would overwrite another of the texts")


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
        raise InvalidConfig(f"{name} is not UTF-8 text: byte {error.start:,} cannot be decoded") from error
    if not text.strip():
        raise InvalidConfig(f"{name} is empty")
    return text


def _batches(texts: list[_Text]) -> Iterator[list[_Text]]:
    batch: list[_Text] = []
    for text in texts:
        if batch and sum(len(queued.text) for queued in batch) + len(text.text) > _BATCH_CHARACTERS:
            yield batch
            batch = []
        batch.append(text)
    yield batch


def _write(text: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidConfig(f"output: {path} cannot be written: {error.strerror}") from error


def _fields(entity: Entity) -> dict[str, Any]:
    return {"start": entity.start, "end": entity.end, "type": entity.type, "score": round(entity.score, 4)}


def _print(fields: dict[str, Any]) -> None:
    say(visible_json(json.dumps(fields, ensure_ascii=False)))


def score(
    gold: Annotated[Path, typer.Argument(help="Column file with the gold tags.")],
    predicted: Annotated[Path, typer.Argument(help="Column file with the same sentences and the predicted tags.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Score predicted tags: entity-level (strict), overlapping entities, and tokens with and without O."""
    from engine.scoring import score_files

    scores = score_files(gold, predicted)
    write(as_json, score_fields(scores), score_table(scores))
