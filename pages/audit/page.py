"""Page Privacy audit: lower bounds on ε from attacks, compared with the claimed ε."""

import streamlit as st

from engine.reports.audits import server_text
from engine.reports.numbers import epsilon_text
from pages.audit import audit_form, calibration, canary_quiz, charts, messages
from pages.audit.groups import chosen, groups
from pages.audit.sentences import at_risk
from pages.shared import address, seeded_noise_notice, session, tables, titles
from pages.shared.plotly_component import show

app = session.application()
audited = groups(app.audits.all())
asked = st.query_params.get("run")
heading = st.container()
if not audited:
    heading.markdown("### No audit has been run yet. Choose a run and start its audit.")
    st.markdown(messages.NO_AUDIT)
    audit_form.show(app, asked)
    canary_quiz.play()
    st.stop()
linked = chosen(audited, asked)
if asked and linked is None:
    st.info(
        "This run has not been audited yet. Start an audit here, or see other audits below.", icon=":material/info:"
    )
    audit_form.show(app, asked)
group = st.selectbox(
    "Audited configuration",
    audited,
    index=audited.index(linked) if linked else 0,
    format_func=lambda option: f"{titles.corpus(option.config.corpus)}: {option.title}",
)
answer = messages.answer(group)
heading.markdown(f"### {answer}")
of_corpus = [other for other in audited if other.config.corpus == group.config.corpus]
claimed = app.queries.find(group.config)
assumptions = address.ledger(claimed) if claimed and claimed.final else None
show(charts.claims(of_corpus, key=f"claims-{group.config.corpus}"), key="claims", label=answer)
st.caption(
    "The proof gives an upper bound on ε (diamond). An attack gives a lower bound, with 95 % confidence for each "
    "attacker and seed. If a lower bound lies right of the diamond, the claim is contradicted at 95 % confidence. With "
    "several seeds, a marker shows their joint bound at 95 %. Older audits have none; there it shows the "
    "mean of their bounds, which is no 95 % bound itself. The table *Runs with canaries* has the bound of each "
    "seed. The claimed ε is that of the training with canaries. These are further sentences, so it is smaller than the "
    "ε of the audited run."
    + messages.ceiling(of_corpus)
    + (f" [Assumptions of the claimed ε]({assumptions})." if assumptions else "")
)
seeded_noise_notice.caption()
if powers := messages.power(group):
    st.markdown("\n".join(["**Power of this audit**", "", *(f"- {line}" for line in powers)]))
if inferred := group.membership:
    st.markdown("#### Membership inference")
    st.markdown(messages.members(inferred))
    show(charts.roc_curves(inferred, key=f"caught-{group.title}"), key="caught", label=messages.members(inferred))
    st.caption(
        f"Attacked models: {inferred.models:,}, each with {inferred.references:,} shadow models; "
        f"{inferred.sentences:,} sentences. Each model was trained on a random half of the sentences. So its claimed ε "
        f"is that of half the data: ε = {epsilon_text(inferred.claimed)}. Ranges in parentheses are 95 % CIs."
    )
    tables.show(
        messages.attacks(inferred),
        {"AUC": tables.number(format="%.3f", help="Area under the ROC curve: 0.5 is random guessing, 1 is certainty.")},
    )
    left, right = st.columns(2)
    with left:
        st.markdown("**AUC by entity type in the sentence**")
        tables.show(messages.subsets(inferred.by_type, "type"), {"AUC": tables.number(format="%.3f")})
    with right:
        if len(inferred.by_client) > 1:
            st.markdown("**AUC by client of the sentence**")
            tables.show(messages.subsets(inferred.by_client, "client"), {"AUC": tables.number(format="%.3f")})
    with st.expander("Most exposed sentences", icon=":material/warning:"):
        at_risk(app, group.config.corpus, inferred)
if group.server:
    inversion, sigma = group.server
    st.markdown("#### Gradient inversion")
    st.markdown(f"{server_text(inversion, sigma)}.")
    share = tables.number(format="%.0f %%")
    tables.show(messages.readings(inversion, sigma), {"precision": share, "recall": share})
    st.caption(
        "The server tests each word of the corpus against the first messages, with a threshold chosen on the "
        "validation set. Frequent words can be guessed without any message. Later rounds are not attacked. "
        "[Lesson 5](/learn?lesson=federated) shows the attack step by step."
    )
if rows := messages.runs(group):
    with st.expander("Runs with canaries", icon=":material/list:"):
        tables.show(rows)
        st.caption(
            "Each *bound* is a lower bound on ε with 95 % confidence. It is valid for *any mechanism*, only for "
            "*DP-SGD steps*, or only if the *canaries* are also *independent* of each other. *Power* is the median "
            "bound ÷ ε in calibration runs of this size with ε = 1, 3 and 8."
        )
st.markdown(messages.LIMITS)
calibration.show(app)
canary_quiz.play()
first = group.audits[0]
st.caption(
    f"The audit of {address.plain(group.title)} was measured on {first.machine}, {first.created[:10]}, engine "
    f"{first.engine_version}, with this command:"
)
st.code(first.command, language="bash", wrap_lines=True)
if linked or not asked:
    st.markdown("#### Audit another run")
    audit_form.show(app, None)
