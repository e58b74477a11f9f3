"""What TensorFlow Privacy says of the same training: a second opinion on ε, by other people's code.

Its module of statements needs TensorFlow for nothing, but its package loads it, which takes ten seconds: so the module
alone is loaded, from its file.
"""

import importlib.util
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from engine.privacy.plan import PrivacyPlan

_PACKAGE = "tensorflow_privacy"
_FILE = Path("privacy", "analysis", "compute_dp_sgd_privacy_lib.py")
_FIGURE = r"Epsilon {}:\s+([\d.]+|inf)"


@dataclass(frozen=True)
class Statement:
    """text: as it is printed. poisson, ordered: the two values of ε in it, by Rényi accounting: if each sentence is
    drawn by itself, and if each occurs once an epoch."""

    text: str
    poisson: float
    ordered: float


def of(plan: PrivacyPlan, steps: int) -> Statement | None:
    """The statement on so many steps of a plan with noise on sentences; None where the package is not here, or says
    nothing that can be read."""
    module = _module()
    if module is None:
        return None
    epochs = round(steps * plan.batch_size / plan.examples, 6)
    text = str(
        module.compute_dp_sgd_privacy_statement(
            plan.examples, plan.batch_size, epochs, plan.noise_multiplier, plan.delta, used_microbatching=False
        )
    )
    poisson, ordered = (
        re.search(_FIGURE.format(words), text)
        for words in (r"assuming Poisson sampling \(\*\)", "with each example occurring once per epoch")
    )
    if poisson is None or ordered is None:
        return None
    return Statement(
        text.strip(), *(math.inf if found[1] == "inf" else float(found[1]) for found in (poisson, ordered))
    )


@lru_cache
def _module() -> ModuleType | None:
    package = importlib.util.find_spec(_PACKAGE)
    folders = package.submodule_search_locations if package else None
    path = Path(folders[0], _FILE) if folders else None
    if path is None or not path.is_file():
        return None
    found = importlib.util.spec_from_file_location(path.stem, path)
    if found is None or found.loader is None:
        return None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
