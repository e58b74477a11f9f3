"""The three tabs of Training diagnostics: two questions that the paper leaves open, and any run."""

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
    "clipped": st.column_config.TextColumn(help="Share of gradients that were clipped, at the last evaluation."),
    "gradient": tables.number(
        "median gradient norm", format="%.2f", help="L2 norm of a sentence's gradient before clipping, last evaluation."
    ),
    "noise ÷ signal": tables.number(
        format="%.0f", help="L2 norm of a step's noise ÷ L2 norm of the summed clipped gradients, last evaluation."
    ),
    "noise in a weight": tables.number(
        "noise per weight",
        format="%.2f",
        help="Standard deviation of each weight from noise alone, at the end: lr · σ · C ÷ batch · √steps ÷ clients.",
    ),
    "why": st.column_config.TextColumn("reason"),
}


METRIC = "phases_metric"
"""Key of the choice of a metric."""


def existing_runs(app: Application, variants: list[diagnosis.Variant]) -> dict[SimulationConfig, Run]:
    """Return the existing runs of the variants by configuration, each looked up once."""
    configs = [config for variant in variants for config in with_seeds(variant.config, SEEDS)]
    runs = app.queries.find_all(configs)
    return {config: run for config, run in runs.items() if run}


def answer(app: Application, tried: list[Tried], key: str) -> None:
    """Show the variants as a table, and a button that starts the missing runs."""
    tables.show(diagnose.rows(tried), _COLUMNS)
    tables.older(run for result in tried for run in result.measured.runs)
    configs = [config for result in tried for config in with_seeds(result.variant.config, SEEDS)]
    submitting.button(app, submitting.missing(app, list(dict.fromkeys(configs))), "of this question", key=key)


def crf(app: Application, corpus: str) -> None:
    """Show the first question: why a CRF loses F1 under DP."""
    variants = diagnosis.crf(corpus)
    available = existing_runs(app, variants)
    tried = [Tried(variant, diagnosis.measure(variant, available.get)) for variant in variants]
    for paragraph in diagnose.about_crf(tried):
        st.markdown(paragraph)
    show(diagnose_charts.variants(tried, key=f"crf-{corpus}"), key="crf", label="F1 of CRF and TDDL by setting")
    st.caption(
        "Dotted line: F1 at σ = 1 with the paper settings. Hollow markers: counterfactual runs without "
        "noise; they are not private. Bars: standard deviation over seeds."
    )
    answer(app, tried, "run-crf")


def phases(app: Application, corpus: str) -> None:
    """Show the second question: why training in phases loses F1 under DP."""
    variants = diagnosis.phases(corpus)
    available = existing_runs(app, variants)
    tried = [Tried(variant, diagnosis.measure(variant, available.get)) for variant in variants]
    compared = [variant for variant in variants if variant.kind != diagnosis.FIX]
    by_phase = {
        variant.name: [
            diagnosis.measure(variant, available.get, number + 1) for number in range(variant.config.federation.rounds)
        ]
        for variant in compared
    }
    for paragraph in diagnose.about_phases(tried, by_phase):
        st.markdown(paragraph)
    metric = st.segmented_control(
        "Metric",
        list(METRICS),
        default="entity",
        format_func=METRICS.__getitem__,
        required=True,
        key=METRIC,
    )
    figure = _phases_chart(by_phase, corpus, metric)
    show(figure, key="phases", label="F1 after each phase, reported and measured")
    if metric != "published":
        st.caption(
            "The paper's scores are most likely token-level. Choose "
            f"“{METRICS['published']}” to compare them with ours."
        )
    show(diagnose_charts.variants(tried, key=f"fixes-{corpus}"), key="fixes", label="F1 at the end by setting")
    answer(app, tried, "run-phases")


def _phases_chart(by_phase: Mapping[str, Sequence[OverSeeds]], corpus: str, metric: str) -> go.Figure:
    """Draw F1 after each phase; the token-level metric adds the paper's rows and the score of an empty answer."""
    cells = [cell for cell in jana_biemann_2021.cells(corpus=corpus) if cell.table == "table6"]
    reported = [(cell.setting["data_fraction"], cell.published["f1"]) for cell in cells]
    floors = [results.floor.f1 for row in by_phase.values() for results in row if results.floor]
    by_tokens = metric == "published"
    return diagnose_charts.phases(
        by_phase,
        reported if by_tokens else [],
        lambda results: in_metric(results, metric),
        floors[0] if floors and by_tokens else None,
        key=f"phases-{metric}-{corpus}",
    )


USUAL = SimulationConfig.from_flat({"corpus": "conll2003", "tagger": "bilstm-crf"})
"""Configuration that is preset if the link names no run."""


def any_run(app: Application, asked: str | None) -> None:
    """Show the records of one run."""
    run = run_picker.choose(app, asked, USUAL)
    if run is None:
        st.caption("No run is finished yet. Start one on the page Explore.")
        return
    st.markdown(f"#### {address.plain(diagnose.verdict(run))}")
    st.caption(address.plain(messages.origin(run)))
    if not run.records:
        return
    columns = st.columns(2)
    for number, (title, figure) in enumerate(diagnose_charts.all_charts(run, key=run.run_id).items()):
        with columns[number % 2]:
            st.markdown(f"**{title}**")
            show(figure, key=f"run-{title}", label=title)
    assumptions = f" · [Assumptions of its ε]({ledger})" if (ledger := address.ledger(run)) else ""
    st.markdown(f"[Open this run in Explore]({address.link(run.config)}){assumptions}")
