"""Report phrases of the project's former private language: ``python -m tests.banned_phrases``, part of ``make lint``.

Each has a standard term or a plainer wording; CONTRIBUTING.md says how to write. Earlier versions in the
change log stay as they were.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
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
"""Separated by bars; between two words of a phrase, a line may break."""
EXEMPTIONS: dict[str, dict[str, str]] = {
    "CHANGELOG.md": {"good practice": "former title of a page"},
    "engine/experiments/papers/fedner_2020.py": {"nobody": "stored value of the field `protects`"},
    "engine/federated/secagg/crypto.py": {"secure sum": "part of the hashed commitment"},
    "engine/federated/secagg/protocol.py": {"secure sum": "labels of the key derivation"},
    "engine/records/assumption_texts.py": {
        "nobody": "sentence in records of version 0.7.0",
        "somebody": "sentence in records of version 0.7.0",
        "whoever": "sentence in records of version 0.7.0",
    },
    "engine/records/studies.py": {"good practice": "stored value of the field `first`"},
    "tests/engine/fingerprint.py": {"secure sum": "start of the name of a random stream"},
    "pages/startup/old_links.py": {
        "set right": "label in a link of version 0.7.0",
        "somebody": "label in a link of version 0.7.0",
    },
}
"""Phrases that a file must contain, each with its reason. An unused exemption is reported."""
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


def problems(texts: Mapping[str, str], exemptions: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a message for each banned phrase and for each unused exemption.

    Args:
        texts: Texts by file name.
        exemptions: Allowed phrases in lower case by file name, each with its reason.
    """
    for name, text in texts.items():
        unused = set(exemptions.get(name, ()))
        for number, phrase in phrases(text):
            if phrase.lower() in exemptions.get(name, ()):
                unused.discard(phrase.lower())
            else:
                yield f"{name}:{number}: {phrase!r} is banned: use a term of the field or plain words"
        yield from (f"{name}: the exemption of {phrase!r} is unused: remove it" for phrase in sorted(unused))
    yield from (f"{name}: has exemptions but is not checked: remove them" for name in exemptions if name not in texts)


def main() -> int:
    """Print each problem; return 1 if there is one."""
    lines = list(problems({path.relative_to(ROOT).as_posix(): read(path) for path in files()}, EXEMPTIONS))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
