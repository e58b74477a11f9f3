"""Add Debian's installed packages to a CycloneDX list: ``python3 -m engine.setup.system_packages sbom.json``.

The container image's list thus contains the system's packages beside those of Python, each with its package URL. This
module uses only the standard library.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from engine.setup.progress import say

_FIELDS = ("${Package}", "${Version}", "${Architecture}", "${db:Status-Status}")


def main() -> int:
    """Add the packages to the list that the first argument names; return the exit code."""
    if len(sys.argv) != 2:
        say("usage: python3 -m engine.setup.system_packages FILE")
        return 2
    path = Path(sys.argv[1])
    listed = json.loads(path.read_text(encoding="utf-8"))
    command = ["dpkg-query", "--show", "--showformat", "\\t".join(_FIELDS) + "\\n"]
    add(listed, subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    path.write_text(json.dumps(listed, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def add(listed: dict[str, Any], packages: str) -> None:
    """Add installed packages to a list.

    Args:
        listed: The CycloneDX document, which is changed.
        packages: Lines of name, version, architecture and state, separated by tabs.
    """
    for line in packages.splitlines():
        name, version, architecture, state = line.split("\t")
        if state != "installed":
            continue
        url = f"pkg:deb/debian/{name.replace('+', '%2B')}@{version.replace('+', '%2B')}?arch={architecture}"
        listed["components"].append({"type": "library", "name": name, "version": version, "purl": url, "bom-ref": url})


if __name__ == "__main__":
    sys.exit(main())
