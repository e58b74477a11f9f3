"""What kind of machine this is: as it stands beside figures that were measured on it, and as compiled code uses it."""

import os
import platform
import re
import subprocess
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

FIRST_CACHE, SECOND_CACHE = 32 * 2**10, 512 * 2**10
"""Bytes for a thread where nothing says how large the caches are: common sizes, rather small ones."""
_CPUS = "sys/devices/system/cpu"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def lower_priority(niceness: int) -> None:
    """Let others that want the processor have more of it than this process and those that it starts: where both want
    one core, three times as much at a niceness of 5, ten times at 10.

    Linux shares cores out among sessions before it looks at the nice values within each (autogroups, sched(7)). So
    where this process leads a session, that one gets the value too.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # not Linux, or one that does not do so
            Path("/proc/self/autogroup").write_text(str(niceness))


@dataclass(frozen=True)
class Processor:
    """What a process may use of its machine. cores: physical ones, at least 1; threads: hyper-threads of them.
    first_cache, second_cache: bytes of the data cache next to a core and of the one behind it that each hyper-thread
    has when all that share one are busy."""

    name: str
    cores: int
    threads: int
    first_cache: int
    second_cache: int

    @property
    def cores_text(self) -> str:
        """Cores, and threads where there are more of them."""
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{cores} ({self.threads} threads)" if self.threads > self.cores else cores

    @property
    def caches_text(self) -> str:
        """What a thread has of the caches."""
        return f"{self.first_cache // 2**10} KB and {self.second_cache // 2**10} KB of cache a thread"


@lru_cache(maxsize=1)
def processor() -> Processor:
    """Of this machine, read once in a process: affinity and limits that are set later are not seen."""
    if platform.system() == "Darwin":
        asked = ["sysctl", "hw", "machdep.cpu.brand_string"]
        return from_sysctl(subprocess.run(asked, capture_output=True, text=True, check=False).stdout)
    return from_files(Path("/"), _allowed())


def from_files(root: Path, allowed: Collection[int]) -> Processor:
    """Of Linux, whose files lie below ``root``. allowed: logical processors that this process may run on.

    Hyper-threads of one core count as one core: they share the units that multiply, which one thread of our products
    keeps busy. A limit on processor time (cgroups) counts in whole cores, since a thread more than it allows is stopped
    for a part of each tenth of a second, and those beside it wait.
    """
    cores = {_siblings(root, cpu) for cpu in allowed}
    limit = min(_limits(root), default=len(allowed))
    first, second = (_share(root, allowed, level) for level in (1, 2))
    return Processor(
        name=_name(root),
        cores=max(1, min(len(cores), limit)),
        threads=max(1, min(len(allowed), limit)),
        first_cache=first or FIRST_CACHE,
        second_cache=second or SECOND_CACHE,
    )


def from_sysctl(text: str) -> Processor:
    """Of macOS, from what ``sysctl hw machdep.cpu.brand_string`` prints."""
    found = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)

    def number(name: str, otherwise: int) -> int:
        return int(found[name]) if found.get(name, "").isdigit() else otherwise

    threads = number("hw.logicalcpu", os.cpu_count() or 1)
    cores = number("hw.physicalcpu", threads)
    shared = [int(part) for part in found.get("hw.cacheconfig", "").split() if part.isdigit()]  # memory, 1st, 2nd, …
    by_first, by_second = shared[1:3] if len(shared) > 2 else (threads // cores, threads)
    return Processor(
        name=found.get("machdep.cpu.brand_string", _otherwise()),
        cores=cores,
        threads=threads,
        first_cache=number("hw.l1dcachesize", FIRST_CACHE * max(1, by_first)) // max(1, by_first),
        second_cache=number("hw.l2cachesize", SECOND_CACHE * max(1, by_second)) // max(1, by_second),
    )


def in_list(text: str) -> frozenset[int]:
    """Processors as Linux lists them: "0-3,8" → 0, 1, 2, 3, 8."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _siblings(root: Path, cpu: int) -> frozenset[int]:
    """The hyper-threads of the core that ``cpu`` is one of."""
    return in_list(_read(root / _CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list") or str(cpu))


def _share(root: Path, allowed: Collection[int], level: int) -> int:
    """Bytes of the data cache of a level for each of the threads that share one, where that is least; 0: unknown."""
    shares = []
    for cpu in allowed:
        for folder in sorted((root / _CPUS / f"cpu{cpu}" / "cache").glob("index*")):
            if _read(folder / "level") == str(level) and _read(folder / "type") in ("Data", "Unified"):
                size = re.fullmatch(r"(\d+)([KMG]?)", _read(folder / "size"))
                number = int(size[1]) * _UNITS[size[2]] if size else 0
                shares.append(number // max(1, len(in_list(_read(folder / "shared_cpu_list")))))
    return min(shares, default=0)


def _limits(root: Path) -> Iterator[int]:
    """Whole cores that each control group around this process may use, those that have a limit."""
    groups = root / "sys/fs/cgroup"
    quota, period = (_read(groups / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    if quota.isdigit() and period.isdigit():  # version 1, where -1 says that there is none
        yield max(1, int(quota) // int(period))
    own = next((line[3:] for line in _read(root / "proc/self/cgroup").splitlines() if line.startswith("0::")), "")
    folder = groups / own.strip().lstrip("/")
    for place in (folder, *folder.parents):
        quota, _, period = _read(place / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit():
            yield max(1, int(quota) // int(period))
        if place == groups:
            return


def _name(root: Path) -> str:
    lines = _read(root / "proc/cpuinfo").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), _otherwise())


def _otherwise() -> str:
    return platform.processor() or platform.machine()


def _allowed() -> Collection[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _read(path: Path) -> str:
    """What a small file says, nothing if it is not there."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


@lru_cache(maxsize=1)
def machine_class() -> str:
    """Kind of machine, without its name: processor, cores, memory, system."""
    here = processor()
    memory = round(psutil.virtual_memory().total / 2**30)
    return f"{here.name}, {here.cores_text}, {memory} GB, {platform.system()}"
