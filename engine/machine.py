"""What kind of machine this is, as it stands beside figures that were measured on it."""

import os
import platform
from functools import lru_cache
from pathlib import Path

import psutil


@lru_cache(maxsize=1)
def machine_class() -> str:
    """Kind of machine, without its name: processor, cores, memory, system."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    memory = round(psutil.virtual_memory().total / 2**30)
    return f"{model}, {os.cpu_count()} cores, {memory} GB, {platform.system()}"
