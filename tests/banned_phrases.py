"""Report phrases of the project's former private language: ``python -m tests.banned_phrases``, part of ``make lint``.

Each has a standard term or a plainer wording; CONTRIBUTING.md says how to write. Earlier versions in the
change log stay as they were.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = (".py", ".md", ".toml", ".in", ".yml", ".yaml", ".js", ".css", ".typ", ".cff")
NAMES = ("Makefile", "run", "Dockerfile")
LEFT_OUT = ("cached_results/", "tests/banned_phrases.py", "tests/test_banned_phrases.py")
PHRASES = (
    "whoever|whomever|somebody|nobody|anew|told from|hold against|holds against|held against|name finder|name finders|"
    "as printed|as advised|goes on behind|the house|is told|are told|good practice|whole names|secure sum|secure sums|"
    "beyond chance|where chance|under way|at a keeper|give way|gives way|stand in|stands in|is over|printed ε|"
    "what it costs|looks without|set right|mend|mends|mended|mending|take away|take it away|taken away|laid over|"
    "of it that"
)
"""Phrases, separated by bars; a phrase may span two lines."""
_GAP = r"[\s#>]+"
BANNED = re.compile(r"\b(?:" + PHRASES.replace(" ", _GAP) + r")\b", re.IGNORECASE)


def phrases(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number, from 1, and the wording of each banned phrase."""
    for match in BANNED.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, re.sub(_GAP, " ", match[0])


def files(root: Path = ROOT) -> list[Path]:
    """Return the tracked text files and sources."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    names = (name for name in listed.split("\0") if name and not name.startswith(LEFT_OUT))
    paths = (root / name for name in names)
    return [path for path in paths if path.suffix in SUFFIXES or path.name in NAMES]


def read(path: Path) -> str:
    """Return the text of a file; of the change log, only the section of the next version."""
    text = path.read_text(encoding="utf-8")
    return "## ".join(text.split("\n## ")[:2]) if path.name == "CHANGELOG.md" else text


def main() -> int:
    """Print each phrase with file and line; return 1 if there is one."""
    lines = [
        f"{path.relative_to(ROOT).as_posix()}:{number}: {phrase!r} is banned: use a term of the field or plain words"
        for path in files()
        for number, phrase in phrases(read(path))
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
