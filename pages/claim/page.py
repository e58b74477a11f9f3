"""Page Check a claim: what a stated ε limits, which facts are missing, and questions to the one who states it."""

from datetime import UTC, datetime
from functools import partial

import pandas as pd
import streamlit as st

from engine.errors import EpsilonError
from engine.privacy.claim import FACTS, MOST_EPSILON, MOST_RECORDS, UNITS, Claim, of_person
from engine.reports import claim as texts
from engine.reports.document.formats import FORMATS
from pages.claim import charts
from pages.claim.examples import EXAMPLES, KNOWN, fill
from pages.shared import address, downloads
from pages.shared.plotly_component import show

_SHORT = {
    "sentence": "a sentence",
    "document": "a document",
    "person": "a person",
    "client": "an organisation or device",
}

heading = st.container()
first, second, third, fourth = st.columns(4)
epsilon = first.number_input(
    "ε of the claim", 0.001, MOST_EPSILON, 0.7, 0.1, "%.4g", key="epsilon", bind="query-params"
)
delta = second.number_input(
    "δ", 0.0, 0.5, 1e-5, 1e-5, "%.3g", key="delta", bind="query-params", help="0 if the claim has only an ε (pure)."
)
unit = third.selectbox(
    "Protected unit",
    list(UNITS),
    format_func=lambda name: _SHORT.get(name, UNITS[name]),
    key="unit",
    bind="query-params",
    help="What is added or removed between two data sets that the attacker must not distinguish.",
)
records = fourth.number_input(
    "Records of one person",
    1,
    MOST_RECORDS,
    10,
    key="records",
    bind="query-params",
    disabled=unit in ("person", "client"),
    help="For example the sentences that name the same person.",
)
picture = st.container()
st.markdown("#### Facts that the claim states")
st.caption("Tick what is stated in writing. Each missing fact can hide a larger ε.")
columns = st.columns(2)
known = [
    name
    for number, (name, fact) in enumerate(FACTS.items())
    if columns[number % 2].checkbox(fact.stated, key=KNOWN + name, bind="query-params")
]
missing = st.container()
with st.expander("Size of the training, if you know it"):
    left, middle, right = st.columns(3)
    examples = left.number_input("Records, n", 1, 1_000_000_000, 10_000, key="examples", bind="query-params")
    batch = middle.number_input("Batch size, B", 1, 1_000_000, 256, key="batch", bind="query-params")
    epochs = right.number_input("Epochs, E", 0.01, 10_000.0, 10.0, key="epochs", bind="query-params")
    st.caption(
        "The noise follows from these numbers and ε, for DP-SGD with Poisson sampling. Without them the page assumes "
        "a typical training."
    )
try:
    claim = Claim(
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        records=records,
        known=frozenset(known),
        examples=examples,
        batch_size=min(batch, examples),
        epochs=epochs,
    )
    answer = texts.headline(claim)
    heading.markdown(f"### {address.plain(answer)}")
    with picture:
        number, of_one = texts.successes(claim.epsilon, claim.delta), texts.successes(*of_person(claim))
        label = f"{answer} About a person with {records:,} records, in at most {of_one} of 100."
        figure = charts.guesses(number, None if claim.covers_a_person else of_one, key="guesses")
        show(figure, key="guesses", label=label)
        for paragraph in (*texts.meaning(claim), texts.person(claim)):
            st.markdown(paragraph)
    with missing, st.spinner("Computing ε …"):
        st.markdown(f"**{address.plain(texts.largest(claim))}**")
        if rows := texts.consequence_rows(claim):
            st.table(pd.DataFrame(rows).set_index("missing fact"))
    made = texts.document(claim, datetime.now(UTC).isoformat(timespec="seconds"))
except EpsilonError as error:
    heading.markdown("### No answer for these numbers")
    st.error(address.plain(str(error)), icon=":material/error:")
    st.stop()
st.markdown("#### Questions to ask")
st.code(texts.letter(claim), language=None, wrap_lines=True)
with st.container(horizontal=True, vertical_alignment="center"):
    for format in FORMATS.values():
        file, icon = f"check-of-a-claim.{format.name}", ":material/download:"
        downloads.button(
            format.title, partial(format.draw, made), file, format.mime, icon=icon, key=f"claim_{format.name}"
        )
    st.caption("The file has fields for controller, assessor, decision and signature.")
st.markdown("#### Worked examples of published claims")
for number, example in enumerate(EXAMPLES):
    with st.container(border=True):
        st.markdown(f"**{address.plain(example.title)}**  \n{address.plain(example.lesson)}")
        st.caption(address.plain(example.source))
        st.button("Fill in this claim", key=f"example_{number}", on_click=fill, args=(example.claim,))
st.caption(
    "In machine learning, ε ≤ 1 is often called strong and ε ≤ 10 reasonable (Ponomareva et al. 2023). These words are "
    "conventions; they do not follow from the mathematics. For a run of this program, page Assumptions has every step "
    "of its ε."
)
