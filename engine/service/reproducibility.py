"""Reruns: a finished run is computed again and compared with the first result.

The random streams depend only on seed, configuration and step. On the same machine a rerun must therefore be equal to
the last digit; on another machine the order of summation may differ. A run with noise from the system cannot be rerun.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import InvalidConfig
from engine.records import NoiseCheck, PrivacySpent, RoundRecord, Run, RunState

_MARK = "r"  # no hexadecimal digit: no first run has such an identity


def repeat_id(run_id: str) -> str:
    """Return the identity of the rerun of a run."""
    return _MARK + run_id[1:]


@dataclass(frozen=True)
class RerunComparison:
    """Comparison of a rerun with the first run.

    Attributes:
        identical: Whether loss, gradient norms, ε (to six digits), noise check and all counts are equal.
        f1_difference: F1 on the test set of the rerun minus that of the first run.
    """

    identical: bool
    f1_difference: float

    @property
    def text(self) -> str:
        """The comparison in words."""
        if self.identical:
            return "equal to the last digit"
        return f"F1 {self.f1_difference:+.4f}" if self.f1_difference else "equal F1, other digits differ"


@dataclass(frozen=True)
class Rerun:
    """A rerun.

    Attributes:
        state: Its state.
        comparison: Comparison with the first run; None until the rerun is done.
    """

    state: RunState
    comparison: RerunComparison | None


def compare(first: RoundRecord | None, again: RoundRecord | None) -> RerunComparison | None:
    """Compare the last records of a run and its rerun; return None unless both are final."""
    if not (first and again and first.test and again.test and first.final and again.final):
        return None
    same = _computed(first) == _computed(again)
    return RerunComparison(same, again.test.f1 - first.test.f1)


def _computed(record: RoundRecord) -> RoundRecord:
    """Return the record with only its random draws and computed values.

    Times, texts, and the tolerances and numbers of comparisons of the noise check are removed, and ε keeps six digits:
    they depend on no draw, and another version of the program may word or compute them differently.
    """
    platforms = (
        replace(platform, **_without_texts(platform.privacy, platform.noise_check)) for platform in record.platforms
    )
    fields = _without_texts(record.privacy, record.noise_check)
    return replace(record, seconds=0.0, platforms=tuple(platforms), **fields)


def _without_texts(privacy: PrivacySpent, check: NoiseCheck | None) -> dict[str, Any]:
    if check:
        layers = tuple(replace(layer, tolerance=0.0) for layer in check.layers)
        check = replace(check, noise_tolerance=0.0, layers=layers, draws_compared=0, sampling_compared=0)
    spent: dict[str, Any] = {
        name: _six_digits(getattr(privacy, name)) for name in ("epsilon", "rdp_epsilon", "poisson_epsilon")
    }
    return {"privacy": replace(privacy, neighbouring="", assumptions=(), **spent), "noise_check": check}


def _six_digits(epsilon: float | None) -> float | None:
    return None if epsilon is None else float(f"{epsilon:.6g}")


def summary(found: Iterable[Rerun]) -> str:
    """Return a sentence on several reruns; "" if there are none."""
    reruns = list(found)
    if not reruns:
        return ""
    comparisons = [rerun.comparison for rerun in reruns if rerun.comparison]
    same = sum(comparison.identical for comparison in comparisons)
    text = f"Reruns: {len(comparisons):,} of {len(reruns):,} done, {same:,} equal to the last digit"
    differences = [abs(comparison.f1_difference) for comparison in comparisons if not comparison.identical]
    text += f", the others within {max(differences):.4f} of F1" if differences else ""
    stopped = sum(rerun.state in (RunState.FAILED, RunState.CANCELLED) for rerun in reruns)
    return text + (f"; {stopped:,} stopped, see the page Runs." if stopped else ".")


def keys_destroyed(run: Run) -> bool:
    """Return whether the run has ended and its keys were destroyed, so that it can neither continue nor be rerun.

    A run that ended before its first record has released nothing, and may start again with new keys.
    """
    return run.config.privacy.noise_source == "system" and run.status.state.final and bool(run.records)


def refuse_again(run: Run) -> None:
    """Raise InvalidConfig if the run cannot be computed again because its keys were destroyed."""
    if keys_destroyed(run):
        raise InvalidConfig(
            f"run {run.run_id} has noise_source='system': its keys were destroyed when it ended "
            f"({run.status.state}), so it can neither continue nor be rerun. Its records are kept. Use another seed "
            "for a new run of the same settings"
        )
