"""Diagnose: why training under DP breaks, for any run and for the two questions that the paper leaves open."""

import pandas as pd
import streamlit as st

from engine import diagnosis
from engine import paper as tables
from engine.config import SimulationConfig
from engine.errors import EpsilonError
from engine.records import Run
from engine.runs import Runs
from pages.shared import address, compare, diagnose, diagnose_charts, door, paper, submitting
from pages.shared.diagnose import Tried
from pages.shared.picture import show

QUESTIONS = ("Does a CRF suffer more?", "Does training in phases collapse?", "Any run, record by record")


def known_runs(runs: Runs, variants: list[diagnosis.Variant]) -> dict[SimulationConfig, Run]:
    """All runs of some variants that are known, looked up once."""
    wanted = [config for each in variants for config in tables.with_seeds(each.config, tables.SEEDS)]
    found = {config: runs.find(config) for config in dict.fromkeys(wanted)}
    return {config: run for config, run in found.items() if run}


def table(tried: list[Tried]) -> None:
    """The variants as rows."""
    number = st.column_config.NumberColumn
    st.dataframe(
        pd.DataFrame(diagnose.rows(tried)),
        hide_index=True,
        placeholder="",
        column_config={
            "F1": number("F1, whole names", format="%.3f"),
            "± sd": number(format="%.3f"),
            "clipped": st.column_config.TextColumn(help="Share of gradients that were scaled down, last record."),
            "gradient": number(
                "gradient, median", format="%.2f", help="L2 norm of a sentence's gradient, last record."
            ),
            "noise ÷ signal": number(
                format="%.0f", help="Length (L2) of a step's noise ÷ that of the sum it is added to, last record."
            ),
            "noise in a weight": number(
                format="%.2f",
                help="How far noise alone has carried each weight by the end: lr · σ · C ÷ batch · √steps ÷ clients.",
            ),
            "run": st.column_config.LinkColumn("look", display_text="in Explore"),
        },
    )


def offer(runs: Runs, tried: list[Tried], key: str) -> None:
    """A button for the runs that are missing."""
    wanted = [config for each in tried for config in tables.with_seeds(each.variant.config, tables.SEEDS)]
    submitting.button(runs, submitting.missing(runs, list(dict.fromkeys(wanted))), "of this question", key=key)


def crf(runs: Runs, corpus: str) -> None:
    """The first question."""
    variants = diagnosis.crf(corpus)
    known = known_runs(runs, variants)
    tried = [Tried(each, diagnosis.measure(each, known.get)) for each in variants]
    for paragraph in diagnose.about_crf(tried):
        st.markdown(paragraph)
    show(diagnose_charts.variants(tried, key=f"crf-{corpus}"), key="crf", label="F1 of CRF and TDDL by setting")
    st.caption("Dotted: the setting in question. Hollow: what-if runs, which are not private. Bars: sd over seeds.")
    table(tried)
    offer(runs, tried, "run-crf")


def phases(runs: Runs, corpus: str) -> None:
    """The second question."""
    variants = diagnosis.phases(corpus)
    known = known_runs(runs, variants)
    tried = [Tried(each, diagnosis.measure(each, known.get)) for each in variants]
    compared = [each for each in variants if each.kind != diagnosis.MEND]
    by_phase = {
        each.name: [diagnosis.measure(each, known.get, number + 1) for number in range(each.config.federation.rounds)]
        for each in compared
    }
    for paragraph in diagnose.about_phases(tried, by_phase):
        st.markdown(paragraph)
    metric = st.segmented_control(
        "F1 counted", list(paper.METRICS), default="entity", format_func=paper.METRICS.__getitem__, required=True
    )
    cells = [cell for cell in tables.cells(corpus=corpus) if cell.table == "table6"]
    printed = [(cell.setting["data_fraction"], cell.published["f1"]) for cell in cells]
    floors = [found.floor.f1 for row in by_phase.values() for found in row if found.floor]
    by_tokens = metric == "published"
    figure = diagnose_charts.phases(
        by_phase,
        printed if by_tokens else [],
        lambda found: paper.ours(found, metric),
        floors[0] if floors and by_tokens else None,
        key=f"phases-{metric}-{corpus}",
    )
    show(figure, key="phases", label="F1 after each phase, printed and measured")
    if not by_tokens:
        st.caption("The printed rows are token scores: choose “As published” to see them beside ours.")
    show(diagnose_charts.variants(tried, key=f"mends-{corpus}"), key="mends", label="F1 at the end by setting")
    table(tried)
    offer(runs, tried, "run-phases")


def any_run(runs: Runs, asked: str | None) -> None:
    """One run's records."""
    linked = runs.get(asked) if asked else None
    kinds = compare.configurations(runs.overview())
    if not kinds and not linked:
        st.caption("No run is done yet: start one on the page Explore.")
        return
    by_label = {compare.label(config): config for config in kinds}
    if linked:
        by_label[compare.label(linked.config)] = compare.seedless(linked.config)
    names = sorted(by_label)
    first = compare.label(linked.config) if linked else next((n for n in names if n.startswith("CRF σ 1 ·")), names[0])
    left, right = st.columns([4, 1])
    label = left.selectbox("Setting", names, names.index(first))
    config = by_label[label]
    seeds = {runs.get(run_id).config.seed: run_id for run_id in kinds.get(config, [])}
    if linked and compare.seedless(linked.config) == config:
        seeds[linked.config.seed] = linked.run_id
    order = sorted(seeds)
    seed = right.selectbox(
        "Seed", order, order.index(linked.config.seed) if linked and linked.config.seed in order else 0
    )
    run = runs.get(seeds[seed])
    st.markdown(f"#### {address.plain(diagnose.verdict(run))}")
    if not run.records:
        return
    columns = st.columns(2)
    for number, (title, figure) in enumerate(diagnose_charts.pictures(run, key=run.run_id).items()):
        with columns[number % 2]:
            st.markdown(f"**{title}**")
            show(figure, key=f"run-{title}", label=title)
    st.markdown(f"[Look at this run in Explore]({address.link(run.config)})")


runs = door.runs()
asked = st.query_params.get("run")
left, right = st.columns([3, 1], vertical_alignment="bottom")
left.markdown("### Why does it break?")
names = {info.name: info.title for info in runs.corpora() if info.name in ("conll2003", "synthetic")}
corpus = right.selectbox("Corpus", ["conll2003", "synthetic"], format_func=names.__getitem__)
first, second, third = st.tabs(QUESTIONS, default=QUESTIONS[2] if asked else QUESTIONS[0])
try:
    with first:
        st.caption("The paper sees the CRF lose under DP what the dense layer (TDDL) keeps, and leaves open why.")
        crf(runs, corpus)
    with second:
        st.caption("The paper sees F1 drop after 60 % of the data when each client adds noise, and leaves open why.")
        phases(runs, corpus)
    with third:
        any_run(runs, asked)
except EpsilonError as error:
    st.error(address.plain(str(error)), icon=":material/error:")
