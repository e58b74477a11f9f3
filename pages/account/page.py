"""Page Account: your user, permissions and active runs; the audit log for admins."""

import streamlit as st

from engine.access.roles import Role
from pages.account import log, messages, own_data
from pages.shared import session

app, user = session.application(), session.current_user()
if user is None:
    st.info("Sign-in is disabled: anyone who can reach this dashboard has full access.", icon=":material/info:")
    st.stop()
with st.container(horizontal=True, vertical_alignment="center"):
    st.markdown(f"### {messages.heading(user)}", width="stretch")
    st.button("Sign out", icon=":material/logout:", on_click=session.sign_out)
st.markdown("\n".join(f"- {permission}" for permission in messages.allowed(user.role)))
if user.role.may(Role.RUNNER):
    own = [run for run in app.queries.runs_of() if run.owner == user.name]
    st.markdown(messages.usage(user, own, len(app.corpora.own())))
if app.settings.retention_days:
    st.markdown(messages.retention(app.settings.retention_days))
own_data.button(app, user)
if user.role.may(Role.ADMIN):
    log.show(app, user.limits)
