"""Page Replication of FedNER 2020: its table and figures with our results, and a live federation of silos."""

import streamlit as st

from engine.experiments.papers import fedner_2020, fedner_2020_scores
from engine.reports import fedner
from pages.medical import charts, live, messages, tables
from pages.shared import address, glossary, lazy_tabs, seeded_noise_notice, session, submitting
from pages.shared import tables as shared_tables
from pages.shared.plotly_component import show

app = session.application()
about = fedner_2020.published()
cells = fedner_2020.cells()
found = app.queries.find_all(config for cell in cells for config in cell.seeds())
rows = [fedner_2020_scores.measure(cell, found.get) for cell in cells]
st.markdown(f"### {address.plain(messages.answer(rows))}")
st.caption(f"{about['title']}. {about['authors']}, {about['venue']}.")
st.markdown(messages.CORPORA)
st.caption(address.plain(fedner.all_time_text(rows)))
seeded_noise_notice.caption()
names = {name: f"{name[:-1].capitalize()} {name[-1]}" for name in fedner_2020.TABLES if name[-1].isdigit()}
names |= {"private": "Privacy"}
LIVE = "Live federation"
tables_by_tab = {tab: table for table, tab in names.items()}
columns = {
    name: shared_tables.number(label, format="%.1f", help=entry.text if (entry := glossary.of(name)) else None)
    for name, label in tables.HEADINGS.items()
}
gain_columns = {
    "within FedNER": st.column_config.TextColumn("federated method"),
    "compared with": st.column_config.TextColumn("baseline"),
    "gain, points": shared_tables.number("gain, points of strict F1", format="%+.1f"),
}
choices = [f"{name}-{table}" for name in ("platform", "score") for table in names]
for tab in lazy_tabs.opened([LIVE, *tables_by_tab], key="medical_tab", always=[LIVE], kept=choices):
    if tab == LIVE:
        live.show(app)
        continue
    table = tables_by_tab[tab]
    st.markdown(f"#### {fedner_2020.TABLES[table]}")
    with st.container(horizontal=True):
        platform = st.segmented_control(
            "Silo",
            list(fedner.TITLES),
            default="ade",
            format_func=fedner.TITLES.__getitem__,
            required=True,
            key=f"platform-{table}",
        )
        score = st.segmented_control(
            "F1", [charts.STRICT, charts.RELAXED], default=charts.STRICT, required=True, key=f"score-{table}"
        )
    of_table = [row for row in rows if row.cell.table == table]
    of_silo = [row for row in of_table if row.cell.platform == platform]
    label = f"{fedner_2020.TABLES[table]}: {score} F1 on {fedner.TITLES[platform]}"
    if any(row.runs for row in of_silo):
        show(
            charts.f1_chart(of_silo, table, score, key=f"{table}-{platform}-{score}"),
            key=f"picture-{table}",
            label=label,
        )
    st.markdown(messages.DISCUSSION[table])
    st.markdown("**Results of our runs**\n\n" + messages.points(fedner.verdict(of_table, table)))
    if gains := tables.gains(of_table):
        st.markdown("**Gain of sharing** on all silos, paired by seed:")
        shared_tables.show(gains, gain_columns, key=f"gains-{table}")
    shared_tables.show(tables.rows(of_silo), columns, key=f"rows-{table}-{platform}")
    st.caption(messages.RELAXED)
    configs = fedner_2020.wanted(tables=[table])
    what = "of this tab" if table == "private" else f"of {names[table]}"
    submitting.button(app, submitting.missing(app, configs), what, key=f"run-{table}")
shared_tables.older(run for row in rows for run in row.runs)
