"""Privacy report on the page, with download buttons."""

from functools import partial

import streamlit as st

from engine.config import SimulationConfig
from engine.records import Run
from engine.reports.document import html_file
from engine.reports.document.formats import FORMATS
from engine.reports.document.model import Document
from engine.reports.privacy_report import builder
from engine.service import Application, report_evidence
from pages.shared import downloads

USUAL = SimulationConfig.from_flat({"corpus": "conll2003", "tagger": "bilstm-tddl"})
"""The configuration whose report opens without a link to a run."""
_KEPT = "report"
"""Session-state key of the last document, so that a rerun of the page does not build it again."""


def show(app: Application, chosen: Run, beside: Run | None) -> None:
    """Show the report on one run, or on two runs side by side, with download buttons.

    Args:
        app: The application.
        chosen: The run to report on.
        beside: The run to compare with; None reports on one run.

    Raises:
        StoreError: If the run store cannot be read.
        InvalidConfig: If the configuration of a run is not valid.
    """
    document = _document(app, chosen, beside)
    name = f"privacy-report-{chosen.run_id}" + (f"-{beside.run_id}" if beside else "")
    with st.container(horizontal=True, vertical_alignment="center"):
        for format in FORMATS.values():
            downloads.button(
                format.title,
                partial(format.draw, document),
                f"{name}.{format.name}",
                format.mime,
                icon=":material/download:",
                key=f"report_{format.name}",
            )
        st.caption(
            "Choose a format to download. PDF: tagged for screen readers, readable in black and white. JSON: with a "
            "checksum."
        )
    st.html(f"<style>{html_file.STYLE}</style>")
    st.html(html_file.body(document, heading=3))
    second = f" {beside.run_id}" if beside else ""
    st.caption("Command that writes this report. Enter it in the folder of this program:")
    st.code(f".venv/bin/python -m engine report {chosen.run_id}{second} --format pdf", language="bash", wrap_lines=True)


def _document(app: Application, chosen: Run, beside: Run | None) -> Document:
    current = (chosen.run_id, beside.run_id if beside else None, len(app.queries.recent(5000)))
    cached: tuple[object, Document | None] = st.session_state.get(_KEPT, (None, None))
    document = cached[1]
    if document is None or cached[0] != current:
        with st.spinner("Collecting the evidence …"):
            first = report_evidence.evidence(app, chosen.run_id)
            document = (
                builder.of_two(first, report_evidence.evidence(app, beside.run_id)) if beside else builder.of_run(first)
            )
        st.session_state[_KEPT] = current, document
    return document
