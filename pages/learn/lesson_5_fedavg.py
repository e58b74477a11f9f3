"""Second view of lesson 5: live federated averaging on devices with conditions for participation."""

import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from engine.lessons import federated
from engine.lessons.federated import CONDITIONS, DEVICES, ROUNDS, Round, Setting
from pages.learn import guess_markers
from pages.shared import address, palette, script_scheduler, session
from pages.shared.plotly_component import show as draw

POLL_SECONDS = 1.0
"""Interval of the live chart, in seconds."""
_HOME, _ROAD = "at home", "on the road"


def show() -> None:
    """Show the controls and the rounds live. The rounds stop when no session polls them any more."""
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        setting = _chosen()
    run = federated.live(setting, session.application().settings)
    with left:
        script_scheduler.polling_fragment(_watch, None if run.poll().done else POLL_SECONDS)(setting)


def _chosen() -> Setting:
    """Show the controls and return the setting."""
    st.caption("Conditions for participation")
    conditions = tuple(
        name
        for name in CONDITIONS
        if st.checkbox(name[0].upper() + name[1:], True, key=f"l5_{name.replace('-', '').lower()}", bind="query-params")
    )
    road = st.slider(
        "Travelling owners, of 100",
        0,
        50,
        25,
        5,
        key="l5_road",
        bind="query-params",
        help="Travelling owners charge their devices away from Wi-Fi, and write about places.",
    )
    other = st.slider("Owners who tag persons only, of 100", 0, 100, 0, 10, key="l5_other", bind="query-params")
    personal = st.toggle(
        "Private head",
        key="l5_personal",
        bind="query-params",
        help="The layer that scores the tags stays on each device. Only the layers below it are shared.",
    )
    return Setting(conditions=conditions, road=road, other=other, personal=personal)


def _watch(setting: Setting) -> None:
    run = federated.live(setting, session.application().settings)
    progress = run.poll()
    if progress.error:
        st.error(address.plain(progress.error), icon=":material/error:")
        return
    rounds, finished = progress.found, f"l5_done_{hash(setting)}"
    if not progress.done:
        text = f"round {min(len(rounds) + 1, ROUNDS)} of {ROUNDS}" if rounds else progress.stage
        st.progress(len(rounds) / ROUNDS, text=text)
        st.session_state[finished] = False
    elif st.session_state.get(finished) is False:
        st.session_state[finished] = True
        st.rerun()  # of the whole page, to end the polling
    if not rounds:
        return
    headline = answer(rounds)
    st.markdown(f"#### {headline}")
    draw(picture(rounds, setting), key="l5_rounds", label=headline)
    with st.expander("Communication", type="compact", icon=":material/sync_alt:", key="l5_travels"):
        st.markdown(travelled(rounds[-1]))


def answer(rounds: tuple[Round, ...]) -> str:
    """Return F1 after the last round, by group of owners, and the number of devices that never took part."""
    last = rounds[-1]
    whose = ""
    if last.f1_road is not None and last.f1_rest is not None:
        whose = f" ({last.f1_rest:.2f} for owners at home, {last.f1_road:.2f} for owners on the road)"
    count = f"After {len(rounds)} {'round' if len(rounds) == 1 else 'rounds'}"
    return f"{count} F1 is {last.f1:.2f}{whose}. {last.never} of {DEVICES} devices never took part."


def travelled(last: Round) -> str:
    """Return a description of the download and the upload of a round."""
    size = 4 * last.weights / 1000
    devices = f"{len(last.heard)} of the {last.may} devices that met the conditions" if last.may else "no devices"
    return (
        f"In each round every participant downloads {last.weights:,} weights ({size:,.0f} kB), trains them on its 30 "
        f"sentences, and uploads them. Participants in the last round: {devices}. F1 is entity-level (strict), on "
        "validation sentences like those of the devices."
    )


def picture(rounds: tuple[Round, ...], setting: Setting) -> go.Figure:
    """Draw F1 by round, and below it the number of rounds in which each device took part."""
    figure = make_subplots(rows=2, row_heights=[0.68, 0.32], vertical_spacing=0.2)
    numbers = [after.number + 1 for after in rounds]
    for name, values, colour, symbol, dash in (
        (_HOME, [after.f1_rest for after in rounds], palette.PRIVATE, "circle", "solid"),
        (_ROAD, [after.f1_road for after in rounds], palette.RECALL, "square", "dash"),
    ):
        if values[-1] is None:
            continue
        figure.add_scatter(
            x=numbers,
            y=values,
            name=name,
            mode="lines+markers",
            line={"color": colour, "width": 3, "dash": dash},
            marker={"symbol": symbol, "size": 9},
            hovertemplate="round %{x}: F1 %{y:.2f}<extra>" + name + "</extra>",
            row=1,
            col=1,
        )
    road = federated.on_the_road(setting)
    order = sorted(range(DEVICES), key=lambda device: (bool(road[device]), -rounds[-1].visits[device]))
    for name, travels, colour, shape in ((_HOME, False, palette.PRIVATE, ""), (_ROAD, True, palette.RECALL, "/")):
        positions = [position for position, device in enumerate(order) if road[device] == travels]
        figure.add_bar(
            x=[position + 1 for position in positions],
            y=[rounds[-1].visits[order[position]] for position in positions],
            name=name,
            showlegend=False,
            marker={"color": colour, "pattern": {"shape": shape}},
            hovertemplate="took part in %{y} rounds<extra>" + name + "</extra>",
            row=2,
            col=1,
        )
    if road.any():
        figure.add_vrect(
            x0=DEVICES - road.sum() + 0.5,
            x1=DEVICES + 0.5,
            fillcolor=palette.BAND["none"],
            line_width=0,
            annotation={"text": _ROAD},
            annotation_position="top right",
            row=2,
            col=1,
        )
    guess_markers.layout(figure, "l5-rounds", x="", y="", height=520)
    figure.update_xaxes(title="round", range=[0.5, ROUNDS + 0.5], row=1, col=1)
    figure.update_yaxes(title="F1", range=[0, 1], row=1, col=1)
    figure.update_xaxes(title="devices, by number of rounds", showticklabels=False, showgrid=False, row=2, col=1)
    figure.update_xaxes(range=[0.3, DEVICES + 0.7], row=2, col=1)
    figure.update_yaxes(title="rounds joined", rangemode="tozero", range=[0, ROUNDS], row=2, col=1)
    return figure
