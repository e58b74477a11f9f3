"""The three tabs of Diagnose: the two questions that the paper leaves open, and any run."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import streamlit as st

from engine.config import SimulationConfig
from engine.experiments import diagnosis
from engine.experiments.papers import jana_biemann_2021
from engine.experiments.seed_aggregates import SEEDS, OverSeeds, with_seeds
from engine.records import Run
from engine.service import Application
from pages.diagnose import charts as diagnose_charts
from pages.diagnose import findings as diagnose
from pages.diagnose.findings import Tried
from pages.shared import address, messages, run_picker, submitting, tables
from pages.shared.metrics import METRICS, in_metric
from pages.shared.plotly_component import show

_COLUMNS = {
    "clipped": st.column_config.TextColumn(help="Share of gradients that were scaled down, last record."),
    "gradient": tables.number("gradient, median", format="%.2f", help="L2 norm of a sentence's gradient, last record."),
    "noise ÷ signal": tables.number(
        format="%.0f", help="Length (L2) of a step's noise ÷ that of the sum it is added to, last record."
    ),
    "noise in a weight": tables.number(
        format="%.2f",
        help="How far noise alone has carried each weight by the end: lr · σ · C ÷ batch · √steps ÷ clients.",
    ),
}


def known_runs(app: Application, variants: list[diagnosis.Variant]) -> dict[SimulationConfig, Run]:
    """All runs of some variants that are known, looked up once."""
    wanted = [config for each in variants for config in with_seeds(each.config, SEEDS)]
    found = {config: app.queries.find(config) for config in dict.fromkeys(wanted)}
    return {config: run for config, run in found.items() if run}


def answer(app: Application, tried: list[Tried], key: str) -> None:
    """The variants as rows, and a button for the runs that are missing."""
    tables.show(diagnose.rows(tried), _COLUMNS)
    tables.older(run for each in tried for run in each.measured.runs)
    wanted = [config for each in tried for config in with_seeds(each.variant.config, SEEDS)]
    submitting.button(app, submitting.missing(app, list(dict.fromkeys(wanted))), "of this question", key=key)


def crf(app: Application, corpus: str) -> None:
    """The first question."""
    variants = diagnosis.crf(corpus)
    known = known_runs(app, variants)
    tried = [Tried(each, diagnosis.measure(each, known.get)) for each in variants]
    for paragraph in diagnose.about_crf(tried):
        st.markdown(paragraph)
    show(diagnose_charts.variants(tried, key=f"crf-{corpus}"), key="crf", label="F1 of CRF and TDDL by setting")
    st.caption("Dotted: the setting in question. Hollow: what-if runs, which are not private. Bars: sd over seeds.")
    answer(app, tried, "run-crf")


def phases(app: Application, corpus: str) -> None:
    """The second question."""
    variants = diagnosis.phases(corpus)
    known = known_runs(app, variants)
    tried = [Tried(each, diagnosis.measure(each, known.get)) for each in variants]
    compared = [each for each in variants if each.kind != diagnosis.MEND]
    by_phase = {
        each.name: [diagnosis.measure(each, known.get, number + 1) for number in range(each.config.federation.rounds)]
        for each in compared
    }
    for paragraph in diagnose.about_phases(tried, by_phase):
        st.markdown(paragraph)
    metric = st.segmented_control(
        "F1 counted",
        list(METRICS),
        default="entity",
        format_func=METRICS.__getitem__,
        required=True,
    )
    figure = _phases_picture(by_phase, corpus, metric)
    show(figure, key="phases", label="F1 after each phase, printed and measured")
    if metric != "published":
        st.caption("The printed rows are token scores: choose “As published” to see them beside ours.")
    show(diagnose_charts.variants(tried, key=f"mends-{corpus}"), key="mends", label="F1 at the end by setting")
    answer(app, tried, "run-phases")


def _phases_picture(by_phase: Mapping[str, Sequence[OverSeeds]], corpus: str, metric: str) -> go.Figure:
    """F1 after each phase; what was printed and what an empty answer scores stand only beside token scores."""
    cells = [cell for cell in jana_biemann_2021.cells(corpus=corpus) if cell.table == "table6"]
    printed = [(cell.setting["data_fraction"], cell.published["f1"]) for cell in cells]
    floors = [found.floor.f1 for row in by_phase.values() for found in row if found.floor]
    by_tokens = metric == "published"
    return diagnose_charts.phases(
        by_phase,
        printed if by_tokens else [],
        lambda found: in_metric(found, metric),
        floors[0] if floors and by_tokens else None,
        key=f"phases-{metric}-{corpus}",
    )


USUAL = SimulationConfig.from_flat({"corpus": "conll2003", "tagger": "bilstm-crf"})
"""The setting that is shown where none was asked for."""


def any_run(app: Application, asked: str | None) -> None:
    """One run's records."""
    run = run_picker.choose(app, asked, USUAL)
    if run is None:
        st.caption("No run is done yet: start one on the page Explore.")
        return
    st.markdown(f"#### {address.plain(diagnose.verdict(run))}")
    st.caption(messages.origin(run))
    if not run.records:
        return
    columns = st.columns(2)
    for number, (title, figure) in enumerate(diagnose_charts.pictures(run, key=run.run_id).items()):
        with columns[number % 2]:
            st.markdown(f"**{title}**")
            show(figure, key=f"run-{title}", label=title)
    apart = f" · [What its ε rests on]({where})" if (where := address.ledger(run)) else ""
    st.markdown(f"[Look at this run in Explore]({address.link(run.config)}){apart}")
