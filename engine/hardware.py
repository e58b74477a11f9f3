"""Processor, caches and memory of this machine, for benchmark results and for compiled code."""

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
"""Bytes per thread if the cache sizes are unknown: common sizes, on the small side."""
_CPUS = "sys/devices/system/cpu"
_GROUPS = "sys/fs/cgroup"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def lower_priority(niceness: int) -> None:
    """Lower the priority of this process and its children.

    Where both compete for one core, another process gets three times as much of it at a niceness of 5, ten times at 10.
    Linux divides cores among sessions before it reads the nice values within each (autogroups, sched(7)). If this
    process leads a session, the session therefore gets the value too.

    Args:
        niceness: Nice value to add.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # not Linux, or a kernel without autogroups
            Path("/proc/self/autogroup").write_text(str(niceness))


@dataclass(frozen=True)
class Processor:
    """The share of the machine's processor that this process may use.

    Attributes:
        name: Model name.
        cores: Physical cores, at least 1.
        threads: Hyper-threads of these cores.
        first_cache: Bytes of the first-level data cache for each hyper-thread when all that share it are busy.
        second_cache: Bytes of the second-level cache for each hyper-thread, likewise.
    """

    name: str
    cores: int
    threads: int
    first_cache: int
    second_cache: int

    @property
    def cores_text(self) -> str:
        """Number of cores, and of threads if there are more."""
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{cores} ({self.threads} threads)" if self.threads > self.cores else cores

    @property
    def caches_text(self) -> str:
        """Size of both caches for each thread."""
        return f"{self.first_cache // 2**10} KB and {self.second_cache // 2**10} KB of cache a thread"


@lru_cache(maxsize=1)
def processor() -> Processor:
    """Return the processor of this machine, read once per process: later changes of affinity and limits are ignored."""
    if platform.system() == "Darwin":
        command = ["sysctl", "hw", "machdep.cpu.brand_string"]
        return from_sysctl(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    return from_files(Path("/"), _allowed())


def from_files(root: Path, allowed: Collection[int]) -> Processor:
    """Return the processor of a Linux machine.

    Hyper-threads of one core count as one core: they share the multiplication units, which one thread of our matrix
    products keeps busy. A limit on processor time (cgroups) counts in whole cores: a thread beyond it is suspended for
    part of each tenth of a second, and the other threads wait for it.

    Args:
        root: Folder that contains ``sys`` and ``proc``.
        allowed: Logical processors that this process may run on.
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
    """Return the processor of a macOS machine from the output of ``sysctl hw machdep.cpu.brand_string``."""
    values = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)

    def number(name: str, default: int) -> int:
        return int(values[name]) if values.get(name, "").isdigit() else default

    threads = number("hw.logicalcpu", os.cpu_count() or 1)
    cores = number("hw.physicalcpu", threads)
    shared = [int(part) for part in values.get("hw.cacheconfig", "").split() if part.isdigit()]  # memory, 1st, 2nd, …
    by_first, by_second = shared[1:3] if len(shared) > 2 else (threads // cores, threads)
    return Processor(
        name=values.get("machdep.cpu.brand_string", _fallback_name()),
        cores=cores,
        threads=threads,
        first_cache=number("hw.l1dcachesize", FIRST_CACHE * max(1, by_first)) // max(1, by_first),
        second_cache=number("hw.l2cachesize", SECOND_CACHE * max(1, by_second)) // max(1, by_second),
    )


def in_list(text: str) -> frozenset[int]:
    """Parse a list of logical processors as Linux writes it: "0-3,8" → 0, 1, 2, 3, 8."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def _siblings(root: Path, cpu: int) -> frozenset[int]:
    """Return the hyper-threads of the core of ``cpu``."""
    return in_list(_read(root / _CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list") or str(cpu))


def _share(root: Path, allowed: Collection[int], level: int) -> int:
    """Return the smallest share of a thread in a data cache of this level, in bytes; 0 if unknown."""
    shares = []
    for cpu in allowed:
        for folder in sorted((root / _CPUS / f"cpu{cpu}" / "cache").glob("index*")):
            if _read(folder / "level") == str(level) and _read(folder / "type") in ("Data", "Unified"):
                size = re.fullmatch(r"(\d+)([KMG]?)", _read(folder / "size"))
                number = int(size[1]) * _UNITS[size[2]] if size else 0
                shares.append(number // max(1, len(in_list(_read(folder / "shared_cpu_list")))))
    return min(shares, default=0)


def memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may use: those of the machine, within its control groups' limits.

    Args:
        root: Folder that contains ``sys`` and ``proc``.
    """
    first = _read(root / _GROUPS / "memory" / "memory.limit_in_bytes")  # cgroups version 1; without a limit, 2^63
    limits = [first, *(_read(path / "memory.max") for path in _groups(root))]
    total: int = psutil.virtual_memory().total
    return min([total, *(int(limit) for limit in limits if limit.isdigit())])


def _limits(root: Path) -> Iterator[int]:
    """Yield the whole cores that each control group of this process may use, if it has a limit."""
    quota, period = (_read(root / _GROUPS / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    if quota.isdigit() and period.isdigit():  # cgroups version 1, where -1 means no limit
        yield max(1, int(quota) // int(period))
    for path in _groups(root):
        quota, _, period = _read(path / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit():
            yield max(1, int(quota) // int(period))


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folder of each control group of this process (version 2), the innermost first."""
    groups = root / _GROUPS
    group = next((line[3:] for line in _read(root / "proc/self/cgroup").splitlines() if line.startswith("0::")), "")
    folder = groups / group.strip().lstrip("/")
    for path in (folder, *folder.parents):
        yield path
        if path == groups:
            return


def _name(root: Path) -> str:
    lines = _read(root / "proc/cpuinfo").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), _fallback_name())


def _fallback_name() -> str:
    return platform.processor() or platform.machine()


def _allowed() -> Collection[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _read(path: Path) -> str:
    """Return the text of a small file, "" if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


@lru_cache(maxsize=1)
def machine_class() -> str:
    """Return the kind of this machine without its host name: processor, cores, memory, system."""
    cpu = processor()
    total = round(psutil.virtual_memory().total / 2**30)
    return f"{cpu.name}, {cpu.cores_text}, {total} GB, {platform.system()}"
