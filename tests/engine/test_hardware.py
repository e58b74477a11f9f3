"""Hardware detection from files and commands of emulated machines."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.hardware import (
    FIRST_CACHE,
    SECOND_CACHE,
    Processor,
    from_files,
    from_sysctl,
    in_list,
    machine_class,
    memory,
    processor,
)

KB = 2**10


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def linux(
    root: Path, siblings: list[str], first: str = "32K", second: str = "1024K", by_second: str | None = None
) -> Path:
    """Write the files of a Linux machine; ``siblings`` lists for each logical processor those that share its first
    cache."""
    write(root / "proc/cpuinfo", "processor\t: 0\nmodel name\t: Some Processor @ 2.00GHz")
    for cpu, beside in enumerate(siblings):
        folder = root / "sys/devices/system/cpu" / f"cpu{cpu}"
        write(folder / "topology/thread_siblings_list", beside)
        caches = (("1", "Data", first, beside), ("1", "Instruction", "64K", beside),
                  ("2", "Unified", second, by_second or beside), ("3", "Unified", "32M", "0-63"))  # fmt: skip
        for number, (level, kind, size, shared) in enumerate(caches):
            for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
                write(folder / "cache" / f"index{number}" / name, text)
    return root


def measured(machine: Processor) -> tuple[int, int, int, int]:
    return machine.cores, machine.threads, machine.first_cache // KB, machine.second_cache // KB


def test_cores_have_separate_caches(tmp_path):
    machine = from_files(linux(tmp_path, ["0", "1"]), {0, 1})
    assert measured(machine) == (2, 2, 32, 1024)
    assert machine.name == "Some Processor @ 2.00GHz"
    assert machine.cores_text == "2 cores"


def test_hyper_threads_share_core_and_caches(tmp_path):
    machine = from_files(linux(tmp_path, ["0-1", "0-1"]), {0, 1})
    assert measured(machine) == (1, 2, 16, 512)
    assert machine.cores_text == "1 core (2 threads)"
    assert all(part in machine.caches_text for part in ("16 KB", "512 KB", "a thread"))


def test_siblings_may_have_distant_numbers(tmp_path):
    assert measured(from_files(linux(tmp_path, ["0,2", "1,3", "0,2", "1,3"], "48K", "2M"), range(4))) == (
        2,
        4,
        24,
        1024,
    )


def test_only_allowed_processors_count(tmp_path):
    linux(tmp_path, ["0-1", "0-1", "2-3", "2-3"])
    assert measured(from_files(tmp_path, {0, 1}))[:2] == (1, 2)
    assert measured(from_files(tmp_path, {1, 3}))[:2] == (2, 2)


def test_second_cache_is_divided_by_its_cores(tmp_path):
    assert measured(from_files(linux(tmp_path, ["0", "1", "2", "3"], "64K", "2048K", "0-3"), range(4))) == (
        4,
        4,
        64,
        512,
    )


def test_smallest_cache_share_counts(tmp_path):
    linux(tmp_path, ["0-1", "0-1", "2"], "48K")
    write(tmp_path / "sys/devices/system/cpu/cpu2/cache/index0/size", "16K")
    assert measured(from_files(tmp_path, range(3)))[2] == 16


@pytest.mark.parametrize(
    ("limit", "cores"), [("max 100000", 4), ("200000 100000", 2), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_cpu_limit_is_rounded_down_to_cores(tmp_path, limit, cores):
    write(linux(tmp_path, ["0", "1", "2", "3"]) / "sys/fs/cgroup/cpu.max", limit)
    assert measured(from_files(tmp_path, range(4)))[:2] == (cores, cores)


def test_limits_of_parent_groups_apply(tmp_path):
    linux(tmp_path, ["0", "1", "2", "3"])
    write(tmp_path / "proc/self/cgroup", "0::/outer/inner")
    write(tmp_path / "sys/fs/cgroup/outer/cpu.max", "300000 100000")
    write(tmp_path / "sys/fs/cgroup/outer/inner/cpu.max", "max 100000")
    assert from_files(tmp_path, range(4)).cores == 3


def test_cgroup_v1_limits_are_read(tmp_path):
    group = linux(tmp_path, ["0", "1", "2", "3"]) / "sys/fs/cgroup/cpu"
    write(group / "cpu.cfs_quota_us", "200000")
    write(group / "cpu.cfs_period_us", "100000")
    assert from_files(tmp_path, range(4)).cores == 2
    write(group / "cpu.cfs_quota_us", "-1")
    assert from_files(tmp_path, range(4)).cores == 4


@pytest.mark.parametrize("file", ["sys/fs/cgroup/outer/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"])
def test_memory_limit_of_a_control_group_counts(tmp_path, file):
    """Check a parent group of version 2 and a group of version 1, and that neither exceeds the machine's memory."""
    write(tmp_path / "proc/self/cgroup", "0::/outer/inner")
    write(tmp_path / "sys/fs/cgroup/outer/inner/memory.max", "max")
    write(tmp_path / file, str(3 * KB))
    assert memory(tmp_path) == 3 * KB
    write(tmp_path / file, str(2**63 - 4096))
    assert memory(tmp_path) == psutil.virtual_memory().total


@pytest.mark.parametrize("size", ["", "much", "K", "-1K"])
def test_missing_files_give_default_caches(tmp_path, size):
    assert measured(from_files(tmp_path, {0, 1})) == (2, 2, FIRST_CACHE // KB, SECOND_CACHE // KB)
    linux(tmp_path, ["0", "1"], first=size)
    assert measured(from_files(tmp_path, {0, 1})) == (2, 2, FIRST_CACHE // KB, 1024)


def test_sysctl_of_a_mac():
    text = """hw.logicalcpu: 4
hw.physicalcpu: 2
hw.l1dcachesize: 32768
hw.l2cachesize: 262144
hw.cacheconfig: 4 2 2 4 0
machdep.cpu.brand_string: Some Processor
"""
    assert measured(from_sysctl(text)) == (2, 4, 16, 128)
    assert from_sysctl(text).name == "Some Processor"
    shared = text.replace("hw.cacheconfig: 4 2 2 4 0\n", "").replace("hw.physicalcpu: 2", "hw.physicalcpu: 4")
    assert measured(from_sysctl(shared)) == (4, 4, 32, 64)
    assert measured(from_sysctl(""))[2:] == (FIRST_CACHE // KB, SECOND_CACHE // KB)


def test_in_list_parses_linux_ranges():
    assert in_list("0-3,8\n") == {0, 1, 2, 3, 8}
    assert in_list("") == set()


def test_current_machine_has_cores_and_caches():
    here = processor()
    assert 1 <= here.cores <= here.threads
    assert min(here.first_cache, here.second_cache) >= 4 * KB
    assert machine_class().startswith(f"{here.name}, {here.cores_text}, ")


@pytest.mark.parametrize("leads", [True, False])
def test_lower_priority_applies_to_own_session_only(leads):
    """With `autogroup`, Linux shares processor time between sessions, where a nice value has no effect; a user's
    terminal must not become slower. The test starts its own session: its current one may have no group and thus an
    empty file."""
    program = """if True:
        import os
        from pathlib import Path
        from engine.hardware import lower_priority
        group = Path("/proc/self/autogroup")
        share = lambda: group.read_text().split()[-1:] if group.exists() else []
        before = share()
        lower_priority(5)
        print(os.nice(0), *before, *share())
    """
    command = [sys.executable, "-c", program]
    if not leads:
        command = ["sh", "-c", '"$@"; exit $?', "sh", *command]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True).stdout.split()
    nice, *shares = (int(number) for number in answer)
    assert nice == os.nice(0) + 5
    if shares:  # Linux with autogroup
        assert shares == [0, 5 if leads else 0]
