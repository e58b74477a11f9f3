"""A complete run: records, completion, stopping and resuming."""

import dataclasses
import math
import shutil
from typing import Any

import pytest

from engine import corpus, setup_status
from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TrainingConfig
from engine.embeddings import contamination
from engine.errors import CorpusError, InvalidConfig, RunStopped, TrainingFailed, VectorsMissing
from engine.federated.fedavg import Federation
from engine.federated.plan import plan_of
from engine.privacy.accounting import epsilon
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets
from engine.settings import BACKENDS
from engine.setup_status import Progress
from engine.simulation.recorder import report_steps
from engine.simulation.run import simulate
from engine.simulation.setup import FeatureProgress, prepare
from engine.training.checkpoint import Checkpoint
from tests.engine.factories import SMALL


def without_time(record):
    return dataclasses.replace(record, seconds=0.0)


@pytest.mark.contract
def test_a_run_yields_records_and_final_test_scores(trained_settings):
    records = list(simulate(SMALL, trained_settings))
    assert len(records) >= 20
    assert [record.round for record in records] == list(range(len(records)))
    assert [record.test is not None for record in records] == [False] * (len(records) - 1) + [True]
    plan = PrivacyPlan.from_config(SMALL, 220)
    for record in records:
        assert record.privacy.epsilon == epsilon(plan, record.step)
    assert records[-1].step == plan.steps == 55
    assert records[-1].examples_seen == pytest.approx(55 * 8, rel=0.35)
    gold = sum(counts.gold for counts in records[0].scores.strict.values())
    assert gold == 1_312  # entities in the validation set
    assert sum(counts.gold for counts in records[-1].test.strict.values()) == 2_233


def test_run_that_ends_before_its_last_step_fails(trained_settings, monkeypatch):
    """A stopping rule could follow the losses of private sentences."""
    train = Federation.train

    def until_the_loss_is_low(self, *done):
        for progress in train(self, *done):
            yield progress
            if progress.step and progress.step.losses.size and progress.taken >= 9:
                return

    monkeypatch.setattr(Federation, "train", until_the_loss_is_low)
    models: list[Any] = []
    with pytest.raises(TrainingFailed, match=r"after step \d+ of 55"):
        list(simulate(SMALL, trained_settings, on_model=models.append))
    assert not models


def test_it_learns_without_privacy(trained_settings):
    config = SimulationConfig(
        data_fraction=0.3,
        training=TrainingConfig(optimiser="adam", learning_rate=0.005, epochs=3),
        privacy=PrivacyConfig(noise_multiplier=0),
    )
    records = list(simulate(config, trained_settings))
    assert math.isinf(records[-1].privacy.epsilon)
    assert records[-1].test.f1 > 0.5
    assert records[-1].loss < records[0].loss / 3


def test_much_noise_learns_nothing(trained_settings):
    noisy = dataclasses.replace(SMALL, privacy=PrivacyConfig(noise_multiplier=50))
    assert list(simulate(noisy, trained_settings))[-1].test.f1 < 0.1


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_a_resumed_run_gives_identical_records(trained_settings, optimiser):
    config = dataclasses.replace(SMALL, training=dataclasses.replace(SMALL.training, optimiser=optimiser))
    checkpoints: list[Checkpoint] = []
    whole = list(simulate(config, trained_settings, on_checkpoint=checkpoints.append))
    for at in (0, 7, len(whole) - 2):
        rest = list(simulate(config, trained_settings, resume=checkpoints[at]))
        assert list(map(without_time, rest)) == list(map(without_time, whole[at + 1 :]))


FEW_WEIGHTS = {
    "data_fraction": 0.05,
    "features": "shapes",
    "window": 1,
    "hidden_size": 8,
    "optimiser": "adam",
    "learning_rate": 0.1,
    "loss": "sum",
    "clip_norm": 0.1,
    "batch_size": 40,
    "epochs": 3.0,
    "averaging": 0.9,
    "well_formed": True,
}


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("tagger", ["linear-crf", "mlp-crf", "linear-softmax", "mlp-softmax"])
def test_small_taggers_learn_under_dp_and_resume(trained_settings, tagger):
    config = SimulationConfig.from_flat(FEW_WEIGHTS | {"tagger": tagger, "noise_multiplier": 0.5})
    checkpoints: list[Checkpoint] = []
    whole = list(simulate(config, trained_settings, on_checkpoint=checkpoints.append))
    assert whole[-1].test is not None
    assert whole[-1].test.f1 > 0.15
    assert whole[-1].noise_check is not None
    assert not whole[-1].noise_check.failed
    rest = list(simulate(config, trained_settings, resume=checkpoints[5]))
    assert list(map(without_time, rest)) == list(map(without_time, whole[6:]))


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("well_formed", [True, False])
def test_a_tagger_that_learns_bioes_is_scored_in_bio2(trained_settings, well_formed):
    """Gold counts do not depend on the training scheme, and predictions contain no E- or S-."""
    fields = FEW_WEIGHTS | {"tagger": "linear-crf", "noise_multiplier": 0.0, "well_formed": well_formed}
    models: list[Any] = []
    ours, usual = (
        list(simulate(SimulationConfig.from_flat(fields | {"scheme": name}), trained_settings, on_model=models.append))
        for name in ("bioes", "bio2")
    )
    assert ours[-1].test.f1 > 0.3
    for one, other in ((ours[-1].test, usual[-1].test), (ours[0].scores, usual[0].scores)):
        assert {kind: counts.gold for kind, counts in one.strict.items()} == {
            kind: counts.gold for kind, counts in other.strict.items()
        }
        assert {tag: counts.gold for tag, counts in one.token.items()} == {
            tag: counts.gold for tag, counts in other.token.items()
        }
    assert [len(model.tags) for model in models] == [17, 9]
    assert models[0].names == tuple({"E": "I", "S": "B"}.get(tag[0], tag[0]) + tag[1:] for tag in models[0].tags)


def test_scores_use_the_averaged_weights(trained_settings):
    fields = FEW_WEIGHTS | {"tagger": "linear-crf", "noise_multiplier": 4.0}
    configs = [SimulationConfig.from_flat(fields | {"averaging": decay}) for decay in (0.9, 0.0)]
    secrets = Secrets.seeded(0, "both")
    averaged, last = (list(simulate(config, trained_settings, secrets=secrets)) for config in configs)
    assert averaged[-1].loss == last[-1].loss  # training is identical
    assert averaged[-1].scores != last[-1].scores


def test_clients_average_rounds(trained_settings):
    fields = FEW_WEIGHTS | {"tagger": "linear-crf", "noise_multiplier": 0.5, "clients": 2, "rounds": 3, "epochs": 1.0}
    checkpoints: list[Checkpoint] = []
    config = SimulationConfig.from_flat(fields)
    whole = list(simulate(config, trained_settings, on_checkpoint=checkpoints.append))
    share = checkpoints[-1].arrays["average weight"][0]
    assert share == pytest.approx(1 - 0.9**3)
    rest = list(simulate(config, trained_settings, resume=checkpoints[0]))
    assert list(map(without_time, rest)) == list(map(without_time, whole[1:]))


@pytest.mark.contract
@pytest.mark.repeats
def test_both_back_ends_learn_the_same(trained_settings):
    """Samples and noise are equal; only rounding differs, and a long run would amplify it."""
    compiled, reference = (
        list(simulate(SMALL, dataclasses.replace(trained_settings, backend=name))) for name in BACKENDS
    )
    for ours, theirs in zip(compiled, reference, strict=True):
        assert ours.privacy == theirs.privacy
        assert ours.examples_seen == theirs.examples_seen
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-3)
        assert ours.gradient_norm_max == pytest.approx(theirs.gradient_norm_max, rel=1e-2)


def test_two_seeds_differ_and_one_seed_does_not(trained_settings):
    config = SimulationConfig.from_flat(FEW_WEIGHTS | {"tagger": "linear-crf", "noise_multiplier": 0.5})
    first, again = (list(simulate(config, trained_settings)) for _ in range(2))
    other = list(simulate(dataclasses.replace(config, seed=1), trained_settings))
    assert list(map(without_time, first)) == list(map(without_time, again))
    assert first[-1].loss != other[-1].loss


def test_overlap_with_the_features_training_data_gives_infinite_epsilon(trained_settings, monkeypatch):
    """The features themselves take a minute, so word vectors replace them here."""
    fitted = corpus.resolve("synthetic", trained_settings).load().train[7].tokens
    config = dataclasses.replace(SMALL, features="contextual")
    arrays = prepare(SMALL, trained_settings).sides[0].encoded
    monkeypatch.setattr("engine.embeddings.encode", lambda *_: arrays)
    before = next(simulate(config, trained_settings))
    assert 0 < before.privacy.epsilon < 9
    shutil.rmtree(trained_settings.home / "overlaps")
    contamination._read.cache_clear()
    monkeypatch.setattr(contamination, "fitted_on", lambda part: contamination.checksums([fitted]))
    after = next(simulate(config, trained_settings))
    assert math.isinf(after.privacy.epsilon)
    assert "1 of 4,400 training" in after.privacy.assumptions[0]
    assert after.scores == before.scores
    assert next(simulate(SMALL, trained_settings)).privacy == before.privacy  # word vectors do not overlap


def test_a_run_stops_on_request(trained_settings):
    told: list[bool] = []
    run = simulate(SMALL, trained_settings, stop=lambda: bool(told))
    next(run)
    told.append(True)
    with pytest.raises(RunStopped):
        next(run)


def test_invalid_configurations_are_refused(trained_settings):
    refused = [
        (dataclasses.replace(SMALL, corpus="nowhere"), CorpusError, "corpus='nowhere'"),
        (dataclasses.replace(SMALL, data_fraction=1e-6), InvalidConfig, "data_fraction=1e-06 leaves none"),
        (dataclasses.replace(SMALL, embeddings="en_core_web_xl"), VectorsMissing, "embeddings='en_core_web_xl'"),
        (
            dataclasses.replace(SMALL, training=TrainingConfig(batch_size=221)),
            InvalidConfig,
            "batch_size=221, expected at most the 220",
        ),
    ]
    for config, kind, words in refused:
        with pytest.raises(kind) as error:
            next(simulate(config, trained_settings))
        assert words in str(error.value)


@pytest.mark.parametrize("steps", [1, 2, 7, 20, 55, 4390])
def test_report_steps_are_dense_early_and_include_the_last(steps):
    due = report_steps(steps)
    assert due == sorted(set(due))
    assert due[-1] == steps
    assert len(due) == min(steps, len(due))
    assert len(due) >= min(steps, 20)
    assert due[0] <= max(1, steps // 100)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.repeats
def test_compilation_is_reported_as_a_stage(trained_settings, monkeypatch, fresh):
    monkeypatch.setattr("engine.training.compile_cache.is_fresh", lambda: fresh)
    stages = []
    next(simulate(SMALL, trained_settings, on_stage=lambda stage, progress: stages.append(stage)))
    assert any("compiling" in stage for stage in stages) is not fresh


def test_a_run_waits_for_required_components_and_reports_it(trained_settings, tmp_path, monkeypatch):
    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    parts = (setup_status.VECTORS, setup_status.TRAINING, setup_status.TENSORFLOW, setup_status.LANGUAGE_MODEL)
    stages = []

    def on_stage_report(stage, progress):
        stages.append(stage)
        if "waiting" in stage:
            setup_status.tell(Progress(parts=parts, over=len(stages)))

    with setup_status.alone(lambda: None):
        setup_status.tell(Progress(parts=parts))
        next(simulate(SMALL, trained_settings, on_stage=on_stage_report))
    first, second, third, *_ = stages
    assert all(part in first for part in ("waiting", " 0 of 4 parts", "word vectors"))
    assert all(part in second for part in ("waiting", " 1 of 4 parts", "training step"))
    assert third.startswith("reading the corpus")


@pytest.mark.parametrize(
    ("config", "backend", "part"),
    [
        (dataclasses.replace(SMALL, features="contextual"), "compiled", setup_status.LANGUAGE_MODEL),
        (SMALL, "tensorflow", setup_status.TENSORFLOW),
    ],
)
def test_a_run_waits_for_what_its_features_and_its_back_end_need(
    settings, tmp_path, monkeypatch, config, backend, part
):
    class StageReported(Exception):
        """Enough stages were reported."""

    def on_stage_report(stage, progress):
        raise StageReported(stage)

    monkeypatch.setattr(setup_status, "FOLDER", tmp_path)
    setup_status.tell(Progress(parts=(setup_status.VECTORS, part), over=1))
    run = simulate(config, dataclasses.replace(settings, backend=backend), on_stage=on_stage_report)
    with setup_status.alone(lambda: None), pytest.raises(StageReported, match=f"now: {part}"):
        next(run)


def federated(config: SimulationConfig = SMALL, **federation) -> SimulationConfig:
    return dataclasses.replace(config, federation=FederationConfig(**federation))


def test_a_federated_run_reports_rounds_and_bytes(trained_settings):
    records = list(simulate(federated(clients=4, rounds=3), trained_settings))
    assert [record.federation.round for record in records] == [1, 2, 3]
    assert [record.test is not None for record in records] == [False, False, True]
    assert records[-1].step == records[-1].steps_total == 3 * 4 * 14  # 55 sentences each, 8 a step, 2 epochs
    size = records[0].federation.bytes_up // 4 // 4
    assert [record.federation.bytes_down for record in records] == [4 * 4 * size * done for done in (1, 2, 3)]
    assert all(record.federation.clients == (0, 1, 2, 3) for record in records)
    assert all(record.federation.drift > 0 for record in records)
    assert not records[-1].noise_check.failed
    assert records[-1].noise_check.steps == records[-1].step
    # A client's shard is smaller, so it costs more than the same steps on all data.
    assert records[0].privacy.epsilon > epsilon(PrivacyPlan.from_config(SMALL, 220), 55)


@pytest.mark.repeats(after=2)
@pytest.mark.parametrize(
    "federation",
    [
        {"clients": 3, "rounds": 4, "participants": 2},
        {"clients": 2, "rounds": 5, "schedule": "incremental"},
        {"clients": 1, "rounds": 3},
    ],
)
def test_a_resumed_federated_run_gives_identical_records(trained_settings, federation):
    config = federated(**federation)
    checkpoints: list[Checkpoint] = []
    whole = list(simulate(config, trained_settings, on_checkpoint=checkpoints.append))
    for at in (0, len(whole) // 2, len(whole) - 2):
        rest = list(simulate(config, trained_settings, resume=checkpoints[at]))
        assert list(map(without_time, rest)) == list(map(without_time, whole[at + 1 :]))


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
def test_client_level_mechanisms_run(trained_settings, mechanism):
    config = dataclasses.replace(
        federated(clients=10, rounds=6, participants=5),
        privacy=PrivacyConfig(mechanism=mechanism, noise_multiplier=1.0),
    )
    records = list(simulate(config, trained_settings))
    last = records[-1]
    assert last.privacy.unit.startswith("one client")
    assert last.noise_check.unit == "client"
    assert not last.noise_check.failed
    assert last.noise_check.noise_std == pytest.approx(1.5, rel=0.05)
    assert [record.privacy.epsilon for record in records] == sorted(record.privacy.epsilon for record in records)


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("schedule", ["averaging", "incremental"])
def test_rounds_without_participants_are_reported_and_composed(trained_settings, schedule):
    found = corpus.resolve("synthetic", trained_settings)
    config = dataclasses.replace(
        federated(clients=3, rounds=8, participants=1, schedule=schedule),
        privacy=PrivacyConfig(mechanism="dp-fedavg", noise_multiplier=2.0),
    )
    for seed in range(200):  # until rounds at the start, in the middle and at the end have no participant
        config = dataclasses.replace(config, seed=seed)
        visits = plan_of(config, found).rounds
        if not (visits[0] or visits[-1] or all(visits[2:-1])):
            break
    checkpoints: list[Checkpoint] = []
    records = list(simulate(config, trained_settings, on_checkpoint=checkpoints.append))
    joined = [len(record.federation.clients) for record in records]
    assert joined == list(map(len, visits))
    assert [record.round for record in records] == list(range(8))
    assert [record.federation.round for record in records] == list(range(1, 9))
    epsilons = [record.privacy.epsilon for record in records]
    assert epsilons == sorted(set(epsilons))
    assert [record.final for record in records] == [False] * 7 + [True]
    empty = joined.index(0, 2)
    rest = list(simulate(config, trained_settings, resume=checkpoints[empty]))
    assert list(map(without_time, rest)) == list(map(without_time, records[empty + 1 :]))


@pytest.mark.repeats
def test_without_noise_a_federation_learns(trained_settings):
    central = SimulationConfig(
        data_fraction=0.3,
        training=TrainingConfig(optimiser="adam", learning_rate=0.005, epochs=3),
        privacy=PrivacyConfig(noise_multiplier=0),
    )
    config = federated(central, clients=3, rounds=3)
    records = list(simulate(config, trained_settings))
    assert records[-1].test.f1 > 0.5
    assert records[-1].test.f1 > records[0].scores.f1


def test_progress_of_features_has_the_time_left_after_two_seconds():
    times, told = iter([0.0, 10.0, 11.0, 13.0, 110.0]), []
    progress = FeatureProgress(told.append, lambda: next(times))
    for share in (0.0, 0.1, 0.15, 0.25, 0.4):
        progress(share)
    start = "computing contextual features, once for this corpus"
    assert told == [
        f"{start}: 0%",  # another run computes them, or the language model is loaded
        f"{start}: 10%",
        f"{start}: 15%",
        f"{start}: 25%, about 15 s left",
        f"{start}: 40%, about 3 min left",
    ]
