"""TensorFlow Privacy's statement on the same training: a crosscheck of ε by independent code.

The module of statements does not need TensorFlow, but its package loads it, which takes ten seconds. Therefore only the
module is loaded, from its file.
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
    """A parsed statement.

    Attributes:
        text: The printed statement.
        poisson: Its ε by Rényi accounting if each sentence is sampled independently.
        ordered: Its ε by Rényi accounting if each sentence occurs once an epoch.
    """

    text: str
    poisson: float
    ordered: float


def of(plan: PrivacyPlan, steps: int) -> Statement | None:
    """Return the statement on ``steps`` steps of a plan with noise on sentences.

    Returns None if the package is not installed or the statement cannot be parsed.
    """
    module = _module()
    if module is None:
        return None
    epochs = _epochs(plan, steps)
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
        text.strip(), *(math.inf if match[1] == "inf" else float(match[1]) for match in (poisson, ordered))
    )


def _epochs(plan: PrivacyPlan, steps: int) -> float:
    """Return a number of epochs, with few digits, from which TensorFlow Privacy computes this number of steps.

    It rounds epochs ÷ sampling probability up, so the number must not be above the exact one.
    """
    probability = plan.batch_size / plan.examples
    unit = 10.0 ** min(-6, math.floor(math.log10(probability)) - 2)
    units = math.floor(steps * probability / unit)
    while math.ceil(units * unit / probability) > steps:
        units -= 1
    return units * unit


@lru_cache
def _module() -> ModuleType | None:
    package = importlib.util.find_spec(_PACKAGE)
    folders = package.submodule_search_locations if package else None
    path = Path(folders[0], _FILE) if folders else None
    if path is None or not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
