"""Good practice: what each choice between the paper's setting and the recipe is worth, at the same ε."""

import itertools

import streamlit as st

from engine.experiments import recommended_settings
from engine.experiments.seed_aggregates import SEEDS, over_seeds, with_seeds
from pages.practice import ablation
from pages.shared import seeded_noise_notice, session, submitting, tables, titles
from pages.shared.plotly_component import show

app = session.application()
left, right = st.columns([3, 1], vertical_alignment="bottom")
corpus = right.selectbox("Corpus", ["conll2003", "synthetic"], format_func=titles.corpus)
sentences = app.corpora.train_sentences(corpus)
steps = [
    ablation.Step(
        rung,
        {
            epsilon: over_seeds(recommended_settings.recipe_step(number, corpus, sentences, epsilon), app.queries.find)
            for epsilon in recommended_settings.EPSILONS
        },
    )
    for number, rung in enumerate(recommended_settings.RUNGS)
]
left.markdown(f"### {ablation.answer(steps)}")
show(ablation.picture(steps, key=f"ladder-{corpus}"), key="ladder", label=ablation.answer(steps))
st.caption(
    "From left to right each setting has one choice more than the one before it. Everything but the training sentences "
    "is public. The last rung rests on one more assumption, that public names with labels are there: a language model "
    "was tuned on Wikigold's, and spaCy's name finder learned from those of OntoNotes."
)
seeded_noise_notice.caption()
epsilon = st.segmented_control(
    "Numbers at", recommended_settings.EPSILONS, default=1.0, format_func="ε = {:g}".format, required=True
)
tables.show(
    ablation.rows(steps, epsilon),
    {
        "gain": tables.number(format="%+.3f"),
        "seconds": tables.number(format="%.0f", help="The quickest run; runs beside others take longer."),
    },
)
split = [
    recommended_settings.federated(corpus, sentences, clients, rounds, epsilon)
    for clients, rounds in itertools.product(recommended_settings.CLIENTS, recommended_settings.ROUNDS)
]
together = [recommended_settings.recommended_settings(corpus, sentences, epsilon), *split]
held = [over_seeds(config, app.queries.find) for config in together]
ladders = [found for step in steps for found in step.measured.values()]
tables.older(run for found in (*ladders, *held) for run in found.runs)
st.markdown("#### The same where several hold the data")
st.caption(
    "Each client adds noise to its own steps and pays the whole ε for its own part, so the fewer sentences it has, the "
    "more noise each step gets; averaging the clients' weights often takes much of it out again."
)
tables.show(ablation.federated_rows(held))
wanted = [config for found in ladders for config in with_seeds(found.config, SEEDS)]
wanted += [config for each in split for config in with_seeds(each, SEEDS)]
submitting.button(app, submitting.missing(app, list(dict.fromkeys(wanted))), "of this ladder", key="run-ladder")
