"""Page Recommended settings: the effect on F1 of each setting added to the paper settings, at the same ε."""

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
added = [
    {
        epsilon: recommended_settings.recipe_step(number, corpus, sentences, epsilon)
        for epsilon in recommended_settings.EPSILONS
    }
    for number in range(len(recommended_settings.STEPS))
]
found = app.queries.find_all(
    config for by_epsilon in added for base in by_epsilon.values() for config in with_seeds(base, SEEDS)
)
steps = [
    ablation.Step(setting, {epsilon: over_seeds(base, found.get) for epsilon, base in by_epsilon.items()})
    for setting, by_epsilon in zip(recommended_settings.STEPS, added, strict=True)
]
left.markdown(f"### {ablation.answer(steps)}")
show(ablation.picture(steps, key=f"ladder-{corpus}"), key="ladder", label=ablation.answer(steps))
st.caption(
    "From left to right each step makes one or two changes to the step before. The learning rate, σ and other settings "
    "are adapted to these changes. Everything but the training sentences is public. The last four steps also use "
    "public NER labels: those of Wikigold and, through spaCy's NER model, those of OntoNotes. The last three steps "
    "need MPNet, a language model of 0.4 GB."
)
seeded_noise_notice.caption()
epsilon = st.segmented_control(
    "ε of the runs in this table",
    recommended_settings.EPSILONS,
    default=1.0,
    format_func="ε = {:g}".format,
    required=True,
)
tables.show(
    ablation.rows(steps, epsilon),
    {
        "gain": tables.number("F1 gain", format="%+.3f"),
        "why": st.column_config.TextColumn("explanation"),
        "seconds": tables.number(
            format="%.0f", help="Wall time of the fastest run. Runs in parallel with others take longer."
        ),
    },
)
split = [
    recommended_settings.federated(corpus, sentences, clients, rounds, epsilon)
    for clients, rounds in itertools.product(recommended_settings.CLIENTS, recommended_settings.ROUNDS)
]
together = [steps[-1].measured[epsilon].config, *split]
found = app.queries.find_all(config for base in together for config in with_seeds(base, SEEDS))
federated = [over_seeds(config, found.get) for config in together]
central = [results for step in steps for results in step.measured.values()]
tables.older(run for results in (*central, *federated) for run in results.runs)
st.markdown("#### Recommended settings in federated training")
st.caption(
    "Each client adds noise to its own steps and spends the whole ε on its own data. With fewer sentences per client, "
    "each step needs more noise. Averaging the clients' weights often removes much of that noise."
)
tables.show(ablation.federated_rows(federated))
configs = [config for results in central for config in with_seeds(results.config, SEEDS)]
configs += [config for base in split for config in with_seeds(base, SEEDS)]
submitting.button(app, submitting.missing(app, list(dict.fromkeys(configs))), "of this page", key="run-ladder")
