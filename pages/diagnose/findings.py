"""Runs and variants → rows and sentences about why training breaks: no streamlit, no plotly."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.experiments.diagnosis import MEND, WHAT_IF, Variant, noise_walk
from engine.experiments.seed_aggregates import OverSeeds
from engine.experiments.statistics import Spread
from engine.records import RoundRecord, Run
from engine.reports.numbers import epsilon_text
from pages.shared import address, messages, metrics

NOISY = "σ = 1"
"""Name of the variant that a question is about."""
_START = 0.05
"""Roughly what weights begin with: Glorot-uniform with 300 + 400 inputs and outputs has standard deviation 0.053."""


@dataclass(frozen=True)
class Tried:
    """A variant with what its runs gave."""

    variant: Variant
    measured: OverSeeds

    @property
    def f1(self) -> Spread | None:
        """Whole names, test part."""
        return self.measured.entity.f1 if self.measured.entity else None

    def mean(self, what: str) -> float | None:
        """A number of the last record, mean over the runs that have it."""
        values = [value for run in self.measured.runs if run.final and (value := getattr(run.final, what)) is not None]
        return statistics.fmean(values) if values else None


def rows(tried: Sequence[Tried]) -> list[dict[str, Any]]:
    """A table of variants: what they are, what they gave, and the numbers that explain it, from the last record."""
    several = len({each.variant.group for each in tried}) > 1
    shown = []
    for each in tried:
        config, final = each.variant.config, next((run.final for run in each.measured.runs), None)
        first = {"model": each.variant.group} if several else {}
        shown.append(
            {
                **first,
                "setting": each.variant.name,
                "kind": each.variant.kind,
                "F1": each.f1.mean if each.f1 else None,
                "± sd": each.f1.known_sd if each.f1 else None,
                metrics.INTERVAL: metrics.interval_text(each.measured.interval),
                "ε": _epsilon(each),
                "seeds": each.measured.seeds_text,
                "clipped": _clipped(each) if config.privacy.clip_norm else None,
                "gradient": each.mean("gradient_norm_median"),
                "noise ÷ signal": each.mean("noise_to_signal"),
                "noise in a weight": noise_walk(config, final.steps_total)
                if final and config.privacy.private
                else None,
                "run": address.link(config),
                "ε rests on": address.ledger(*each.measured.runs),
                "why": each.variant.why,
            }
        )
    return shown


def _epsilon(each: Tried) -> str:
    if each.variant.kind == WHAT_IF:
        return "none"
    return epsilon_text(each.measured.epsilon) if each.measured.epsilon is not None else ""


def _clipped(each: Tried) -> str:
    share = each.mean("clipped_fraction")
    return "" if share is None else messages.percent(share)


def about_crf(tried: Sequence[Tried]) -> list[str]:
    """Why does a CRF suffer under DP? In paragraphs, from the runs at hand."""
    at = {(each.variant.group, each.variant.name): each for each in tried if each.f1}
    found = {key: each.f1.mean for key, each in at.items() if each.f1}
    needed = [(head, name) for head in ("CRF", "TDDL") for name in ("not private", NOISY)]
    if any(key not in found for key in needed):
        return [_NOT_YET]
    lost = {head: found[head, "not private"] - found[head, NOISY] for head in ("CRF", "TDDL")}
    more = "less" if lost["CRF"] < lost["TDDL"] else "more"
    paragraphs = [
        f"**It suffers, and {more} than the dense layer does.** At σ = 1 the CRF keeps F1 {_text(at['CRF', NOISY])} of "
        f"{found['CRF', 'not private']:.3f}, the dense layer (TDDL) {_text(at['TDDL', NOISY])} of "
        f"{found['TDDL', 'not private']:.3f}: a loss of {lost['CRF']:.2f} against {lost['TDDL']:.2f}. The printed "
        "tables have it the other way round, because there the TDDL row does not fall at all. With noise that reaches "
        "the weights it falls here."
    ]
    if ("CRF", "noise not applied") in found:
        paragraphs.append(
            f"**It is the noise, not the clipping.** Clipped and without noise the CRF reaches "
            f"{_text(at['CRF', 'noise not applied'])}. {_size(at['CRF', NOISY])}"
        )
    return [*paragraphs, _mended([each for each in tried if each.variant.group == "CRF"])]


def about_phases(tried: Sequence[Tried], by_phase: dict[str, list[OverSeeds]]) -> list[str]:
    """Why does training in phases collapse under DP? In paragraphs, from the runs at hand. by_phase: by the name of a
    variant, what was reached after each phase."""
    curve = [each.entity.f1.mean for each in by_phase.get(NOISY, []) if each.entity]
    if not curve:
        return [_NOT_YET]
    top = max(range(len(curve)), key=curve.__getitem__)
    lost = curve[top] - curve[-1]
    start = (
        "**It does not collapse here.**" if lost < 0.05 else f"**It falls after {_share(top, len(curve))}.**"
    ) + f" With the noise that DP-SGD has, F1 of whole names goes {_path(curve)} as the phases come in."
    paragraphs = [start]
    large = by_phase.get("noise for batch size 1", [])
    if tokens := [each.token.f1.mean for each in large if each.token]:
        names = max(each.entity.f1.mean for each in large if each.entity)
        paragraphs.append(
            "**Noise for batch size 1 breaks it,** which is 32 times the noise that belongs to a batch of 32, and from "
            f"the first phase on: F1 of whole names never passes {names:.2f}. As the paper counts it goes "
            f"{_path(tokens)}; printed are 0.74, 0.74, 0.17, 0.11, 0.12 at 20, 40 … 100 %, of which the first two are "
            "what a tagger scores that finds no name. That something of this kind happened there is our inference."
        )
    base = next((each for each in tried if each.variant.name == NOISY), None)
    if base and base.f1:
        paragraphs.append(
            f"**What holds it back is short training more than noise.** {_size(base)} Averaging over five clients "
            "takes out part of the noise, and each sentence pays for its own phase only."
        )
    return [*paragraphs, _mended(tried)]


_NOT_YET = "Runs that answer this are still missing: start them below."


def _text(each: Tried) -> str:
    return each.f1.text if each.f1 else ""


def _path(curve: Sequence[float]) -> str:
    return " → ".join(f"{value:.2f}" for value in curve)


def _share(phase: int, phases: int) -> str:
    return f"{100 * (phase + 1) / phases:.0f} % of the data"


def _size(each: Tried) -> str:
    """How large the noise is."""
    final = next((run.final for run in each.measured.runs), None)
    ratio = each.mean("noise_to_signal")
    walk = noise_walk(each.variant.config, final.steps_total) if final else None
    if ratio is None or walk is None:
        return ""
    return (
        f"A step's noise is {ratio:.0f} times as long (L2, over all weights) as the summed gradients beside it, and by "
        f"the end noise alone has moved each weight by about {walk:.2f}, where weights begin at about {_START}."
    )


def _mended(tried: Sequence[Tried]) -> str:
    """What helped and what did not, against the setting in question; a gain is one beyond twice its standard error."""
    base = next((each.f1 for each in tried if each.variant.name == NOISY), None)
    known = [(each, each.f1) for each in tried if each.variant.kind == MEND and each.f1]
    if not base or not known:
        return "No mend has been run yet."
    sorts: dict[str, list[str]] = {"helps": [], "makes no clear difference": [], "hurts": []}
    for each, f1 in sorted(known, key=lambda one: -one[1].mean):
        gain = f1.mean - base.mean
        doubt = 2 * math.sqrt((f1.sd**2 + base.sd**2) / len(each.measured.runs))
        sort = "makes no clear difference" if abs(gain) <= doubt else "helps" if gain > 0 else "hurts"
        sorts[sort].append(f"{each.variant.name} ({gain:+.3f})")
    listed = "; ".join(f"{sort}: {', '.join(names)}" for sort, names in sorts.items() if names)
    return f"**At no more ε than σ = 1 has,** {listed}."


def verdict(run: Run) -> str:
    """What a run's last record says about how it fared."""
    if not run.records:
        return "This run has recorded nothing yet."
    last, privacy = run.records[-1], run.config.privacy
    parts = []
    if last.noise_to_signal is not None:
        of = "of a round" if privacy.kind.client_level else "of a step"
        parts.append(f"The noise {of} is {_times(last.noise_to_signal)} the sum that it is added to (L2).")
    walk = noise_walk(run.config, last.step) if privacy.private else None
    if walk is not None:
        parts.append(f"Noise alone has moved each weight by about {walk:.2g}; weights begin at about {_START}.")
    if privacy.clip_norm and not privacy.kind.client_level:
        parts.append(_clipping(last, privacy.clip_norm))
    if last.federation and len(last.federation.update_norms) > 1:
        parts.append(f"The clients' weights lie {last.federation.drift:.3g} from their mean after a round (L2).")
    best = max(range(len(run.records)), key=lambda number: run.records[number].scores.f1)
    fall = run.records[best].scores.f1 - last.scores.f1
    if fall > 0.05:
        share = messages.percent(run.records[best].progress)
        parts.append(f"F1 on the validation part was best at {share} of the steps and has fallen by {fall:.2f} since.")
    return " ".join(parts) or "Neither clipped nor noisy: nothing of DP-SGD can break it."


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times as long as" if ratio >= 1 else f"{ratio:.2g} of the length of"


def _clipping(last: RoundRecord, clip_norm: float) -> str:
    share = f"{messages.percent(last.clipped_fraction)} of the gradients are clipped to {clip_norm:g}"
    if last.clipped_fraction < 0.5:
        return f"{share}: most are shorter, so the noise is made for longer ones than there are."
    return f"{share}."


def of_type(record: RoundRecord) -> dict[str, float]:
    """F1 of each entity type, validation part."""
    return {name: counts.ratios.f1 for name, counts in record.scores.strict.items()}
