"""Tag text: one text, tagged by models trained at different ε."""

import streamlit as st

from engine.errors import EpsilonError
from pages.shared import address, seeded_noise_notice, session
from pages.try_it import messages, panels, redaction, text_input

app = session.application()
offers = app.tagging.available_models()
st.html(f"<style>{panels.STYLE}</style>")
head = st.container()
text, known = text_input.chosen()
own = [offer for offer in offers if offer.epsilon is None]
if own:
    more = st.multiselect("Your models", own, format_func=messages.title, key="try_own")
    offers = [offer for offer in offers if offer.epsilon is not None or offer in more]
if not offers:
    head.markdown("### No model available")
    st.caption("No published model is installed, and none of your runs has a saved model. Start a run on Explore.")
elif not text.strip():
    head.markdown("### Tag a text with models of different ε")
    st.caption("Type or paste a text above, or choose an example.")
else:
    try:
        answer = text_input.answer(app, text, offers)
    except EpsilonError as error:
        head.markdown("### The text could not be tagged")
        st.error(address.plain(str(error)), icon=":material/error:")
        st.stop()
    head.markdown(f"### {address.plain(messages.answer_line(text, messages.by_title(answer, offers), known))}")
    st.caption(messages.legend(known is not None))
    st.html(panels.drawing(text, messages.panels(text, answer, offers, known)))
    if answer.tagged:
        redaction.show(text, messages.by_title(answer, offers))
    seeded_noise_notice.caption()
    st.info(messages.DEMONSTRATION, icon=":material/info:")
