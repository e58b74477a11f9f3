"""The search for a recipe: what is tried, at which noise, and what it is booked at."""

import dataclasses
import json
import math

import pytest

from engine import corpus, recipes, tuning
from engine.config import SimulationConfig
from engine.errors import CorpusError, InvalidConfig
from engine.privacy import accounting
from engine.privacy.plan import PrivacyPlan
from engine.records import Study
from engine.store import studies
from tests.engine.runs_for_tests import record

TRAIN = 4_400


@pytest.fixture
def quick(monkeypatch):
    """Trials that take no time: the nearer the learning rate to 0.03, the better."""
    tried: list[SimulationConfig] = []

    def simulate(config, settings, on_stage):
        tried.append(config)
        on_stage("training", 0.5)
        correct = 5 - min(4, round(2 * abs(math.log(config.training.learning_rate / 0.03))))
        scores = record(2).scores
        counts = {"PER": dataclasses.replace(scores.strict["PER"], correct=correct)}
        yield dataclasses.replace(record(2), scores=dataclasses.replace(scores, strict=counts))

    monkeypatch.setattr(tuning, "simulate", simulate)
    return tried


@pytest.fixture
def rough(monkeypatch):
    """σ by Rényi accounting, which takes no seconds; good practice has its usual one."""

    def noise(config, sentences, epsilon):
        found = accounting.noise_multiplier_for(epsilon, PrivacyPlan.from_config(config, sentences), "rdp")
        return math.ceil(100 * found) / 100

    monkeypatch.setattr(recipes, "noise", noise)


def searched(settings, trials: int, epsilon: float = 3.0) -> Study:
    study = tuning.begun(None, epsilon, "synthetic", "synthetic", settings)
    for grown in tuning.search(study, trials, settings):
        study = grown
    return study


def test_the_first_recipe_is_good_practice_and_the_best_wins(settings, quick, rough):
    study = searched(settings, 6)
    good = recipes.good_practice("synthetic", TRAIN, 3.0)
    assert quick[0].training.learning_rate == good.training.learning_rate
    assert quick[0].privacy == good.privacy
    winner = study.winner
    assert winner is not None
    assert winner.f1 == max(trial.f1 for trial in study.trials)
    assert study.best is not None
    assert study.best.training.learning_rate == winner.chosen["learning_rate"]
    assert study.best.privacy.noise_multiplier == winner.noise_multiplier


def test_an_interrupted_search_goes_on_as_if_it_had_not_been(settings, quick, rough, tmp_path):
    whole = searched(settings, 12)
    other = dataclasses.replace(settings, home=tmp_path / "other")
    searched(other, 5)
    again = searched(other, 12)
    assert [trial.chosen for trial in again.trials] == [trial.chosen for trial in whole.trials]
    assert len(quick) == 24  # none twice
    assert len({json.dumps(dict(trial.chosen)) for trial in whole.trials}) > 10


def test_each_recipe_costs_no_more_than_it_may(settings, quick):
    study = searched(settings, 3, epsilon=2.0)
    base = recipes.good_practice("synthetic", TRAIN, 2.0)
    for trial in study.trials:
        config = tuning.priced(base, trial.chosen, TRAIN, 2.0)
        assert config.privacy.noise_multiplier == trial.noise_multiplier
        plan = PrivacyPlan.from_config(config, TRAIN)
        assert accounting.epsilon(plan, plan.steps) <= 2.0
        assert config.training.batch_size <= TRAIN / 3


def test_what_the_trials_would_have_cost_is_booked(settings, quick, rough):
    study = searched(settings, 3)
    assert study.booked_basic == 9.0
    assert 3.0 < study.booked_composed < 9.0
    assert study.private
    assert "looked at synthetic itself" in study.cost_text
    elsewhere = dataclasses.replace(study, development="btc")
    assert "cost synthetic nothing" in elsewhere.cost_text


def test_the_development_corpus_sees_the_targets_steps_and_noise(settings, tmp_path):
    """Smaller than a batch: the noise in the mean of a batch stays, the number of steps too."""
    folder = tmp_path / "small.conll"
    sentences = corpus.load("synthetic", settings).train[:250]
    folder.write_text(
        "\n\n".join("\n".join(map(" ".join, zip(s.tokens, s.tags, strict=True))) for s in sentences), encoding="utf-8"
    )
    small = str(folder)
    here = corpus.train_sentences(small, settings)
    study = Study(name="s", epsilon=3.0, delta=1e-5, corpus="synthetic", development=small)
    target = recipes.good_practice("synthetic", TRAIN, 3.0)
    found = tuning.on_development(target, study, settings)
    assert found.corpus == small
    assert found.training.batch_size == here < target.training.batch_size
    plans = PrivacyPlan.from_config(target, TRAIN), PrivacyPlan.from_config(found, here)
    assert plans[0].steps == plans[1].steps
    noise = [plan.noise_std / plan.batch_size for plan in plans]
    assert noise[0] == pytest.approx(noise[1])
    same = tuning.on_development(target, dataclasses.replace(study, development="synthetic"), settings)
    assert same.privacy == target.privacy
    assert PrivacyPlan.from_config(same, TRAIN) == plans[0]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"epsilon": -1.0}, InvalidConfig, "epsilon=-1.0"),
        ({"epsilon": math.nan}, InvalidConfig, "epsilon=nan"),
        ({"name": "../up"}, InvalidConfig, "name='../up'"),
        ({"development": "nowhere"}, CorpusError, "nowhere"),
        ({"corpus": "nowhere"}, CorpusError, "nowhere"),
    ],
)
def test_what_cannot_be_searched_is_said(settings, change, error, words):
    asked = {"name": None, "epsilon": 3.0, "corpus": "synthetic", "development": "synthetic"} | change
    with pytest.raises(error, match=words):
        tuning.begun(settings=settings, **asked)


def test_a_name_stands_for_one_search(settings, quick):
    study = tuning.begun("mine", 3.0, "synthetic", "synthetic", settings)
    next(tuning.search(study, 1, settings))
    assert len(tuning.begun("mine", 3.0, "synthetic", "synthetic", settings).trials) == 1
    with pytest.raises(InvalidConfig, match="is a study of synthetic at ε = 3"):
        tuning.begun("mine", 1.0, "synthetic", "synthetic", settings)
    with pytest.raises(InvalidConfig, match="trials=0"):
        next(tuning.search(study, 0, settings))


def test_studies_are_kept_whole_and_what_is_no_study_is_left_out(settings, quick, rough):
    study = searched(settings, 2)
    assert studies.read_all(settings.home) == {study.name: study}
    folder = settings.published / studies.FOLDER
    folder.mkdir()
    text = (settings.home / studies.FOLDER / f"{study.name}.json").read_text()
    (folder / "same.json").write_text(text)
    (folder / "broken.json").write_text(text[:-40])
    (folder / "infinite.json").write_text(text.replace('"booked_basic": 6.0', '"booked_basic": 1e999'))
    (folder / "list.json").write_text("[]")
    (folder / "huge.json").write_text(" " * 5_000_001)
    assert studies.read_all(settings.published) == {study.name: study}
    changed = dataclasses.replace(study, booked_basic=1.0)
    studies.write(changed, settings.home)
    assert studies.read_all(settings.home, settings.published)[study.name] == changed


def test_several_plans_cost_what_their_steps_cost_together():
    plan = PrivacyPlan.from_config(SimulationConfig(), 4_400)
    once = accounting.epsilon(plan, plan.steps, "rdp")
    assert accounting.composed([plan], 1e-5) == pytest.approx(once)
    thrice = accounting.epsilon(plan, 3 * plan.steps, "rdp")
    assert accounting.composed([plan] * 3, 1e-5) == pytest.approx(thrice)
    assert accounting.composed([], 1e-5) == 0.0
    assert accounting.composed([dataclasses.replace(plan, noise_multiplier=0.0)], 1e-5) == math.inf
