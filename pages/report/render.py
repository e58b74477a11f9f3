"""A report on the page, and to take away."""

from functools import partial

import streamlit as st

from engine.records import Run
from engine.reports.document import html_file
from engine.reports.document.formats import FORMATS
from engine.reports.document.model import Document
from engine.reports.privacy_report import builder
from engine.service import Application, report_evidence
from pages.shared import downloads

_KEPT = "report"
"""The last document: nothing is looked up again while its reader only reads."""


def show(app: Application, chosen: Run, beside: Run | None) -> None:
    """The report on one run, or two side by side, with buttons to take it away. Raises StoreError, InvalidConfig."""
    document = _document(app, chosen, beside)
    name = f"privacy-report-{chosen.run_id}" + (f"-{beside.run_id}" if beside else "")
    with st.container(horizontal=True, vertical_alignment="center"):
        for each in FORMATS.values():
            downloads.button(
                each.title,
                partial(each.draw, document),
                f"{name}.{each.name}",
                each.mime,
                icon=":material/download:",
                key=f"report_{each.name}",
            )
        st.caption("PDF: tagged for screen readers, for black and white too. JSON: with a checksum.")
    st.html(f"<style>{html_file.STYLE}</style>")
    st.html(html_file.body(document, heading=3))
    second = f" {beside.run_id}" if beside else ""
    st.caption("The same in a shell, in the folder of this program.")
    st.code(f".venv/bin/python -m engine report {chosen.run_id}{second} --format pdf", language="bash", wrap_lines=True)


def _document(app: Application, chosen: Run, beside: Run | None) -> Document:
    wanted = (chosen.run_id, beside.run_id if beside else None, len(app.queries.recent(5000)))
    known: tuple[object, Document | None] = st.session_state.get(_KEPT, (None, None))
    document = known[1]
    if document is None or known[0] != wanted:
        with st.spinner("Gathering what is known of it …"):
            first = report_evidence.evidence(app, chosen.run_id)
            document = (
                builder.of_two(first, report_evidence.evidence(app, beside.run_id)) if beside else builder.of_run(first)
            )
        st.session_state[_KEPT] = wanted, document
    return document
