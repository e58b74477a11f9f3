"""The Tuning page, run without a browser."""

from engine import recipes
from engine.paper import Cell, measure
from engine.records import Study, Trial
from engine.store import studies
from pages.shared import tuning
from tests.engine.test_paper import run_of

BEST = recipes.good_practice("conll2003", 14_041, 3.0)
CHOSEN = {name: BEST.flat()[name] for name in tuning.FIELDS}
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
)


def test_without_a_search_the_page_says_how_to_begin_one(open_page):
    test = open_page("tuning")
    assert "No search for a recipe has been made yet" in test.markdown[0].value
    assert test.code[0].value.startswith("python -m engine tune --epsilon 3")


def test_a_search_is_shown_with_what_it_would_have_cost(open_page, settings):
    studies.write(STUDY, settings.home)
    test = open_page("tuning")
    assert "Of 2 recipes for ε = 3, the best finds F1 0.50 where it was tried" in test.markdown[0].value
    assert "they would have cost ε = 4.5 by Rényi accounting, at most 6" in test.info[0].value
    frame = test.dataframe[0].value
    assert frame["trial"].tolist() == [0, 1]
    assert frame["model"].tolist() == ["linear-crf", "mlp-crf"]
    assert test.code[0].value.endswith("--trials 4")


def test_the_headline_has_what_the_winner_gives_on_the_corpus():
    tested = measure(Cell("tuning", {}, {}, BEST), lambda config: run_of(config, 5 + config.seed), 2)
    assert tested.entity is not None
    assert tuning.answer(STUDY, tested).endswith(f"and {tested.entity.f1_text} on the corpus it is for.")


def test_pictures_hold_every_trial():
    figure = tuning.history(STUDY, key="k")
    assert list(figure.data[0].y) == [0.5, 0.4]
    assert list(figure.data[1].y) == [0.5, 0.5]
    for name in tuning.FIELDS:
        field = tuning.by_field(STUDY, name, key="k")
        assert list(field.data[0].x) == [trial.chosen[name] for trial in STUDY.trials]
        assert list(field.data[0].marker.symbol) == ["circle", "circle-open"]
    assert list(field.layout.xaxis.categoryarray) == ["linear-crf", "mlp-crf"]
    assert tuning.label(STUDY, {"btc": "Tweets"}) == "conll2003 at ε = 3, tried on Tweets"
