"""What kind of machine this is, read from the files and answers of emulated ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.hardware import (
    FIRST_CACHE,
    SECOND_CACHE,
    Processor,
    from_files,
    from_sysctl,
    in_list,
    machine_class,
    processor,
)

KB = 2**10


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def linux(
    root: Path, siblings: list[str], first: str = "32K", second: str = "1024K", by_second: str | None = None
) -> Path:
    """Files of a Linux machine; siblings: of each logical processor, which share the first cache too."""
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


def found(machine: Processor) -> tuple[int, int, int, int]:
    return machine.cores, machine.threads, machine.first_cache // KB, machine.second_cache // KB


def test_two_cores_have_their_caches_to_themselves(tmp_path):
    machine = from_files(linux(tmp_path, ["0", "1"]), {0, 1})
    assert found(machine) == (2, 2, 32, 1024)
    assert machine.name == "Some Processor @ 2.00GHz"
    assert machine.cores_text == "2 cores"


def test_two_hyper_threads_are_one_core_and_share_its_caches(tmp_path):
    machine = from_files(linux(tmp_path, ["0-1", "0-1"]), {0, 1})
    assert found(machine) == (1, 2, 16, 512)
    assert machine.cores_text == "1 core (2 threads)"
    assert all(part in machine.caches_text for part in ("16 KB", "512 KB", "a thread"))


def test_siblings_need_not_be_neighbours(tmp_path):
    assert found(from_files(linux(tmp_path, ["0,2", "1,3", "0,2", "1,3"], "48K", "2M"), range(4))) == (2, 4, 24, 1024)


def test_only_the_processors_that_a_process_may_run_on_count(tmp_path):
    linux(tmp_path, ["0-1", "0-1", "2-3", "2-3"])
    assert found(from_files(tmp_path, {0, 1}))[:2] == (1, 2)
    assert found(from_files(tmp_path, {1, 3}))[:2] == (2, 2)


def test_a_second_cache_of_several_cores_is_shared_by_all(tmp_path):
    assert found(from_files(linux(tmp_path, ["0", "1", "2", "3"], "64K", "2048K", "0-3"), range(4))) == (4, 4, 64, 512)


def test_the_smallest_share_counts_where_cores_differ(tmp_path):
    linux(tmp_path, ["0-1", "0-1", "2"], "48K")
    write(tmp_path / "sys/devices/system/cpu/cpu2/cache/index0/size", "16K")
    assert found(from_files(tmp_path, range(3)))[2] == 16


@pytest.mark.parametrize(
    ("limit", "cores"), [("max 100000", 4), ("200000 100000", 2), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_a_limit_on_processor_time_counts_in_whole_cores(tmp_path, limit, cores):
    write(linux(tmp_path, ["0", "1", "2", "3"]) / "sys/fs/cgroup/cpu.max", limit)
    assert found(from_files(tmp_path, range(4)))[:2] == (cores, cores)


def test_limits_around_a_group_hold_for_it(tmp_path):
    linux(tmp_path, ["0", "1", "2", "3"])
    write(tmp_path / "proc/self/cgroup", "0::/outer/inner")
    write(tmp_path / "sys/fs/cgroup/outer/cpu.max", "300000 100000")
    write(tmp_path / "sys/fs/cgroup/outer/inner/cpu.max", "max 100000")
    assert from_files(tmp_path, range(4)).cores == 3


def test_limits_of_the_older_kind_are_read_too(tmp_path):
    group = linux(tmp_path, ["0", "1", "2", "3"]) / "sys/fs/cgroup/cpu"
    write(group / "cpu.cfs_quota_us", "200000")
    write(group / "cpu.cfs_period_us", "100000")
    assert from_files(tmp_path, range(4)).cores == 2
    write(group / "cpu.cfs_quota_us", "-1")
    assert from_files(tmp_path, range(4)).cores == 4


@pytest.mark.parametrize("size", ["", "much", "K", "-1K"])
def test_what_no_file_says_is_taken_to_be_common(tmp_path, size):
    assert found(from_files(tmp_path, {0, 1})) == (2, 2, FIRST_CACHE // KB, SECOND_CACHE // KB)
    linux(tmp_path, ["0", "1"], first=size)
    assert found(from_files(tmp_path, {0, 1})) == (2, 2, FIRST_CACHE // KB, 1024)


def test_a_mac_is_asked():
    text = """hw.logicalcpu: 4
hw.physicalcpu: 2
hw.l1dcachesize: 32768
hw.l2cachesize: 262144
hw.cacheconfig: 4 2 2 4 0
machdep.cpu.brand_string: Some Processor
"""
    assert found(from_sysctl(text)) == (2, 4, 16, 128)
    assert from_sysctl(text).name == "Some Processor"
    shared = text.replace("hw.cacheconfig: 4 2 2 4 0\n", "").replace("hw.physicalcpu: 2", "hw.physicalcpu: 4")
    assert found(from_sysctl(shared)) == (4, 4, 32, 64)
    assert found(from_sysctl(""))[2:] == (FIRST_CACHE // KB, SECOND_CACHE // KB)


def test_processors_are_listed_as_linux_does():
    assert in_list("0-3,8\n") == {0, 1, 2, 3, 8}
    assert in_list("") == set()


def test_this_machine_has_a_name_cores_and_caches():
    here = processor()
    assert 1 <= here.cores <= here.threads
    assert min(here.first_cache, here.second_cache) >= 4 * KB
    assert machine_class().startswith(f"{here.name}, {here.cores_text}, ")


@pytest.mark.parametrize("leads", [True, False])
def test_a_session_gives_way_whole_and_no_other_session_does(leads):
    """Among sessions a nice value says nothing where Linux shares out by them (`autogroup`); a terminal that somebody
    works in must not get slower for it. The session is one of the test's own: that of the test may have no group, and
    then its file is empty."""
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
    if shares:  # Linux that shares out by sessions
        assert shares == [0, 5 if leads else 0]
