"""Rows and sentences of training diagnostics, from runs and variants. Without Streamlit and Plotly."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.experiments.diagnosis import FIX, Variant, noise_walk
from engine.experiments.seed_aggregates import OverSeeds
from engine.experiments.statistics import Spread
from engine.records import RoundRecord, Run
from engine.reports.numbers import epsilon_text
from pages.shared import address, messages, metrics

PLAIN, CLIPPED, NOISY = "no clipping, no noise", "clipping, no noise", "σ = 1"
"""Names of the variants without noise, with clipping only, and with noise multiplier 1, the one in question."""
_START = 0.05
"""Typical size of an initial weight: Glorot-uniform with 300 + 400 inputs and outputs has standard deviation 0.053."""


@dataclass(frozen=True)
class Tried:
    """A variant with the results of its runs."""

    variant: Variant
    measured: OverSeeds

    @property
    def f1(self) -> Spread | None:
        """Entity-level F1 on the test set."""
        return self.measured.entity.f1 if self.measured.entity else None

    def mean(self, what: str) -> float | None:
        """Return the mean of a field of the last record over the runs that have it."""
        values = [value for run in self.measured.runs if run.final and (value := getattr(run.final, what)) is not None]
        return statistics.fmean(values) if values else None


def rows(tried: Sequence[Tried]) -> list[dict[str, Any]]:
    """Return the variants as table rows, with the figures of the last record that explain their F1."""
    several = len({result.variant.group for result in tried}) > 1
    table = []
    for result in tried:
        config, final = result.variant.config, next((run.final for run in result.measured.runs), None)
        first = {"model": result.variant.group} if several else {}
        table.append(
            {
                **first,
                "setting": result.variant.name,
                "kind": result.variant.kind,
                "F1": result.f1.mean if result.f1 else None,
                "± sd": result.f1.known_sd if result.f1 else None,
                metrics.INTERVAL: metrics.interval_text(result.measured.interval),
                "ε": _epsilon(result),
                "seeds": result.measured.seeds_text,
                "clipped": _clipped(result) if config.privacy.clip_norm else None,
                "gradient": result.mean("gradient_norm_median"),
                "noise ÷ signal": result.mean("noise_to_signal"),
                "noise in a weight": noise_walk(config, final.steps_total)
                if final and config.privacy.private
                else None,
                "run": address.link(config),
                "ε rests on": address.ledger(*result.measured.runs),
                "why": result.variant.why,
            }
        )
    return table


def _epsilon(result: Tried) -> str:
    if not result.variant.config.privacy.private:
        return "∞"
    return epsilon_text(result.measured.epsilon) if result.measured.epsilon is not None else ""


def _clipped(result: Tried) -> str:
    share = result.mean("clipped_fraction")
    return "" if share is None else messages.percent(share)


def about_crf(tried: Sequence[Tried]) -> list[str]:
    """Explain in paragraphs, from the available runs, why a CRF loses F1 under DP."""
    scored = {(result.variant.group, result.variant.name): result for result in tried if result.f1}
    means = {key: result.f1.mean for key, result in scored.items() if result.f1}
    needed = [(head, name) for head in ("CRF", "TDDL") for name in (PLAIN, NOISY)]
    if any(key not in means for key in needed):
        return [_NOT_YET]
    lost = {head: means[head, PLAIN] - means[head, NOISY] for head in ("CRF", "TDDL")}
    more = "less" if lost["CRF"] < lost["TDDL"] else "more"
    paragraphs = [
        f"**The CRF loses {more} F1 than the dense layer.** At σ = 1 the CRF has F1 {_text(scored['CRF', NOISY])}, "
        f"without noise {means['CRF', PLAIN]:.3f}. The dense layer (TDDL) has F1 "
        f"{_text(scored['TDDL', NOISY])}, without noise {means['TDDL', PLAIN]:.3f}. The CRF loses "
        f"{lost['CRF']:.2f} and the dense layer {lost['TDDL']:.2f}. In the paper, F1 of the dense layer stays "
        "above 0.90. In our runs the noise reaches the weights, and F1 of the dense layer falls."
    ]
    if ("CRF", CLIPPED) in means:
        paragraphs.append(
            f"**The cause is the noise, not the clipping.** With clipping and without noise the CRF reaches F1 "
            f"{_text(scored['CRF', CLIPPED])}. {_size(scored['CRF', NOISY])}"
        )
    return [*paragraphs, _fixes([result for result in tried if result.variant.group == "CRF"])]


def about_phases(tried: Sequence[Tried], by_phase: dict[str, list[OverSeeds]]) -> list[str]:
    """Explain in paragraphs, from the available runs, why training in phases loses F1 under DP.

    Args:
        tried: The variants with their results at the end of training.
        by_phase: By the name of a variant, its results after each phase.
    """
    curve = [results.entity.f1.mean for results in by_phase.get(NOISY, []) if results.entity]
    if not curve:
        return [_NOT_YET]
    top = max(range(len(curve)), key=curve.__getitem__)
    lost = curve[top] - curve[-1]
    start = (
        "**F1 does not collapse here.**" if lost < 0.05 else f"**F1 falls after {_share(top, len(curve))}.**"
    ) + f" With the noise of DP-SGD, the entity-level F1 after each phase is {_path(curve)}."
    paragraphs = [start]
    large = by_phase.get("noise for batch size 1", [])
    if tokens := [results.token.f1.mean for results in large if results.token]:
        highest = max(results.entity.f1.mean for results in large if results.entity)
        paragraphs.append(
            "**Noise for batch size 1 breaks training.** This counterfactual run has 32 times the noise that a batch "
            f"of 32 needs. After each phase, the entity-level F1 is at most {highest:.2f}. In the paper's token-level "
            f"metric, F1 after each phase is {_path(tokens)}. The paper reports 0.74, 0.74, 0.17, 0.11, 0.12 at 20, "
            "40, 60, 80 and 100 % of the data. The first two values are close to the token-level F1 of a tagger that "
            "marks no entity. We infer, without proof, that noise for batch size 1, or a similar error, caused the "
            "reported collapse."
        )
    base = next((result for result in tried if result.variant.name == NOISY), None)
    if base and base.f1:
        plain = next((result for result in tried if result.variant.name == PLAIN), None)
        without = f"F1 is {_text(plain)} without noise and {_text(base)} with noise. " if plain and plain.f1 else ""
        paragraphs.append(
            f"**Short training limits F1 more than noise does.** {without}{_size(base)} Averaging over five clients "
            "removes part of the noise. Each sentence spends ε in its own phase only."
        )
    return [*paragraphs, _fixes(tried)]


_NOT_YET = "The runs that answer this question are still missing. Start them below."


def _text(result: Tried) -> str:
    return result.f1.text if result.f1 else ""


def _path(curve: Sequence[float]) -> str:
    return " → ".join(f"{value:.2f}" for value in curve)


def _share(phase: int, phases: int) -> str:
    return f"{100 * (phase + 1) / phases:.0f} % of the data"


def _size(result: Tried) -> str:
    """Return a sentence on the size of a variant's noise, empty where it is not recorded."""
    final = next((run.final for run in result.measured.runs), None)
    ratio = result.mean("noise_to_signal")
    walk = noise_walk(result.variant.config, final.steps_total) if final else None
    if ratio is None or walk is None:
        return ""
    return (
        f"In a step, the L2 norm of the noise over all weights is {ratio:.0f} times that of the summed "
        f"clipped gradients. By the end of training, noise alone has moved each weight by about {walk:.2f} (standard "
        f"deviation). For initial weights, the standard deviation is about {_START}."
    )


def _fixes(tried: Sequence[Tried]) -> str:
    """Return a sentence on the fixes by effect; a difference counts if it exceeds twice its standard error."""
    base = next((result.f1 for result in tried if result.variant.name == NOISY), None)
    scored = [(result, result.f1) for result in tried if result.variant.kind == FIX and result.f1]
    if not base or not scored:
        return "No fix has been run yet."
    effects: dict[str, list[str]] = {"higher F1": [], "no significant difference": [], "lower F1": []}
    for result, f1 in sorted(scored, key=lambda pair: -pair[1].mean):
        gain = f1.mean - base.mean
        margin = 2 * math.sqrt((f1.sd**2 + base.sd**2) / len(result.measured.runs))
        effect = "no significant difference" if abs(gain) <= margin else "higher F1" if gain > 0 else "lower F1"
        difference = f"{gain:+.3f}".replace("-", "−")
        effects[effect].append(f"{result.variant.name} ({difference})")
    listed = "; ".join(f"{effect} with {', '.join(names)}" for effect, names in effects.items() if names)
    return (
        f"**Fixes with at most the ε of σ = 1, and their difference in F1:** {listed}. A difference is significant if "
        "it exceeds two standard errors."
    )


def verdict(run: Run) -> str:
    """Return sentences on the training of a run, from its last record."""
    if not run.records:
        return "This run has no evaluation yet."
    last, privacy = run.records[-1], run.config.privacy
    parts = []
    if last.noise_to_signal is not None:
        unit, summands = ("round", "updates") if privacy.kind.client_level else ("step", "clipped gradients")
        parts.append(
            f"In a {unit}, the L2 norm of the noise is {_times(last.noise_to_signal)} that of the summed {summands}."
        )
    walk = noise_walk(run.config, last.step) if privacy.private else None
    if walk is not None:
        parts.append(
            f"Noise alone has moved each weight by about {walk:.2g} (standard deviation). For initial weights, the "
            f"standard deviation is about {_START}."
        )
    if privacy.clip_norm and not privacy.kind.client_level and last.clipped_fraction is not None:
        parts.append(_clipping(last.clipped_fraction, privacy.clip_norm))
    if last.federation and len(last.federation.update_norms) > 1:
        parts.append(
            f"After the last round, the clients' weights have an RMS L2 distance of {last.federation.drift:.3g} from "
            "their mean."
        )
    best = max(range(len(run.records)), key=lambda number: run.records[number].scores.f1)
    fall = run.records[best].scores.f1 - last.scores.f1
    if fall > 0.05:
        share = messages.percent(run.records[best].progress)
        parts.append(
            f"F1 on the validation set was highest at {share} of the steps and has fallen by {fall:.2f} since then."
        )
    return " ".join(parts) or "This run has no clipping and no noise, so DP-SGD cannot be the cause of a low F1."


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times" if ratio >= 1 else f"{ratio:.2g} times"


def _clipping(clipped: float, clip_norm: float) -> str:
    share = f"{messages.percent(clipped)} of the gradients are clipped to the norm {clip_norm:g}"
    if clipped < 0.5:
        return (
            f"{share}. Most gradients have a smaller norm. So a lower clip norm may help, since it reduces the noise."
        )
    return f"{share}."


def of_type(record: RoundRecord) -> dict[str, float]:
    """Return the F1 of each entity type on the validation set."""
    return {name: counts.ratios.f1 for name, counts in record.scores.strict.items()}
