"""Configurations of a sweep from one TOML file: a base, a full grid of values, and seeds.

seeds = 3                       # or a list: [0, 7, 8]
[base]                          # fields by the names of the command line's options, with _ for -
corpus = "conll2003"
[grid]
noise_multiplier = [0, 1, 2]
clients = [1, 5]
"""

import itertools
import tomllib
from pathlib import Path
from typing import Any

from engine.config import PROPOSED, SimulationConfig
from engine.errors import InvalidConfig

MOST_RUNS, _MAX_BYTES = 10_000, 1_000_000


def read(path: Path) -> list[SimulationConfig]:
    """Return all configurations of a sweep file, grouped by seed. Raises InvalidConfig with file and field."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidConfig(f"{path} has more than {_MAX_BYTES:,} bytes, the maximum for a sweep file")
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}") from error
    except InvalidConfig:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(f"{path} is not a valid TOML file: {error}") from error
    try:
        return configurations(values)
    except InvalidConfig as error:
        raise InvalidConfig(f"{path}: {error}") from error


def configurations(values: dict[str, Any]) -> list[SimulationConfig]:
    """Return all configurations of a parsed sweep file. Raises InvalidConfig."""
    unknown = sorted(set(values) - {"seeds", "base", "grid"})
    if unknown:
        raise InvalidConfig(f"unknown key {unknown[0]!r}, expected only base, grid and seeds")
    base, grid = values.get("base", {}), values.get("grid", {})
    for name, table in (("base", base), ("grid", grid)):
        if not isinstance(table, dict):
            raise InvalidConfig(f"{name}={table!r}, expected a table of fields")
    seeds = values.get("seeds", [base.get("seed", 0)])
    if isinstance(seeds, int) and not isinstance(seeds, bool) and 1 <= seeds <= MOST_RUNS:
        seeds = list(range(seeds))
    if not isinstance(seeds, list) or not seeds:
        raise InvalidConfig(f"seeds={seeds!r}, expected a number of seeds from 1 to {MOST_RUNS:,} or a list of them")
    for name, choices in grid.items():
        if not isinstance(choices, list) or not choices:
            raise InvalidConfig(f"{name}={choices!r} in the grid, expected a list of values")
        if name in base or name == "seed":
            raise InvalidConfig(f"{name} is in the grid and in another table; expected it once")
    runs = len(seeds)
    for choices in grid.values():
        runs *= len(choices)
    if runs > MOST_RUNS:
        raise InvalidConfig(f"the sweep has {runs:,} runs, expected at most {MOST_RUNS:,}")
    found = [
        SimulationConfig.from_flat(PROPOSED | base | dict(zip(grid, chosen, strict=True)) | {"seed": seed})
        for seed in seeds
        for chosen in itertools.product(*grid.values())
    ]
    return list(dict.fromkeys(found))
