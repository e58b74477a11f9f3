"""Page Privacy audit: lower bounds on ε from attacks, compared with the claimed ε."""

import math

import streamlit as st

from engine.reports.audits import ATTACKS, current_command, server_text
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
    "several seeds, a filled marker shows their joint bound at 95 %. An open marker shows the mean of the seeds' "
    "bounds, where there is no joint bound. A mean is not a 95 % bound. The table *Runs with canaries* has the bound "
    "of each seed. Markers at the left edge: bounds below 0.01."
    + messages.CANARY_CLAIM * math.isfinite(group.claimed)
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
        f"{inferred.sentences:,} sentences. Each model was trained on a random half of the sentences. "
        + (
            f"So its claimed ε is that of half the data: ε = {epsilon_text(inferred.claimed)}. "
            if math.isfinite(inferred.claimed)
            else ""
        )
        + "Ranges in parentheses are 95 % CIs. Sources of the attacks: loss threshold (Yeom et al. 2018), LiRA "
        "(Carlini et al. 2022), RMIA (Zarifzadeh et al. 2024), Bayes (after Brännvall 2026)."
    )
    tables.show(
        messages.attacks(inferred),
        {"AUC": tables.number(format="%.3f", help="Area under the ROC curve: 0.5 is random guessing, 1 is certainty.")},
    )
    strongest = ATTACKS.get(inferred.best, inferred.best)
    left, right = st.columns(2)
    with left:
        st.markdown(f"**AUC of {strongest} on sentences with an entity of the type**")
        tables.show(messages.subsets(inferred.by_type, "type"), {"AUC": tables.number(format="%.3f")})
    with right:
        if len(inferred.by_client) > 1:
            st.markdown(f"**AUC of {strongest} by client of the sentence**")
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
            "The three columns named *bound* are lower bounds on ε. In each row they hold together with 95 % "
            "confidence. The first is valid for any mechanism, the second for DP-SGD only. The third also assumes "
            "canaries that are independent of each other. *Median bound ÷ ε* is from calibration runs of this size "
            "with ε = 1, 3 and 8."
        )
st.markdown(messages.LIMITS)
calibration.show(app)
canary_quiz.play()
first = group.audits[0]
st.caption(
    f"The audit of {address.plain(group.title)} was measured on {address.plain(first.machine)}, {first.created[:10]}, "
    f"engine {first.engine_version}, with this command"
    + (" for the first seed; `--seed` sets the others:" if len(group.audits) > 1 else ":")
)
st.code(f".venv/bin/{current_command(first)}", language="bash", wrap_lines=True)
if linked or not asked:
    st.markdown("#### Audit another run")
    audit_form.show(app, None)
