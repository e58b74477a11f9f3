"""Audit: what attacks measured of a run's privacy, beside the ε that it claims."""

import streamlit as st

from engine.reports.audits import server_text
from engine.reports.numbers import epsilon_text
from pages.audit import audit_form, calibration, canary_quiz, charts, messages
from pages.audit.groups import chosen, groups
from pages.audit.sentences import at_risk
from pages.shared import address, seeded_noise_notice, session, tables, titles
from pages.shared.plotly_component import show

app = session.application()
found = groups(app.audits.all())
asked = st.query_params.get("run")
heading = st.container()
if not found:
    heading.markdown("### Is it really private? Attack it, and see.")
    st.markdown(messages.NOTHING)
    audit_form.show(app, asked)
    canary_quiz.play()
    st.stop()
at = chosen(found, asked)
if asked and at is None:
    st.info("This run has not been audited yet. Attack it here, or look at others below.", icon=":material/info:")
    audit_form.show(app, asked)
group = st.selectbox(
    "Measured",
    found,
    index=found.index(at) if at else 0,
    format_func=lambda each: f"{titles.corpus(each.config.corpus)}: {each.title}",
)
said = messages.answer(group)
heading.markdown(f"### {said}")
beside = [each for each in found if each.config.corpus == group.config.corpus]
claimed = app.queries.find(group.config)
apart = address.ledger(claimed) if claimed and claimed.final else None
show(charts.claims(beside, key=f"claims-{group.config.corpus}"), key="claims", label=said)
st.caption(
    "A proof says *at most* (diamond); an attack shows *at least*, at 95 % for each attacker and seed: where one "
    "stands right of the diamond, the claim is contradicted at 95 %. Symbols of several seeds are means, which are no "
    "bounds at 95 %; each seed's stand below."
    + messages.ceiling(beside)
    + (f" [What the ε of this claim rests on]({apart})." if apart else "")
)
seeded_noise_notice.caption()
if inferred := group.membership:
    st.markdown("#### Whose sentence was it?")
    show(charts.caught(inferred, key=f"caught-{group.title}"), key="caught", label=messages.members(inferred))
    st.caption(
        f"Membership inference on {inferred.models:,} model{'s' if inferred.models > 1 else ''}, each against "
        f"{inferred.references:,} references; {inferred.sentences:,} sentences. Each model learned from a half of them "
        f"that its seed drew, so its ε is that of half the data: {epsilon_text(inferred.claimed)}."
    )
    tables.show(
        messages.attacks(inferred), {"area": tables.number(format="%.3f", help="0.5 is chance, 1 is certainty.")}
    )
    left, right = st.columns(2)
    with left:
        st.markdown("**Sentences with a name of this type**")
        tables.show(messages.among(inferred.by_type, "type"), {"area": tables.number(format="%.3f")})
    with right:
        if len(inferred.by_client) > 1:
            st.markdown("**Sentences of this client**")
            tables.show(messages.among(inferred.by_client, "client"), {"area": tables.number(format="%.3f")})
    with st.expander("The sentences most at risk", icon=":material/warning:"):
        at_risk(app, group.config.corpus, inferred)
if group.server:
    read, sigma = group.server
    st.markdown("#### What does the server read?")
    st.markdown(f"{server_text(read, sigma)}.")
    share = tables.number(format="%.0f %%")
    tables.show(messages.readings(read, sigma), {"of them right": share, "found of those there": share})
    st.caption(
        "Gradient inversion of the first messages, each word of the corpus asked for; how to tell, the server chooses "
        "on the validation part. Frequent words can be guessed without any message. Later rounds are not attacked. "
        "[Lesson 5](/learn?lesson=federated) does it step by step."
    )
if rows := messages.runs(group):
    with st.expander("Each run with canaries", icon=":material/list:"):
        tables.show(rows)
st.markdown(messages.SILENT)
calibration.show(app)
canary_quiz.play()
first = group.audits[0]
st.caption(f"Measured on {first.machine}, {first.created[:10]}, engine {first.engine_version}, by:")
st.code(first.command, language="bash", wrap_lines=True)
if at or not asked:
    st.markdown("#### Attack another run")
    audit_form.show(app, None)
