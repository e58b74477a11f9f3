"""Charts of lesson 6, each with its headline and caption. Without Streamlit."""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from engine.config import TrainingConfig
from engine.lessons import ablations
from engine.lessons.ablations import HONEST, Watched
from engine.lessons.dpsgd_step import Price, Step
from engine.reports.numbers import epsilon_text
from pages.learn import guess_markers
from pages.shared import charts, palette

View = tuple[str, go.Figure, str]
"""Headline, chart and caption."""
_WORDS = 9
"""Words of a sentence in the hover text of its bar."""


def batch(step: Step, price: Price, words: Sequence[Sequence[str]], guess: float | None) -> View:
    """Draw the gradient length of each sentence as a bar, longest first.

    Args:
        step: The step.
        price: Its ε and signal-to-noise ratio.
        words: Words of each sentence, in the order of ``step.norms``.
        guess: Guessed length of the noise ÷ that of the sum, or None.
    """
    clip, order = step.setting.clip_norm, np.argsort(-step.norms, kind="stable")
    norms, kept = step.norms[order], np.minimum(step.norms[order], clip)
    texts = [" ".join(words[index][:_WORDS]) + (" …" if len(words[index]) > _WORDS else "") for index in order]
    figure = go.Figure()
    for name, values, colour, shape in (
        ("kept", kept, palette.PRIVATE, ""),
        ("clipped off", norms - kept, palette.RECALL, "/"),
    ):
        figure.add_bar(
            x=np.arange(1, len(norms) + 1),
            y=values,
            name=name,
            marker={"color": colour, "pattern": {"shape": shape if len(norms) < 150 else ""}, "line": {"width": 0}},
            text=texts,
            textposition="none",
            customdata=norms,
            hovertemplate="%{text}<br>gradient %{customdata:.2f} long, %{y:.2f} " + name + "<extra></extra>",
        )
    guess_markers.layout(
        figure, "l6-batch", x="sentences, by length of their gradient", y="length of the gradient (L2)"
    )
    top = 1.2 * max(float(norms.max(initial=0.0)), clip)
    figure.update_layout(bargap=0.25 if len(norms) < 150 else 0)
    figure.update_yaxes(range=[0, top])
    figure.add_hline(y=clip, line={"color": palette.QUIET, "width": 2, "dash": "dot"})
    figure.add_annotation(x=1, xref="paper", y=clip, text=f"C = {clip:g}", showarrow=False, xanchor="left", xshift=4)
    figure.update_layout(margin={"r": 64})
    if guess is not None:
        share = guess * step.signal / len(norms)
        guess_markers.horizontal_line(
            figure, min(share, 0.97 * top), f"your guess: noise of length {share:.3g} per sentence{_beyond(share, top)}"
        )
    headline = (
        f"The batch has {len(norms):,} sentences. C = {clip:g} shortens {step.clipped:,} of their gradients and "
        f"removes {100 * step.cut:.0f} % of the total length. {_tail(step, price)}"
    )
    caption = (
        f"The expected batch size is {step.setting.batch_size:,}: each sentence of the corpus is sampled at random. "
        f"The length of the noise, divided by the number of sentences in the batch, is {step.noise / len(norms):.3g}."
    )
    return headline, figure, caption


def _beyond(value: float, top: float) -> str:
    """Return a note if the value is above the top of the chart."""
    return " (above the chart)" if value > top else ""


def sum_and_noise(step: Step, price: Price, guess: float | None) -> View:
    """Draw the sum, the noise at its tip, and the resulting step, to scale in the plane of both.

    Args:
        step: The step.
        price: Its ε and signal-to-noise ratio.
        guess: Guessed length of the noise ÷ that of the sum, or None.
    """
    across = float(np.sqrt(max(0.0, step.noise**2 - step.along**2)))
    end = (step.signal + step.along, across)
    figure = go.Figure()
    for name, start, stop, colour, dash, width in (
        ("step: sum + noise", (0.0, 0.0), end, palette.PRECISION, "dash", 3),
        ("noise", (step.signal, 0.0), end, palette.RECALL, "solid", 3),
        ("clipped sum", (0.0, 0.0), (step.signal, 0.0), palette.PRIVATE, "solid", 5),
    ):
        figure.add_scatter(
            x=[start[0], stop[0]],
            y=[start[1], stop[1]],
            name=name,
            mode="lines+markers",
            line={"color": colour, "width": width, "dash": dash},
            marker={"symbol": ["circle", "arrow"], "size": [1, 15], "angleref": "previous", "color": colour},
            hovertemplate=f"{np.hypot(stop[0] - start[0], stop[1] - start[1]):,.4g} long<extra>{name}</extra>",
        )
    radius = 0.0 if guess is None else guess * step.signal
    if guess is not None:
        angles = np.linspace(0, np.pi, 91)
        figure.add_scatter(
            x=step.signal + radius * np.cos(angles),
            y=radius * np.sin(angles),
            name="your guess",
            mode="lines",
            line=guess_markers.GUESS,
            hoverinfo="skip",
        )
    _label_lengths(figure, step, end)
    guess_markers.layout(figure, "l6-sum", x="parallel to the sum", y="orthogonal to the sum")
    top = 1.1 * max(across, radius, step.signal / 2)
    figure.update_yaxes(range=[-0.06 * top, top])
    margin = 0.3 * step.signal
    low, high = min(-margin, step.signal - 1.05 * radius), step.signal + max(2.7 * margin, 1.05 * radius)
    figure.update_xaxes(range=[low, high], scaleanchor="y")
    headline = (
        f"The noise is {_times(step.times)} as long as the sum. Of its length of {_length(step.noise)}, only "
        f"{_length(abs(step.along))} is parallel to the sum. {_tail(step, price)}"
    )
    rate = TrainingConfig().learning_rate
    caption = (
        f"Arrows are to scale. Lengths are L2 norms over all {step.size:,} weights. The update (dashed arrow × "
        f"learning rate {rate:g} ÷ batch size {step.setting.batch_size:,}) has length {_length(step.moved)}; all "
        f"weights together have length {_length(step.weights)}."
    )
    return headline, figure, caption


def _label_lengths(figure: go.Figure, step: Step, tip: tuple[float, float]) -> None:
    """Add labels with the lengths of the sum and of the noise, whose arrow ends at ``tip``."""
    if step.signal > step.noise / 3:
        positions = (step.signal / 2, 0.0, "center", 0), (tip[0], 0.4 * tip[1], "left", 8)
    else:
        positions = (step.signal, 0.0, "left", 8), (tip[0], 0.55 * tip[1], "left", 8)
    texts = f"sum: {_length(step.signal)}", f"noise: {_length(step.noise)}"
    for text, (x, y, anchor, shift) in zip(texts, positions, strict=True):
        figure.add_annotation(
            x=x, y=y, text=text, showarrow=False, xanchor=anchor, yanchor="bottom", xshift=shift, yshift=4
        )


def larger(now: Price, curves: dict[int, tuple[Price, ...]], guess: float | None) -> View:
    """Draw ε and the noise ÷ sum at each σ, one curve per batch size.

    Args:
        now: The chosen setting.
        curves: Other settings by batch size.
        guess: Guessed length of the noise ÷ that of the sum, or None.
    """
    figure = go.Figure()
    for number, (size, prices) in enumerate(curves.items()):
        figure.add_scatter(
            x=[price.epsilon for price in prices],
            y=[price.times for price in prices],
            name=f"batch size {size:,}",
            mode="lines+markers",
            line={"color": palette.TYPES[number], "width": 3, "dash": palette.DASHES[number]},
            marker={"size": 7},
            text=[f"σ = {price.noise_multiplier:g}, {price.steps:,} steps" for price in prices],
            hovertemplate="%{text}<br>ε ≤ %{x:.3g}, noise %{y:.3g} × the sum<extra>%{fullData.name}</extra>",
        )
    figure.add_scatter(
        x=[now.epsilon],
        y=[now.times],
        name="your choice",
        mode="markers",
        marker={"size": 15, "symbol": "star", "color": palette.PRIVATE, "line": {"width": 1.5, "color": "white"}},
        hovertemplate=f"ε ≤ %{{x:.3g}}, noise %{{y:.3g}} × the sum<extra>σ = {now.noise_multiplier:g}, yours</extra>",
    )
    guess_markers.layout(figure, "l6-larger", x="ε, at most (δ = 1e-5)", y="noise ÷ sum, per step", height=470)
    below = {"y": -0.2, "yanchor": "top"}  # a second row above the chart would be under its buttons
    figure.update_layout(margin={"t": 40, "b": 130}, legend=below)
    prices_shown = [price for prices in curves.values() for price in (*prices, now)]
    _log(figure.update_xaxes, [price.epsilon for price in prices_shown])
    _log(figure.update_yaxes, [price.times for price in prices_shown] + ([guess] if guess else []))
    guess_markers.horizontal_line(figure, guess or None, log=True)
    return _larger_headline(now, curves), figure, _all_steps_caption(now, curves)


def _log(axis: object, values: list[float]) -> None:
    """Make an axis logarithmic, with a range around these values and labels that fit.

    ``axis`` is the update method of the axis.
    """
    low, high = 0.8 * min(values), 1.25 * max(values)
    ticks = charts.log_ticks(low, high)
    if callable(axis):
        axis(
            type="log",
            range=[float(np.log10(low)), float(np.log10(high))],
            tickvals=ticks,
            ticktext=[f"{tick:g}" for tick in ticks],
        )


def _best(now: Price, curves: dict[int, tuple[Price, ...]]) -> Price:
    """Return the setting with the least noise among larger batches at no larger ε, or else the chosen one."""
    comparable = [
        price
        for prices in curves.values()
        for price in prices
        if price.epsilon <= now.epsilon and price.batch_size > now.batch_size
    ]
    return min((*comparable, now), key=lambda price: price.times)


def _larger_headline(now: Price, curves: dict[int, tuple[Price, ...]]) -> str:
    best = _best(now, curves)
    chosen = f"Now ε ≤ {epsilon_text(now.epsilon)}, and the noise is {_times(now.times)} as long as the sum."
    if best is now:
        return f"{chosen} No larger batch here has less noise at this ε."
    steps = "" if best.steps == now.steps else f", in {_steps(best.steps)}"
    return (
        f"{chosen} Without a larger ε, batches of {best.batch_size:,} with σ = {best.noise_multiplier:g} reduce this "
        f"ratio to {_times(best.times)}{steps}."
    )


def _all_steps_caption(now: Price, curves: dict[int, tuple[Price, ...]]) -> str:
    """Return a caption on the signal-to-noise ratio of all steps, because noise cancels out less over fewer steps."""
    best = _best(now, curves)
    if best is now:
        return "Each point is one σ; ε by Rényi accounting."
    ratios = [np.sqrt(price.steps) / price.times for price in (now, best)]
    factor = round(best.steps * best.batch_size / (now.steps * now.batch_size))
    return (
        "Each point is one σ. If all steps had the same direction, the total signal-to-noise ratio would be "
        f"{ratios[0]:.2g} for your choice and {ratios[1]:.2g} for batches of {best.batch_size:,} "
        f"({f'{factor} times the' if factor > 1 else 'no more'} sentences)."
    )


def left_out(watched: Watched) -> View:
    """Draw the statistic of the noise check that reveals a fault, over the observed steps."""
    fault, checks = watched.fault, watched.checks
    steps, statistic = [check.steps for check in checks], fault.figure
    values = [statistic.read(check) for check in checks]
    figure = go.Figure()
    tolerances: list[float] = []
    if statistic.tolerance:
        measured = [
            (check.steps, tolerance) for check in checks if not math.isnan(tolerance := statistic.tolerance(check))
        ]
        tolerances = [tolerance for _, tolerance in measured]
        upper = [statistic.planned + tolerance for tolerance in tolerances]
        lower = [statistic.planned - tolerance for tolerance in reversed(tolerances)]
        figure.add_scatter(
            x=[step for step, _ in (*measured, *reversed(measured))],
            y=upper + lower,
            name="tolerance",
            fill="toself",
            mode="lines",
            line={"width": 0},
            fillcolor="rgba(14, 140, 118, 0.2)",
            hoverinfo="skip",
        )
    for name, failed, symbol, colour in (
        ("fault not found", False, "circle", palette.PRIVATE),
        ("fault found", True, "x", palette.RECALL),
    ):
        indices = [index for index, check in enumerate(checks) if check.failed is failed]
        figure.add_scatter(
            x=[steps[index] for index in indices],
            y=[values[index] for index in indices],
            name=name,
            mode="markers",
            marker={"symbol": symbol, "size": 12, "color": colour},
            hovertemplate="after %{x} steps: %{y:.4g}<extra></extra>",
        )
    guess_markers.layout(figure, f"l6-left-{fault.name}", x="steps observed by the noise check", y=statistic.name)
    guess_markers.limit_line(figure, statistic.planned, "planned", position="top right")
    figure.update_xaxes(
        type="log", tickvals=list(ablations.MOMENTS), range=[-0.08, np.log10(ablations.MOMENTS[-1]) + 0.08]
    )
    figure.update_yaxes(range=_range([*values, statistic.planned], tolerances))
    return (
        _left_out_headline(watched),
        figure,
        (
            f"A real run of the paper's size (σ = {ablations.SIGMA:g}, C = {ablations.CLIP:g}), observed by its noise "
            "check. The check's false-alarm rate is below one in a million."
        ),
    )


def _range(values: Sequence[float], tolerances: Sequence[float]) -> tuple[float, float]:
    """Return an axis range from 0, or around the values if all are within their tolerance; NaN is ignored."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    reach = 1.3 * float(np.nanmax([0.0, *tolerances]))
    if tolerances and high - low < reach:
        return high - 2 * reach, low + 2 * reach
    top = max(1.15 * high, high + reach, 0.01)
    return -0.05 * top, top


def _left_out_headline(watched: Watched) -> str:
    """Return the left-out part and the result of the noise check."""
    fault, last = watched.fault, watched.checks[-1].steps
    if fault is HONEST:
        return f"Nothing is left out, and the noise check finds no fault in {last} steps."
    left_out_part = f"Left out: {fault.title} ({fault.instead})."
    if watched.found is None:
        return f"{left_out_part} Not found in {last} steps. {fault.unseen}"
    return f"{left_out_part} Found after {_steps(watched.found)}. {watched.says}"


def _tail(step: Step, price: Price) -> str:
    """Return the signal-to-noise ratio and ε for a headline."""
    ratio = f"1 : {step.times:.3g}" if step.times >= 1 else f"{1 / step.times:.3g} : 1"
    return f"Signal-to-noise ratio {ratio}; after {_steps(price.steps)} ε ≤ {epsilon_text(price.epsilon)}."


def _times(value: float) -> str:
    return f"{value:,.0f} times" if value >= 10 else f"{value:.2g} times"


def _length(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _steps(number: int) -> str:
    return f"{number:,} {'step' if number == 1 else 'steps'}"
