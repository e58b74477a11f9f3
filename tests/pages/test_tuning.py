"""Page Hyperparameter search, without a browser."""

import dataclasses

from engine.experiments import recommended_settings
from engine.experiments.seed_aggregates import over_seeds
from engine.experiments.tuning import _space
from engine.records import Study, Trial
from engine.store import tuning_studies
from pages.tuning import chart as tuning
from tests.engine.experiments.papers.test_jana_biemann_2021 import run_of
from tests.pages.reading import figures

BEST = recommended_settings.with_minilm("conll2003", 14_041, 3.0)
CHOSEN = {name: BEST.flat()[name] for name in _space(14_041)}
STUDY = Study(
    name="a-search",
    epsilon=3.0,
    delta=1e-5,
    corpus="conll2003",
    development="btc",
    trials=(
        Trial(number=0, chosen=CHOSEN, noise_multiplier=1.48, f1=0.5, seconds=9.0),
        Trial(number=1, chosen=CHOSEN | {"tagger": "mlp-crf"}, noise_multiplier=1.48, f1=0.4, seconds=19.0),
    ),
    best=BEST,
    booked_basic=6.0,
    booked_composed=4.5,
    command="python -m engine tune --epsilon 3 --corpus conll2003 --development btc",
    corpus_checksum="c" * 64,
    development_checksum="d" * 64,
    sentences=14_041,
    released={0: 5},
    released_epsilon=7.5,
)


def texts(elements) -> str:
    return "\n".join(element.value for element in elements).replace("\\", "")


def test_page_without_a_search_shows_its_command(open_page):
    test = open_page("tuning")
    assert "No hyperparameter search is saved yet" in test.markdown[0].value
    assert test.code[0].value.startswith(".venv/bin/python -m engine tune --epsilon 3")


def test_search_is_shown_with_its_privacy_cost(open_page, settings):
    tuning_studies.write(STUDY, settings.home)
    test = open_page("tuning")
    assert figures(test.markdown[0].value) == ["2", "3", "0.50"]
    text = test.info[0].value.replace("\\", "")
    assert "CoNLL-2003 English news" in text
    assert "no privacy cost" in text
    released, trials = text.index("5 releases"), text.index("2 trials")
    assert {"3", "7.5", "1e-5"} <= set(figures(text[released:]))
    assert figures(text[trials:])[:5] == ["2", "6", "2e-5", "4.5", "1e-5"]
    assert "public data" in texts(test.markdown)
    assert "selected on CoNLL-2003's validation set" in texts(test.caption)
    frame = test.dataframe[0].value
    assert frame["trial"].tolist() == [0, 1]
    assert frame["model"].tolist() == ["Linear, CRF", "MLP, CRF"]
    assert test.code[0].value.endswith("--trials 4")


def test_search_on_the_target_corpus_has_a_privacy_cost(open_page, settings):
    study = dataclasses.replace(STUDY, shared=14_041, budget=20.0, order=4.5, seeds=5)
    tuning_studies.write(study, settings.home)
    test = open_page("tuning")
    text = test.info[0].value.replace("\\", "")
    assert "(ε = 20, δ = 1e-5)" in text
    assert "nothing" not in text
    assert "on public data" not in texts(test.markdown)


def test_answer_has_the_f1_on_the_target_corpus():
    tested = over_seeds(BEST, lambda config: run_of(config, 5 + config.seed), seeds=2)
    assert tested.entity is not None
    assert tuning.answer(STUDY, tested).endswith(f"and {tested.entity.f1.text} on the target corpus.")


def test_charts_have_every_trial():
    figure = tuning.history(STUDY, key="k")
    assert list(figure.data[0].y) == [0.5, 0.4]
    assert list(figure.data[1].y) == [0.5, 0.5]
    assert list(STUDY.fields) == list(CHOSEN)
    for name in STUDY.fields:
        field = tuning.by_field(STUDY, name, key="k")
        assert len(field.data[0].x) == 2
        assert list(field.data[0].marker.symbol) == ["circle", "circle-open"]
    assert list(field.data[0].x) == list(field.layout.xaxis.categoryarray) == ["Linear, CRF", "MLP, CRF"]
    assert tuning.label(STUDY) == "CoNLL-2003 English news at ε = 3, searched on Broad Twitter Corpus"
