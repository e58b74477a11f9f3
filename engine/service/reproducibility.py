"""A run computed once more, beside the first, to see whether it comes out the same.

Its random streams depend on the seed, on what is run and on the step only, so on the same machine it must be equal to
the last digit; on another one, sums may be taken in another order. A run whose noise came from the system cannot be
repeated.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import InvalidConfig
from engine.records import NoiseCheck, PrivacySpent, RoundRecord, Run, RunState

_MARK = "r"  # no hexadecimal digit: no first run has such an identity


def repeat_id(run_id: str) -> str:
    """The identity of the run that repeats this one."""
    return _MARK + run_id[1:]


@dataclass(frozen=True)
class RerunComparison:
    """How a repeated run came out. identical: whether loss, gradient norms, ε, noise check and all counts are equal to
    the first one's. f1_difference: on the test part, the second minus the first."""

    identical: bool
    f1_difference: float

    @property
    def text(self) -> str:
        """In words."""
        if self.identical:
            return "equal to the last digit"
        return f"F1 {self.f1_difference:+.4f}" if self.f1_difference else "equal F1, other digits differ"


@dataclass(frozen=True)
class Rerun:
    """A repetition. state: where it stands. outcome: None until it is done."""

    state: RunState
    comparison: RerunComparison | None


def compare(first: RoundRecord | None, again: RoundRecord | None) -> RerunComparison | None:
    """What the last records of both say; None as long as one of them is not final."""
    if not (first and again and first.test and again.test and first.final and again.final):
        return None
    same = _figures(first) == _figures(again)
    return RerunComparison(same, again.test.f1 - first.test.f1)


def _figures(record: RoundRecord) -> RoundRecord:
    """What a run drew and computed: not how long it took, nor words, nor how far chance may move the noise, which
    follow from no draw and may be said otherwise by a newer program."""
    platforms = (replace(each, **_measured(each.privacy, each.noise_check)) for each in record.platforms)
    own = _measured(record.privacy, record.noise_check)
    return replace(record, seconds=0.0, platforms=tuple(platforms), **own)


def _measured(privacy: PrivacySpent, check: NoiseCheck | None) -> dict[str, Any]:
    if check:
        layers = tuple(replace(layer, tolerance=0.0) for layer in check.layers)
        check = replace(check, noise_tolerance=0.0, layers=layers)
    return {"privacy": replace(privacy, assumptions=()), "noise_check": check}


def summary(found: Iterable[Rerun]) -> str:
    """Several repetitions in a sentence; empty without any."""
    every = list(found)
    if not every:
        return ""
    known = [each.comparison for each in every if each.comparison]
    same = sum(each.identical for each in known)
    text = f"Run again: {len(known):,} of {len(every):,} done, {same:,} equal to the last digit"
    apart = [abs(each.f1_difference) for each in known if not each.identical]
    text += f", the others within {max(apart):.4f} of F1" if apart else ""
    stopped = sum(each.state in (RunState.FAILED, RunState.CANCELLED) for each in every)
    return text + (f"; {stopped:,} stopped, see the page Runs." if stopped else ".")


def refuse_again(run: Run) -> None:
    """Raises InvalidConfig where the keys of the noise are gone."""
    if run.config.privacy.noise_source == "system":
        raise InvalidConfig(
            f"run {run.run_id} has noise_source='system': its keys were destroyed when it ended, so it cannot be run "
            "again; another seed gives another run of the same setting"
        )
