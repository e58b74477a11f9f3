"""Hyperparameter search: trials, noise and charges."""

import dataclasses
import json
import math

import numpy as np
import pytest

from engine import corpus
from engine.config import SimulationConfig
from engine.corpus import Sentence
from engine.embeddings import contamination
from engine.errors import CorpusError, InvalidConfig
from engine.experiments import recommended_settings, tuning
from engine.privacy import accounting, rdp_filter
from engine.privacy.plan import PrivacyPlan
from engine.records import GOOD_PRACTICE, Study
from engine.reports import tuning as reports
from engine.settings import REPOSITORY
from engine.store import tuning_studies
from tests.engine.factories import record

TRAIN = 4_400
BUDGET = 60.0
ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 64))


@pytest.fixture
def fast_trials(monkeypatch):
    """Replace trials by fast ones, with a score that rises as the learning rate approaches 0.03."""
    configs: list[SimulationConfig] = []

    def simulate(config, settings, on_stage):
        configs.append(config)
        on_stage("training", 0.5)
        correct = 5 - min(4, round(2 * abs(math.log(config.training.learning_rate / 0.03))))
        scores = record(2).scores
        counts = {"PER": dataclasses.replace(scores.strict["PER"], correct=correct)}
        yield dataclasses.replace(record(2), scores=dataclasses.replace(scores, strict=counts))

    monkeypatch.setattr(tuning, "simulate", simulate)
    return configs


@pytest.fixture
def approximate_noise(monkeypatch):
    """Replace the slow search for σ by an approximation."""

    def noise(config, sentences, epsilon):
        plan = PrivacyPlan.from_config(config, sentences)
        spread = plan.sampling_probability * math.sqrt(2 * plan.steps * math.log(1 / plan.delta))
        return math.ceil(100 * max(0.8, spread / epsilon)) / 100

    monkeypatch.setattr(recommended_settings, "noise", noise)


def search(settings, trials: int, epsilon: float = 3.0, *, budget: float | None = BUDGET, seeds: int = 0) -> Study:
    """Return a search on the private corpus itself."""
    study = tuning.existing_trials(None, epsilon, "synthetic", "synthetic", settings, budget=budget, seeds=seeds)
    for grown in tuning.search(study, trials, settings):
        study = grown
    return study


def write_corpus(path, sentences) -> str:
    """Write a column file of sentences and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n\n".join("\n".join(map(" ".join, zip(s.tokens, s.tags, strict=True))) for s in sentences), encoding="utf-8"
    )
    return str(path)


@pytest.fixture
def elsewhere(tmp_path) -> str:
    """Return a corpus without overlap with the embedded one."""
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()
    sentences = [Sentence((*words, f"number{n}"), ("B-PER", *["O"] * len(words))) for n in range(300)]
    return write_corpus(tmp_path / "apart.conll", sentences)


def divergence(plan: PrivacyPlan, order: float) -> float:
    """Return the Rényi divergence of a plan by numerical integration (Mironov, Talwar and Zhang 2019, eq. 6)."""
    q, sigma = plan.sampling_probability, plan.noise_multiplier
    x = np.linspace(-40 * sigma, 40 * sigma + order, 50_001)
    log_ratio = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * sigma**2))
    values = order * log_ratio - x**2 / (2 * sigma**2) - 0.5 * math.log(2 * math.pi * sigma**2)
    total = values.max() + math.log(np.exp(values - values.max()).sum() * (x[1] - x[0]))
    return plan.steps * total / (order - 1)


def as_epsilon(total: float, order: float, delta: float = 1e-5) -> float:
    """Return ε at δ of a Rényi divergence (Canonne, Kamath and Steinke 2020, proposition 12)."""
    return total + math.log((order - 1) / order) - (math.log(delta) + math.log(order)) / (order - 1)


def plans_of(study: Study) -> list[PrivacyPlan]:
    """Return the privacy plan of each trial."""
    return [
        PrivacyPlan.from_config(
            SimulationConfig.from_flat(
                {
                    "batch_size": trial.chosen["batch_size"],
                    "epochs": trial.chosen["epochs"],
                    "noise_multiplier": trial.noise_multiplier,
                }
            ),
            TRAIN,
        )
        for trial in study.trials
    ]


def test_first_trial_is_not_the_recommended_settings_and_the_best_wins(settings, fast_trials, approximate_noise):
    study = search(settings, 6)
    recommended = recommended_settings.with_minilm("synthetic", TRAIN, 3.0)
    assert fast_trials[0].training.learning_rate != recommended.training.learning_rate
    assert fast_trials[0].privacy.clip_norm != recommended.privacy.clip_norm
    assert study.first == tuning.RANDOM
    assert "validation set" in reports.study_origin(study)
    assert "not the recommended settings with MiniLM" in reports.study_origin(study)
    other = reports.study_origin(dataclasses.replace(study, first=GOOD_PRACTICE))
    assert "uses the recommended settings with MiniLM" in other
    assert "not the recommended settings with MiniLM" not in other
    winner = study.winner
    assert winner is not None
    assert winner.f1 == max(trial.f1 for trial in study.trials)
    assert study.best is not None
    assert study.best.training.learning_rate == winner.chosen["learning_rate"]
    assert study.best.privacy.noise_multiplier == winner.noise_multiplier


def test_seeds_of_trials_and_winners_are_disjoint(settings, fast_trials, approximate_noise):
    study = search(settings, 4)
    assert [config.seed for config in fast_trials] == [trial.seed for trial in study.trials] == [1000, 1001, 1002, 1003]
    assert study.best is not None
    assert study.best.seed == 0


def test_an_interrupted_search_resumes_identically(settings, fast_trials, approximate_noise, tmp_path):
    whole = search(settings, 12)
    other = dataclasses.replace(settings, home=tmp_path / "other")
    search(other, 5)
    again = search(other, 12)
    assert len(whole.trials) == len(again.trials) == 12
    assert [trial.chosen for trial in again.trials] == [trial.chosen for trial in whole.trials]
    assert len(fast_trials) == 24  # no trial is repeated
    assert len({json.dumps(dict(trial.chosen)) for trial in whole.trials}) > 10


def test_each_trial_has_the_smallest_sigma_within_epsilon(settings, fast_trials):
    study = search(settings, 2, epsilon=2.0)
    base = recommended_settings.with_minilm("synthetic", TRAIN, 2.0)
    for trial in study.trials:
        config = tuning.priced(base, trial.chosen, TRAIN, 2.0)
        assert config.privacy.noise_multiplier == trial.noise_multiplier
        plan = PrivacyPlan.from_config(config, TRAIN)
        assert accounting.epsilon(plan, plan.steps) <= 2.0
        assert config.training.batch_size <= TRAIN / 3


def test_cost_on_the_private_corpus_is_stored_with_its_delta(settings, fast_trials, approximate_noise, elsewhere):
    study = tuning.existing_trials(None, 3.0, "synthetic", elsewhere, settings)
    for grown in tuning.search(study, 3, settings):
        study = grown
    assert not study.private
    assert (study.booked_basic, study.booked_delta) == (9.0, pytest.approx(3e-5))
    totals = {order: sum(divergence(plan, order) for plan in plans_of(study)) for order in ORDERS}
    expected = min(as_epsilon(total, order) for order, total in totals.items())
    assert study.booked_composed == pytest.approx(expected, rel=1e-4)
    text = reports.study_cost(study)
    assert all(
        part in text
        for part in ("no privacy cost for Letters and notes (synthetic)", "(ε = 9, δ = 3e-5)", "basic composition")
    )
    assert "1/n" not in text
    large = dataclasses.replace(study, trials=study.trials * 8)  # 24 δ = 2.4e-4 is above 1/4,400 = 2.3e-4
    assert "not below 1/n = 0.00023" in reports.study_cost(large)
    assert all(part in text for part in (f"ε = {study.booked_composed:.3g} at δ = 1e-5", "only", "fixed in advance"))


def test_runs_of_a_winner_are_composed(settings, fast_trials, approximate_noise, elsewhere):
    study = tuning.existing_trials(None, 3.0, "synthetic", elsewhere, settings, seeds=5)
    study = next(tuning.search(study, 1, settings))
    assert study.released_epsilon == 0.0
    study = tuning.released(study, 5, settings)
    assert study.released == {0: 5}
    (plan,) = plans_of(study)
    bound = min(as_epsilon(5 * divergence(plan, order), order) for order in ORDERS)
    assert 0.88 * bound < study.released_epsilon < bound  # exact accounting is a tenth below Rényi's
    assert study.released_epsilon > 6.0
    assert tuning_studies.read_all(settings.home)[study.name] == study
    assert f"ε = {study.released_epsilon:.3g} (δ = 1e-5)" in reports.study_cost(study)
    assert tuning.released(study, 3, settings).released == {0: 5}


def test_runs_of_an_earlier_winner_stay_charged(settings, fast_trials, approximate_noise, elsewhere):
    study = next(tuning.search(tuning.existing_trials(None, 3.0, "synthetic", elsewhere, settings), 1, settings))
    study = first = tuning.released(study, 1, settings)
    for grown in tuning.search(study, 8, settings):
        study = grown
    assert study.winner is not None
    assert study.winner.number > 0
    both = tuning.released(study, 1, settings)
    assert both.released == {0: 1, study.winner.number: 1}
    assert both.released_epsilon > 1.3 * first.released_epsilon


def test_a_search_on_the_private_corpus_stays_within_its_budget(settings, fast_trials, approximate_noise):
    """By an independent calculation, the trials leave room for the winner's runs, and one more trial does not."""
    study = search(settings, 100, budget=20.0, seeds=2)
    assert study.private
    assert study.order is not None
    assert 2 < len(study.trials) < 100
    costs = [divergence(plan, study.order) for plan in plans_of(study)]
    totals = [as_epsilon(sum(costs[:k]) + 2 * max(costs[:k]), study.order) for k in range(1, len(costs) + 1)]
    assert totals == sorted(totals)
    assert totals[-1] <= 20.0
    assert totals[-1] + max(costs) * 1.5 > 20.0
    text = reports.study_cost(study)
    assert all(part in text for part in ("(ε = 20, δ = 1e-5)", "fixed before", "2 runs"))
    # A trial beyond the budget is never run, even if the search is repeated.
    assert search(settings, 100, budget=20.0, seeds=2).trials == study.trials
    assert len(fast_trials) == len(study.trials)


def test_the_budget_is_fixed_before_the_first_trial(settings, fast_trials, approximate_noise, elsewhere):
    with pytest.raises(InvalidConfig, match=r"budget=None.*4,400 of the 4,400\b"):
        search(settings, 1, budget=None)
    with pytest.raises(InvalidConfig, match=r"budget=5 .*\bnot\b.* 5 runs"):
        search(settings, 1, budget=5.0, seeds=5)
    with pytest.raises(InvalidConfig, match=r"budget=0\.5 .*less than"):
        search(settings, 1, budget=0.5)
    with pytest.raises(InvalidConfig, match="expected none"):
        tuning.existing_trials(None, 3.0, "synthetic", elsewhere, settings, budget=9.0)
    study = search(settings, 1, budget=20.0, seeds=1)
    with pytest.raises(InvalidConfig, match="budget of ε = 20"):
        search(settings, 2, budget=30.0)
    with pytest.raises(InvalidConfig, match="expected at most 1"):
        tuning.existing_trials(None, 3.0, "synthetic", "synthetic", settings, budget=20.0, seeds=2)
    assert "--budget 20 --seeds 1" in study.command
    tuning_studies.write(dataclasses.replace(study, budget=None, order=None), settings.home)
    with pytest.raises(InvalidConfig, match="started without a budget"):
        search(settings, 2, budget=None)
    old = reports.study_cost(dataclasses.replace(study, budget=None))
    assert "no privacy budget" in old


def test_the_same_corpus_under_another_name_is_the_same_corpus(settings, fast_trials, approximate_noise, tmp_path):
    """Corpora are compared by content: ``/./`` in a path, a copy, and a file that shares sentences."""
    sentences = corpus.resolve("synthetic", settings).load().train
    first = write_corpus(tmp_path / "a.conll", sentences[:300])
    copy = write_corpus(tmp_path / "copies" / "b.conll", sentences[:300])
    partly = write_corpus(tmp_path / "c.conll", (*sentences[290:300], *sentences[400:600]))
    other = write_corpus(tmp_path / "d.conll", sentences[600:800])

    def study_with(development: str, budget: float | None = BUDGET) -> Study:
        return tuning.existing_trials("s", 3.0, first, development, settings, budget=budget)

    assert study_with(str(tmp_path / "." / "x" / ".." / "a.conll").replace("x/../", "./")).private
    assert study_with(copy).private
    shares = study_with(partly)
    assert shares.private
    assert 0 < shares.shared <= 10
    with pytest.raises(InvalidConfig, match=rf"\b{shares.shared} of the 240\b"):
        study_with(partly, None)
    assert not study_with(other, None).private
    study = next(tuning.search(study_with(copy), 1, settings))
    assert tuning.existing_trials("s", 3.0, copy, first, settings, budget=BUDGET).trials == study.trials
    write_corpus(tmp_path / "copies" / "b.conll", sentences[:301])
    with pytest.raises(InvalidConfig, match="has changed since"):
        study_with(copy)


def test_a_corpus_in_the_features_training_data_is_refused(settings, monkeypatch, elsewhere):
    loaded = corpus.resolve("synthetic", settings).load()
    monkeypatch.setattr(
        contamination, "fitted_on", lambda part: contamination.checksums(s.tokens for s in loaded.train[:7])
    )
    with pytest.raises(InvalidConfig, match=r"\b7 of 4,400 training"):
        tuning.existing_trials(None, 3.0, "synthetic", elsewhere, settings)
    monkeypatch.setattr(
        contamination, "fitted_on", lambda part: contamination.checksums(s.tokens for s in loaded.validation[:7])
    )
    study = tuning.existing_trials(
        None, 3.0, elsewhere, "synthetic", dataclasses.replace(settings, home=settings.home / "2")
    )
    assert tuning.optimism_bias(study, dataclasses.replace(settings, home=settings.home / "2")).startswith(
        "7 of 600 valid"
    )


def test_a_study_without_checksums_is_read(settings):
    text = (REPOSITORY / "cached_results" / tuning_studies.FOLDER / "conll2003-epsilon-3-on-btc.json").read_text()
    values = json.loads(text)
    assert values["released"] == {"17": 5}
    for name in ("corpus_checksum", "development_checksum", "sentences", "shared", "budget", "order", "seeds", "first"):
        del values[name]
    del values["released"], values["released_epsilon"]
    for trial in values["trials"]:
        del trial["seed"]
    folder = settings.published / tuning_studies.FOLDER
    folder.mkdir()
    (folder / "old.json").write_text(json.dumps(values))
    (study,) = tuning_studies.read_all(settings.published).values()
    assert len(study.trials) == 24
    assert not study.private
    assert {trial.seed for trial in study.trials} == {0}
    text = reports.study_cost(study)
    assert all(part in text for part in ("(ε = 72, δ = 0.00024)", "basic composition"))
    assert all(part in text for part in ("Each run", "CoNLL-2003", "costs ε = 3;", "composed"))
    assert dataclasses.replace(study, development="conll2003").private


def test_on_development_keeps_steps_and_relative_noise(settings, tmp_path):
    """With a corpus smaller than a batch, the noise in a batch's mean and the number of steps stay."""
    small = write_corpus(tmp_path / "small.conll", corpus.resolve("synthetic", settings).load().train[:250])
    size = corpus.resolve(small, settings).train_sentences
    study = Study(name="s", epsilon=3.0, delta=1e-5, corpus="synthetic", development=small)
    target = recommended_settings.with_minilm("synthetic", TRAIN, 3.0)
    found = tuning.on_development(target, study, settings)
    assert found.corpus == small
    assert found.training.batch_size == size < target.training.batch_size
    plans = PrivacyPlan.from_config(target, TRAIN), PrivacyPlan.from_config(found, size)
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
        ({"budget": -1.0}, InvalidConfig, "budget=-1.0"),
        ({"seeds": -1}, InvalidConfig, "seeds=-1"),
    ],
)
def test_search_refuses_invalid_arguments(settings, change, error, words):
    arguments = {
        "name": None,
        "epsilon": 3.0,
        "corpus": "synthetic",
        "development": "synthetic",
        "budget": BUDGET,
    } | change
    with pytest.raises(error, match=words):
        tuning.existing_trials(settings=settings, **arguments)


def test_a_study_name_is_unique(settings, fast_trials, approximate_noise):
    study = tuning.existing_trials("mine", 3.0, "synthetic", "synthetic", settings, budget=BUDGET)
    next(tuning.search(study, 1, settings))
    assert len(tuning.existing_trials("mine", 3.0, "synthetic", "synthetic", settings, budget=BUDGET).trials) == 1
    with pytest.raises(InvalidConfig, match=r"synthetic at ε = 3\b"):
        tuning.existing_trials("mine", 1.0, "synthetic", "synthetic", settings, budget=BUDGET)
    with pytest.raises(InvalidConfig, match="trials=0"):
        next(tuning.search(study, 0, settings))


def test_studies_round_trip_and_other_files_are_ignored(settings, fast_trials, approximate_noise):
    study = search(settings, 2)
    assert tuning_studies.read_all(settings.home) == {study.name: study}
    folder = settings.published / tuning_studies.FOLDER
    folder.mkdir()
    text = (settings.home / tuning_studies.FOLDER / f"{study.name}.json").read_text()
    (folder / "same.json").write_text(text)
    (folder / "broken.json").write_text(text[:-40])
    (folder / "infinite.json").write_text(text.replace('"booked_basic": 6.0', '"booked_basic": 1e999'))
    (folder / "budget.json").write_text(text.replace(f'"budget": {BUDGET}', '"budget": "much"'))
    (folder / "list.json").write_text("[]")
    (folder / "huge.json").write_text(" " * 5_000_001)
    assert tuning_studies.read_all(settings.published) == {study.name: study}
    changed = dataclasses.replace(study, booked_basic=1.0)
    tuning_studies.write(changed, settings.home)
    assert tuning_studies.read_all(settings.home, settings.published)[study.name] == changed


def test_composition_of_plans_equals_that_of_their_steps():
    """Without sampling, all steps are one Gaussian mechanism with μ² = Σ steps ÷ σ² (Dong, Roth and Su 2022)."""
    plan = PrivacyPlan.from_config(SimulationConfig.from_flat({"batch_size": 100, "noise_multiplier": 20.0}), 100)
    other = dataclasses.replace(plan, noise_multiplier=8.0, steps=3)
    mu = math.sqrt(2 * plan.steps / 20**2 + 3 / 8**2)

    def delta(epsilon: float) -> float:
        upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return 0.5 * math.erfc(-upper / math.sqrt(2)) - math.exp(epsilon) * 0.5 * math.erfc(-lower / math.sqrt(2))

    exact = rdp_filter.pld_composition([(plan, 2), (other, 1)], 1e-5)
    assert delta(exact) <= 1e-5 <= delta(0.998 * exact)
    renyi = min(as_epsilon(order * mu**2 / 2, order) for order in ORDERS)
    assert accounting.rdp_composition([plan, plan, other], 1e-5) == pytest.approx(renyi, rel=1e-6)
    assert accounting.rdp_composition([], 1e-5) == rdp_filter.pld_composition([(plan, 0)], 1e-5) == 0.0
    without_noise = dataclasses.replace(plan, noise_multiplier=0.0)
    assert (
        accounting.rdp_composition([without_noise], 1e-5)
        == rdp_filter.pld_composition([(without_noise, 1)], 1e-5)
        == math.inf
    )


@pytest.mark.parametrize(("epsilon", "sigma"), [(2.0, 20.0), (20.0, 4.0)])
def test_filter_admits_exactly_its_budget(epsilon, sigma):
    """Without sampling, a step has the Rényi divergence α ÷ (2σ²) at order α."""
    plan = PrivacyPlan.from_config(SimulationConfig.from_flat({"batch_size": 100, "noise_multiplier": sigma}), 100)
    rdp = rdp_filter.filter_for(epsilon, 1e-5, plan)
    assert rdp.cost(plan, 3) == pytest.approx(3 * plan.steps * rdp.order / (2 * sigma**2))
    assert as_epsilon(rdp.capacity, rdp.order) == pytest.approx(epsilon)
    one = rdp.cost(plan)
    most = int(rdp.capacity / one)
    assert rdp.admits((most - 1) * one, one)
    assert not rdp.admits(most * one, one)
    # No other order would admit more plans.
    assert most == max(
        int((epsilon - as_epsilon(0.0, order)) / (plan.steps * order / (2 * sigma**2))) for order in rdp_filter.ORDERS
    )
    assert rdp.cost(dataclasses.replace(plan, noise_multiplier=0.0)) == math.inf
