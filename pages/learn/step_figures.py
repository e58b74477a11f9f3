"""What lesson 6 draws, each picture with its sentence and a line below: no streamlit."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from engine.config import TrainingConfig
from engine.lessons import ablations as watching
from engine.lessons.ablations import HONEST, Watched
from engine.lessons.dpsgd_step import Price, Step
from engine.reports.numbers import epsilon_text
from pages.learn import guess_markers
from pages.shared import charts, palette

Drawn = tuple[str, go.Figure, str]
_WORDS = 9
"""Of a sentence that are shown where one points at its bar."""


def batch(step: Step, price: Price, words: Sequence[Sequence[str]], guess: float | None) -> Drawn:
    """Each sentence's gradient a bar, in order of length."""
    clip, order = step.setting.clip_norm, np.argsort(-step.norms, kind="stable")
    norms, kept = step.norms[order], np.minimum(step.norms[order], clip)
    texts = [" ".join(words[place][:_WORDS]) + (" …" if len(words[place]) > _WORDS else "") for place in order]
    figure = go.Figure()
    for name, values, colour, shape in (
        ("stays", kept, palette.PRIVATE, ""),
        ("cut off", norms - kept, palette.RECALL, "/"),
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
        each = guess * step.signal / len(norms)
        guess_markers.horizontal_line(
            figure, min(each, 0.97 * top), f"your guess: noise {each:.3g} long for each" + _beyond(each, top)
        )
    said = (
        f"{len(norms):,} sentences came. C = {clip:g} shortens {step.clipped:,} of their gradients and cuts off "
        f"{100 * step.cut:.0f} % of all length. {_tail(step, price)}"
    )
    more = (
        f"{step.setting.batch_size:,} are expected: each of the corpus's sentences joins by chance. Shared among those "
        f"that came, the noise is {step.noise / len(norms):.3g} long for each."
    )
    return said, figure, more


def _beyond(value: float, top: float) -> str:
    return " ↑" if value > top else ""


def sum_and_noise(step: Step, price: Price, guess: float | None) -> Drawn:
    """To scale, in the plane of both: the sum, the noise at its tip, and both together."""
    across = float(np.sqrt(max(0.0, step.noise**2 - step.along**2)))
    end = (step.signal + step.along, across)
    figure = go.Figure()
    for name, start, stop, colour, dash, width in (
        ("both: the step", (0.0, 0.0), end, palette.PRECISION, "dash", 3),
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
    _name(figure, step, end)
    guess_markers.layout(figure, "l6-sum", x="along the sum", y="across it")
    top = 1.1 * max(across, radius, step.signal / 2)
    figure.update_yaxes(range=[-0.06 * top, top])
    room = 0.3 * step.signal
    low, high = min(-room, step.signal - 1.05 * radius), step.signal + max(2.7 * room, 1.05 * radius)
    figure.update_xaxes(range=[low, high], scaleanchor="y")
    said = (
        f"The noise is {_times(step.times)} as long as the sum. Only {_length(abs(step.along))} of its "
        f"{_length(step.noise)} lies along the sum. {_tail(step, price)}"
    )
    rate = TrainingConfig().learning_rate
    more = (
        f"To scale; lengths (L2) over all {step.size:,} weights. The step is the dashed arrow × {rate:g} "
        f"÷ {step.setting.batch_size:,}: {_length(step.moved)} long, beside weights of {_length(step.weights)}."
    )
    return said, figure, more


def _name(figure: go.Figure, step: Step, tip: tuple[float, float]) -> None:
    """The lengths at sum and noise."""
    if step.signal > step.noise / 3:
        places = (step.signal / 2, 0.0, "center", 0), (tip[0], 0.4 * tip[1], "left", 8)
    else:
        places = (step.signal, 0.0, "left", 8), (tip[0], 0.55 * tip[1], "left", 8)
    texts = f"sum: {_length(step.signal)}", f"noise: {_length(step.noise)}"
    for text, (x, y, side, aside) in zip(texts, places, strict=True):
        figure.add_annotation(
            x=x, y=y, text=text, showarrow=False, xanchor=side, yanchor="bottom", xshift=aside, yshift=4
        )


def larger(now: Price, curves: dict[int, tuple[Price, ...]], guess: float | None) -> Drawn:
    """ε and noise at each σ, a curve for each size of batch. now: what is chosen."""
    figure = go.Figure()
    for number, (size, prices) in enumerate(curves.items()):
        figure.add_scatter(
            x=[price.epsilon for price in prices],
            y=[price.times for price in prices],
            name=f"{size:,} a step",
            mode="lines+markers",
            line={"color": palette.TYPES[number], "width": 3, "dash": palette.DASHES[number]},
            marker={"size": 7},
            text=[f"σ = {price.noise_multiplier:g}, {price.steps:,} steps" for price in prices],
            hovertemplate="%{text}<br>ε ≤ %{x:.3g}, noise %{y:.3g} × the sum<extra>%{fullData.name}</extra>",
        )
    figure.add_scatter(
        x=[now.epsilon],
        y=[now.times],
        name="yours",
        mode="markers",
        marker={"size": 15, "symbol": "star", "color": palette.PRIVATE, "line": {"width": 1.5, "color": "white"}},
        hovertemplate=f"ε ≤ %{{x:.3g}}, noise %{{y:.3g}} × the sum<extra>yours, σ = {now.noise_multiplier:g}</extra>",
    )
    guess_markers.layout(figure, "l6-larger", x="ε, at most (δ = 1e-5)", y="noise ÷ sum, of a step")
    every = [price for prices in curves.values() for price in (*prices, now)]
    _log(figure.update_xaxes, [price.epsilon for price in every])
    _log(figure.update_yaxes, [price.times for price in every] + ([guess] if guess else []))
    guess_markers.horizontal_line(figure, guess or None, log=True)
    return _better(now, curves), figure, _over_all(now, curves)


def _log(axis: object, values: list[float]) -> None:
    """A logarithmic axis about these values, with labels that have room."""
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
    """The least noise of a larger batch that costs no more ε, or what is chosen now."""
    fair = [
        price
        for prices in curves.values()
        for price in prices
        if price.epsilon <= now.epsilon and price.batch_size > now.batch_size
    ]
    return min((*fair, now), key=lambda price: price.times)


def _better(now: Price, curves: dict[int, tuple[Price, ...]]) -> str:
    best = _best(now, curves)
    here = f"Now ε ≤ {epsilon_text(now.epsilon)}, and the noise is {_times(now.times)} as long as the sum."
    if best is now:
        return f"{here} No larger batch here has less noise for that ε."
    taken = "" if best.steps == now.steps else f", in {_steps(best.steps)}"
    return (
        f"{here} For no more ε, batches of {best.batch_size:,} with σ = {best.noise_multiplier:g} bring it to "
        f"{_times(best.times)}{taken}."
    )


def _over_all(now: Price, curves: dict[int, tuple[Price, ...]]) -> str:
    """What the steps come to together, since fewer steps have less to cancel out."""
    best = _best(now, curves)
    if best is now:
        return "Each point is one σ; ε by Rényi accounting."
    whole = [np.sqrt(price.steps) / price.times for price in (now, best)]
    read = round(best.steps * best.batch_size / (now.steps * now.batch_size))
    return (
        "Each point is one σ. Over all steps, if each pulled the same way, signal to noise would be "
        f"{whole[0]:.2g} now and {whole[1]:.2g} then, "
        f"{f'for {read} times the' if read > 1 else 'for no more'} sentences read."
    )


def left_out(watched: Watched) -> Drawn:
    """The figure that the check's verdict rests on, as steps are watched."""
    fault, checks = watched.fault, watched.checks
    steps, rests = [check.steps for check in checks], fault.figure
    values = [rests.read(check) for check in checks]
    figure = go.Figure()
    wide: list[float] = []
    if rests.tolerance:
        known = [(check.steps, one) for check in checks if (one := rests.tolerance(check)) == one]
        wide = [one for _, one in known]
        figure.add_scatter(
            x=[step for step, _ in (*known, *reversed(known))],
            y=[rests.planned + one for one in wide] + [rests.planned - one for one in reversed(wide)],
            name="chance allows",
            fill="toself",
            mode="lines",
            line={"width": 0},
            fillcolor="rgba(14, 140, 118, 0.2)",
            hoverinfo="skip",
        )
    for name, failed, symbol, colour in (
        ("not found", False, "circle", palette.PRIVATE),
        ("found", True, "x", palette.RECALL),
    ):
        places = [place for place, check in enumerate(checks) if check.failed is failed]
        figure.add_scatter(
            x=[steps[place] for place in places],
            y=[values[place] for place in places],
            name=name,
            mode="markers",
            marker={"symbol": symbol, "size": 12, "color": colour},
            hovertemplate="after %{x} steps: %{y:.4g}<extra></extra>",
        )
    guess_markers.layout(figure, f"l6-left-{fault.name}", x="steps that the check has watched", y=rests.name)
    guess_markers.limit_line(figure, rests.planned, "planned", position="top right")
    figure.update_xaxes(
        type="log", tickvals=list(watching.MOMENTS), range=[-0.08, np.log10(watching.MOMENTS[-1]) + 0.08]
    )
    figure.update_yaxes(range=_about([*values, rests.planned], wide))
    return (
        _verdict(watched),
        figure,
        (
            f"A real run of the paper's size (σ = {watching.SIGMA:g}, C = {watching.CLIP:g}), watched by its noise "
            "check, which accuses an honest run less than once in a million."
        ),
    )


def _about(values: Sequence[float], wide: Sequence[float]) -> tuple[float, float]:
    """From 0 on, unless all that is to be seen lies near what chance allows; NaN is left out."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    reach = 1.3 * float(np.nanmax([0.0, *wide]))
    if wide and high - low < reach:
        return high - 2 * reach, low + 2 * reach
    top = max(1.15 * high, high + reach, 0.01)
    return -0.05 * top, top


def _verdict(watched: Watched) -> str:
    """What was left out, and what the check says."""
    fault, last = watched.fault, watched.checks[-1].steps
    if fault is HONEST:
        return f"Nothing is left out, and the check finds nothing in {last} steps."
    begun = f"Left out: {fault.title} ({fault.instead})."
    if watched.found is None:
        return f"{begun} Not found in {last} steps. {fault.unseen}"
    return f"{begun} Found after {_steps(watched.found)}. {watched.says}"


def _tail(step: Step, price: Price) -> str:
    """ε and signal to noise, in whatever view."""
    louder = f"1 : {step.times:.3g}" if step.times >= 1 else f"{1 / step.times:.3g} : 1"
    return f"Signal to noise {louder}; after {_steps(price.steps)} ε ≤ {epsilon_text(price.epsilon)}."


def _times(value: float) -> str:
    return f"{value:,.0f} times" if value >= 10 else f"{value:.2g} times"


def _length(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _steps(number: int) -> str:
    return f"{number:,} {'step' if number == 1 else 'steps'}"
