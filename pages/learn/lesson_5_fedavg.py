"""The other half of lesson 5: federated averaging live, on devices that take part when it suits their owners."""

import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from engine.lessons import federated
from engine.lessons.federated import CONDITIONS, DEVICES, ROUNDS, Round, Setting
from pages.learn import guess_markers
from pages.shared import address, palette, session
from pages.shared.plotly_component import show as draw

POLL_SECONDS = 1.0
_HOME, _ROAD = "at home", "on the road"


def show() -> None:
    """The controls, and the rounds as they come. Who leaves stops them: nobody looks any more."""
    left, right = st.columns([2.6, 1], gap="large")
    with right:
        setting = _chosen()
    run = federated.live(setting, session.application().settings)
    with left:
        st.fragment(_watch, run_every=None if run.poll().done else POLL_SECONDS)(setting)


def _chosen() -> Setting:
    st.caption("A device takes part only while it is")
    conditions = tuple(
        each
        for each in CONDITIONS
        if st.checkbox(each[0].upper() + each[1:], True, key=f"l5_{each.replace('-', '').lower()}", bind="query-params")
    )
    road = st.slider(
        "Owners on the road, of 100",
        0,
        50,
        25,
        5,
        key="l5_road",
        bind="query-params",
        help="They charge where there is no Wi-Fi, and write about places.",
    )
    other = st.slider("Owners who want people marked only, of 100", 0, 100, 0, 10, key="l5_other", bind="query-params")
    personal = st.toggle(
        "A personal upper part",
        key="l5_personal",
        bind="query-params",
        help="Scores of tags stay on each device, and only what lies below them travels.",
    )
    return Setting(conditions=conditions, road=road, other=other, personal=personal)


def _watch(setting: Setting) -> None:
    run = federated.live(setting, session.application().settings)
    seen = run.poll()
    if seen.error:
        st.error(address.plain(seen.error), icon=":material/error:")
        return
    rounds, shown = seen.found, f"l5_done_{hash(setting)}"
    if not seen.done:
        text = f"round {min(len(rounds) + 1, ROUNDS)} of {ROUNDS}" if rounds else seen.stage
        st.progress(len(rounds) / ROUNDS, text=text)
        st.session_state[shown] = False
    elif st.session_state.get(shown) is False:
        st.session_state[shown] = True
        st.rerun()  # the whole page: polling ends
    if not rounds:
        return
    said = answer(rounds)
    st.markdown(f"#### {said}")
    draw(picture(rounds, setting), key="l5_rounds", label=said)
    with st.expander("What travels", type="compact", icon=":material/sync_alt:", key="l5_travels"):
        st.markdown(travelled(rounds[-1]))


def answer(rounds: tuple[Round, ...]) -> str:
    """How far it is, for whom, and who was never heard."""
    last = rounds[-1]
    whose = ""
    if last.f1_road is not None and last.f1_rest is not None:
        whose = f": {last.f1_rest:.2f} for owners at home, {last.f1_road:.2f} for those on the road"
    count = f"After {len(rounds)} {'round' if len(rounds) == 1 else 'rounds'}"
    return f"{count} F1 is {last.f1:.2f}{whose}. {last.never} of {DEVICES} devices were never heard."


def travelled(last: Round) -> str:
    """What went down and up in a round."""
    size = 4 * last.weights / 1000
    part = f"{len(last.heard)} of the {last.may} devices that could" if last.may else "none, since none could"
    return (
        f"Each round {last.weights:,} weights ({size:,.0f} kB) go down to each device that takes part, and up again, "
        f"trained on its 30 sentences; in the last round these were {part}. F1: strict, on other sentences like those "
        "of each device."
    )


def picture(rounds: tuple[Round, ...], setting: Setting) -> go.Figure:
    """F1 by round, and below how often each device was heard."""
    figure = make_subplots(rows=2, row_heights=[0.68, 0.32], vertical_spacing=0.2)
    numbers = [each.number + 1 for each in rounds]
    for name, values, colour, symbol, dash in (
        (_HOME, [each.f1_rest for each in rounds], palette.PRIVATE, "circle", "solid"),
        (_ROAD, [each.f1_road for each in rounds], palette.RECALL, "square", "dash"),
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
    for name, whose, colour, shape in ((_HOME, False, palette.PRIVATE, ""), (_ROAD, True, palette.RECALL, "/")):
        here = [place for place, device in enumerate(order) if road[device] == whose]
        figure.add_bar(
            x=[place + 1 for place in here],
            y=[rounds[-1].visits[order[place]] for place in here],
            name=name,
            showlegend=False,
            marker={"color": colour, "pattern": {"shape": shape}},
            hovertemplate="heard in %{y} rounds<extra>" + name + "</extra>",
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
    figure.update_xaxes(
        title="devices, by how often they were heard", showticklabels=False, showgrid=False, row=2, col=1
    )
    figure.update_xaxes(range=[0.3, DEVICES + 0.7], row=2, col=1)
    figure.update_yaxes(title="rounds heard", rangemode="tozero", range=[0, ROUNDS], row=2, col=1)
    return figure
