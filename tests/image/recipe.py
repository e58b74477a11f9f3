"""Build the container image without a registry, and run it; ``python -m tests.image.recipe`` prints its size.

Podman builds ``docs/deploy/Containerfile`` unchanged and without root's rights, as a system user of its own. No
registry need be reachable: debootstrap makes the base image from the machine's Debian mirror. Creating that user and
the base image needs root, as in CI.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "docs" / "deploy" / "Containerfile"
IMAGE = "epsilon-explorer"
USER = "epsilon-image"
HOME = Path("/var/lib/epsilon-image")
TOOLS = ("podman", "crun", "debootstrap", "newuidmap")
"""Commands of Debian's packages podman, crun, debootstrap and uidmap."""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
"""File of certificates, in Debian and so in the image. During the build that of this machine is mounted there."""
SLIM = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache/apt", "var/lib/apt/lists")
"""Folders that Debian's images named ``slim`` do not have, or have empty."""


def missing() -> str:
    """Return what this machine lacks for a build; "" if nothing."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return "root's rights" if os.geteuid() else ", ".join(absent)


def base_name() -> str:
    """Return the name of the base image in the Containerfile."""
    first = next(
        line for line in CONTAINERFILE.read_text(encoding="utf-8").splitlines() if line.startswith("ARG DEBIAN=")
    )
    return first.removeprefix("ARG DEBIAN=")


def podman(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run podman as the user of the build.

    Args:
        arguments: Arguments of podman.
        options: Options of ``subprocess.run``; ``check`` is true by default.
    """
    options = {"check": True, "text": True} | options
    return subprocess.run(command(*arguments), cwd=HOME, **options)


def command(*arguments: str) -> list[str]:
    """Return the command that runs podman as the user of the build.

    crun refuses machines with both versions of control groups. There, podman sees an empty second version only, in a
    mount namespace of its own; the containers then have no limits.
    """
    variables = [f"HOME={HOME}", f"XDG_RUNTIME_DIR={HOME}/run"]
    whole = ["runuser", "-u", USER, "--", "env", *variables, "podman", "--storage-driver", "overlay", *arguments]
    if Path("/sys/fs/cgroup/unified").is_dir():
        whole = ["unshare", "--mount", "sh", "-c", 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"', "sh", *whole]
    return whole


def prepare() -> None:
    """Create the user and podman's configuration, and the base image unless there is one."""
    if subprocess.run(["id", USER], capture_output=True, check=False).returncode:
        subprocess.run(["useradd", "--create-home", "--home-dir", str(HOME), USER], check=True)
    run = HOME / "run"
    run.mkdir(mode=0o700, exist_ok=True)
    shutil.chown(run, USER)
    for name, text in _settings().items():
        (HOME / name).write_text(text, encoding="utf-8")
    if podman("image", "exists", base_name(), check=False).returncode:
        _make_base()


def _settings() -> dict[str, str]:
    """Return the settings of pip and uv for a build: the package index, proxy and certificates of this machine."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    found = {
        line.partition("=")[0].rpartition(".")[2]: line.partition("=")[2].strip("'") for line in listed.splitlines()
    }
    kept = {name: found[name] for name in ("index-url", "proxy", "trusted-host", "default-timeout") if name in found}
    pip = {"cert": CERTIFICATES} | kept
    uv = {"index-url": found["index-url"]} if "index-url" in found else {}
    return {
        "pip.conf": "\n".join(["[global]", *(f"{name} = {value}" for name, value in pip.items()), ""]),
        "uv.toml": "\n".join(
            ["native-tls = true", "[pip]", *(f"{name} = {json.dumps(value)}" for name, value in uv.items()), ""]
        ),
    }


def _make_base() -> None:
    """Make the base image by debootstrap."""
    release = base_name().partition(":")[2].removesuffix("-slim")
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", f"Codename: {release}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        system, archive = Path(folder) / "system", Path(folder) / "system.tar"
        subprocess.run(
            ["debootstrap", "--variant=minbase", release, str(system), *listed[:1]],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with tarfile.open(archive, "w") as tar:
            tar.add(system, ".", filter=lambda member: None if _is_left_out(member.name) else member)
        Path(folder).chmod(0o755)
        podman("import", str(archive), base_name(), stdout=subprocess.DEVNULL)


def _is_left_out(name: str) -> bool:
    return any(name.startswith(f"./{folder}/") for folder in SLIM)


def build(*arguments: str) -> None:
    """Build the image from the files that Git would commit.

    Args:
        arguments: Further arguments of ``podman build``.
    """
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        shared = (
            "build",
            "--isolation=chroot",
            "--format=docker",
            "--network=host",
            f"--file={folder}/{CONTAINERFILE.relative_to(ROOT)}",
        )
        # Debian's certificates are installed by the first stage, before this machine's are mounted in their place.
        podman(*shared, "--target=system", folder)
        mounted = ((os.path.realpath(CERTIFICATES), CERTIFICATES), (HOME / "pip.conf", "/etc/pip.conf"),
                   (HOME / "uv.toml", "/etc/uv/uv.toml"))  # fmt: skip
        volumes = (f"--volume={source}:{target}:ro" for source, target in mounted)
        podman(*shared, *volumes, f"--tag={IMAGE}", *arguments, folder)


def size() -> int:
    """Return the size of the image's files, in bytes."""
    return int(podman("image", "inspect", "--format={{.Size}}", IMAGE, capture_output=True).stdout)


def compressed() -> int:
    """Return the size of the image's compressed layers, in bytes, as a registry stores them."""
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        shutil.chown(folder, USER)
        podman("push", "--quiet", "--compress", IMAGE, f"dir:{folder}/image")
        return sum(path.stat().st_size for path in Path(folder, "image").iterdir())


def parts(most: int = 20) -> list[tuple[str, int]]:
    """Return the largest folders of the image and their sizes in bytes, the largest first.

    Args:
        most: Number of folders.
    """
    whole = "du --bytes --one-file-system --max-depth=7 / 2>/dev/null || true"
    listed = start("--rm", "--entrypoint=sh", IMAGE, "-c", whole).stdout
    sizes = [(name, int(size)) for size, name in (line.split("\t", 1) for line in listed.splitlines())]
    inner = {parent for name, _ in sizes for parent in map(str, Path(name).parents)}
    return sorted((item for item in sizes if item[0] not in inner), key=lambda item: -item[1])[:most]


def start(*arguments: str, network: str = "none") -> subprocess.CompletedProcess[str]:
    """Run a container as the deployment files do: read-only root, no capabilities, a temporary /tmp.

    Args:
        arguments: Further options, the image, and its arguments.
        network: The container's network; "none" has a loopback interface only.
    """
    return podman(
        "run",
        "--cgroups=disabled",
        "--cap-drop=all",
        f"--network={network}",
        "--read-only",
        "--read-only-tmpfs=false",
        "--security-opt=no-new-privileges",
        "--tmpfs=/tmp:mode=1777",
        *arguments,
        capture_output=True,
    )


def main(arguments: Sequence[str]) -> int:
    """Build the image and print the time, both sizes and the largest folders; return the exit code."""
    if lack := missing():
        sys.stderr.write(f"Building the image needs {lack} (Debian: apt-get install podman crun debootstrap uidmap).\n")
        return 1
    begun = time.monotonic()
    build(*arguments)
    seconds = time.monotonic() - begun
    sys.stdout.write(f"{IMAGE}: {size() / 1e6:,.0f} MB, compressed {compressed() / 1e6:,.0f} MB, {seconds:.0f} s\n")
    for name, number in parts():
        sys.stdout.write(f"{number / 1e6:8,.0f} MB {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
