"""FedSGD (FedNER, algorithm 1 and Eq. 2): against the formula in float64 and central training, and its privacy."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from engine import corpus
from engine.config import SimulationConfig, TrainingConfig
from engine.corpus.tag_schemes import from_bioes
from engine.errors import InvalidConfig, TrainingFailed
from engine.federated.accounting import privacy_spent
from engine.federated.fedavg import Federation
from engine.federated.fedsgd import GradientFederation, Upload
from engine.federated.plan import FederatedPlan, LocalTraining
from engine.privacy import accounting
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Seeds
from engine.simulation.run import simulate
from engine.simulation.setup import prepare
from engine.training import dpsgd
from engine.training.batches import batch_of
from engine.training.checkpoint import Checkpoint
from engine.training.dpsgd import DPSGD, StepStatistics
from engine.training.optimisers import Optimiser
from tests.engine.federated.silos import FLAT, SIZES, TAGS, federation, tagger

PLAIN: dict[str, Any] = {"schedule": "gradients", "rounds": 1, "noise_multiplier": 0.0, "clip_norm": None}
STEPS = round(2 * sum(SIZES) / 8)


def after(run: Federation, rounds: int, done: int = 0) -> Federation:
    for progress in run.train(done):
        if progress.round == rounds - 1:
            break
    return run


class Adam:
    """Adam by its definition (Kingma and Ba 2015, algorithm 1), in float64."""

    def __init__(self, size: int) -> None:
        self.m, self.v, self.t = np.zeros(size), np.zeros(size), 0

    def move(self, gradient: np.ndarray) -> np.ndarray:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        return self.m / (1 - 0.9**self.t) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)


def by_equation_2(start: Federation, shares: np.ndarray, optimiser: str, steps: int) -> np.ndarray:
    """Return all weights after a number of steps with learning rate 0.02, computed per sentence in float64.

    Args:
        start: The federation before its first step.
        shares: Share of each silo in the sum.
        optimiser: ``sgd`` or ``adam``.
        steps: Number of steps.
    """
    weights = start.weights.astype(np.float64)
    common = start.holdings[0].shared
    movers = [
        Adam(common),
        *(Adam(holding.private_slice.stop - holding.private_slice.start) for holding in start.holdings),
    ]
    for step in range(steps):
        joined = np.zeros(common)
        for number, (holding, share, mover) in enumerate(zip(start.holdings, shares, movers[1:], strict=True)):
            learner = start.learner(LocalTraining(number, number, step, 1))
            sentences = learner.sample(step)
            own = np.concatenate([weights[:common], weights[holding.private_slice]]).astype(np.float32)
            total = np.zeros(own.size)
            for each in sentences:
                alone = batch_of(learner.split, holding.table, each[None])
                total += holding.backend.clipped_gradient(own, alone, None).total
            gradient = total / start.plan.parts[number].batch_size
            joined += share * gradient[:common]
            gradient = gradient[common:]
            weights[holding.private_slice] -= 0.02 * (mover.move(gradient) if optimiser == "adam" else gradient)
        weights[:common] -= 0.02 * (movers[0].move(joined) if optimiser == "adam" else joined)
    return weights


@pytest.mark.parametrize("weighting", ["examples", "equal"])
@pytest.mark.parametrize("shared", [None, "nothing", "lstm,scores"])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_three_steps_equal_equation_2(optimiser: str, shared: str | None, weighting: str) -> None:
    tags = (4, 4, 4) if shared == "lstm,scores" else TAGS
    changes = {**PLAIN, "optimiser": optimiser, "shared": shared, "weighting": weighting, "learning_rate": 0.02}
    run = after(federation(tags, **changes), 3)
    start = federation(tags, **changes)
    shares = np.array(SIZES if weighting == "examples" else (1, 1, 1)) / (sum(SIZES) if weighting == "examples" else 3)
    weights = by_equation_2(start, shares, optimiser, 3)
    np.testing.assert_allclose(run.weights, weights, rtol=2e-4, atol=2e-6)
    assert np.abs(run.weights - start.weights).max() > 0.002


def test_sharing_all_layers_equals_fedavg_with_one_step_per_round() -> None:
    """With SGD, the mean of weights after one step is one step of the mean gradient (McMahan et al. 2017)."""
    changes = {"noise_multiplier": 0.0, "clip_norm": None, "shared": "lstm,scores", "optimiser": "sgd"}
    gradients = federation((4, 4, 4), **PLAIN | changes)
    rounds = 3
    averaging = federation((4, 4, 4), **changes, rounds=rounds)
    for number, (part, batch) in enumerate(zip(averaging.plan.parts, gradients.plan.parts, strict=True)):
        # One step with the same batches each round, instead of the epochs of the averaging schedule.
        assert (part.examples, part.noise_multiplier) == (batch.examples, batch.noise_multiplier)
        assert averaging.plan.parts_of(number) == gradients.plan.parts_of(number)
    averaging.plan = dataclasses.replace(
        averaging.plan, parts=gradients.plan.parts, rounds=gradients.plan.rounds[:rounds]
    )
    averaging._server.plan = averaging.plan
    start = averaging.weights.copy()
    after(gradients, rounds)
    after(averaging, rounds)
    np.testing.assert_allclose(averaging.weights, gradients.weights, rtol=1e-5, atol=1e-7)
    assert np.abs(averaging.weights - start).max() > 0.002


def test_one_silo_equals_central_training() -> None:
    three = federation(**PLAIN)
    holding = dataclasses.replace(
        three.holdings[0], private_slice=slice(three.holdings[0].shared, tagger(TAGS[0]).size)
    )
    part = dataclasses.replace(three.plan.parts[0], steps=5)
    plan = FederatedPlan(
        parts=(part,),
        chosen=np.arange(SIZES[0]),
        sentences=(np.arange(SIZES[0]),),
        shards=(np.arange(SIZES[0]),),
        rounds=tuple((LocalTraining(0, 0, step, 1),) for step in range(5)),
        server=None,
    )
    first = tagger(TAGS[0]).initial_weights(np.random.default_rng(3))
    training = TrainingConfig(optimiser="adam", learning_rate=0.01)
    together = GradientFederation(
        plan,
        [holding],
        first.copy(),
        training,
        seeds=Seeds(0),
        secrets=None,  # no noise
    )
    for _ in together.train():
        pass
    alone, optimiser = first.copy(), Optimiser(training, first.size)
    learner = DPSGD(holding.backend, part, optimiser, Seeds(0).of(part=0), holding.split, holding.table, alone)
    for step in range(5):
        learner.step(step)
    np.testing.assert_array_equal(together.weights, alone)
    assert not np.array_equal(alone, first)


def test_batches_are_proportional_and_a_round_is_a_step() -> None:
    plan = federation(**PLAIN).plan
    assert [part.batch_size for part in plan.parts] == [3, 2, 4]
    assert [part.steps for part in plan.parts] == [STEPS] * 3
    assert len(plan.rounds) == STEPS
    assert plan.steps == 3 * STEPS


def test_uploads_contain_gradients_of_shared_layers_only() -> None:
    run = federation(**PLAIN)
    assert isinstance(run, GradientFederation)
    ends = [progress.exchange for progress in run.train() if progress.exchange]
    assert [end.bytes_up for end in ends] == [4 * 3 * run.holdings[0].shared] * STEPS
    assert not any(upload.sent[run.holdings[0].shared :].any() for upload in run.uploads)
    nothing = federation(**PLAIN, shared="nothing")
    assert {progress.exchange.bytes_up for progress in nothing.train() if progress.exchange} == {0}


@pytest.mark.parametrize(("together", "moment"), [(STEPS, 7), (5, 3), (5, 5), (5, 7)])
def test_a_resumed_run_equals_the_whole_run(together: int, moment: int) -> None:
    changes = {**PLAIN, "noise_multiplier": 1.0, "clip_norm": 0.4, "optimiser": "adam", "averaging": 0.5}
    changes["together"] = together / STEPS
    whole = after(federation(**changes), STEPS)
    half = after(federation(**changes), moment)
    state = {name: array.copy() for name, array in half.state.items()}
    resumed = federation(**changes)
    resumed.restore(state)
    after(resumed, STEPS, moment)
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    np.testing.assert_array_equal(resumed.average.weights, whole.average.weights)
    assert [one.verdict() for one in resumed.monitors] == [one.verdict() for one in whole.monitors]
    assert not any(one.verdict().failed for one in resumed.monitors)


def test_a_checkpoint_without_noise_check_state_resumes() -> None:
    """Older checkpoints do not record which weights moved between updates; that check starts afresh."""
    changes = {**PLAIN, "noise_multiplier": 1.0, "clip_norm": 0.4}
    half, resumed = after(federation(**changes), 3), federation(**changes)
    resumed.restore({name: array.copy() for name, array in half.state.items() if not name.endswith("/touched")})
    after(resumed, 5, 3)
    assert not any(one.verdict().failed for one in resumed.monitors)
    np.testing.assert_array_equal(resumed.weights, after(federation(**changes), 5).weights)


def test_sabotage_of_the_private_head_between_steps_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between steps, the server moves the shared layers; the private head must not move."""
    original = DPSGD.step

    def moves_weights(self: DPSGD, step: int) -> StepStatistics:
        self.weights[-1] += np.float32(0.01) * bool(step)
        return original(self, step)

    monkeypatch.setattr(DPSGD, "step", moves_weights)
    run = after(federation(**{**PLAIN, "noise_multiplier": 1.0, "clip_norm": 0.4}), 2)
    for one in run.monitors:
        assert "optimiser's moments" in " ".join(one.verdict().faults)


def test_infinite_shared_weights_raise_training_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    run, move = federation(**PLAIN), Optimiser.move

    def explode(self: Optimiser, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        move(self, weights, gradient, step)
        if self is run.optimiser:
            weights[:] = np.inf

    monkeypatch.setattr(Optimiser, "move", explode)
    with pytest.raises(TrainingFailed, match=rf"shared weights .*\bfinite.* step 1 of {STEPS}\b"):
        after(run, 1)


def test_a_failed_silo_raises_training_failed_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silos wait for each other at each step, so leaving one out would change the training."""
    run, step = federation(**PLAIN), DPSGD.step
    assert isinstance(run, GradientFederation)

    def failing(self: DPSGD, number: int) -> Any:
        if self.optimiser is run.uploads[1] and number == 4:
            self.weights[:] = np.nan
        return step(self, number)

    monkeypatch.setattr(DPSGD, "step", failing)
    with pytest.raises(TrainingFailed, match=rf"^Silo 2 of 3: .*\bfinite.* step 5 of {STEPS}\b"):
        after(run, STEPS)


class TestPrivacyOfSentences:
    """Each silo clips and adds noise to the gradient of all its weights, and sends the shared part."""

    CHANGES: ClassVar = {**PLAIN, "noise_multiplier": 1.0, "clip_norm": 0.4, "epochs": 40.0}

    @staticmethod
    def checked(run: Federation) -> Iterator[Any]:
        for _ in run.train():
            pass
        return (monitor.verdict() for monitor in run.monitors)

    def test_epsilon_of_a_silo_counts_its_steps(self) -> None:
        plan = federation(**self.CHANGES).plan
        steps = len(plan.rounds)
        for number, (size, batch) in enumerate(zip(SIZES, (3, 2, 4), strict=True)):
            expected = PrivacyPlan(
                examples=size,
                batch_size=batch,
                steps=steps,
                noise_multiplier=1.0,
                clip_norm=0.4,
                delta=1e-5,
                sampling="poisson",
            )
            spent = privacy_spent(plan, plan.steps, steps, number)
            assert spent.epsilon == accounting.epsilon(expected, steps)

    @pytest.mark.repeats(after=1)
    @pytest.mark.parametrize("optimiser", ["adam", "sgd", "momentum"])
    def test_correct_silos_pass_the_noise_check(self, optimiser: str) -> None:
        rate = 0.3 if optimiser == "sgd" else 0.01
        run = federation(**self.CHANGES | {"optimiser": optimiser, "learning_rate": rate})
        checks = list(self.checked(run))
        assert all(check.passed for check in checks), [check.faults for check in checks]
        assert [check.steps for check in checks] == [len(run.plan.rounds)] * 3

    def test_sabotage_without_noise_in_uploads_is_detected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Only the private head has noise."""
        original = dpsgd.add_gaussian_noise

        def sabotage(total: np.ndarray, stream: Any, std: float) -> None:
            clean = total[: tagger(4).shared.stop].copy()
            original(total, stream, std)
            total[: tagger(4).shared.stop] = clean

        monkeypatch.setattr(dpsgd, "add_gaussian_noise", sabotage)
        assert all(check.failed for check in self.checked(federation(**self.CHANGES)))

    @pytest.mark.repeats
    def test_sabotage_without_noise_in_the_private_head_is_detected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The upload has noise, but the private head learns from the clipped sum without noise."""
        original, move, clean = dpsgd.add_gaussian_noise, Upload.move, {}

        def record_sum(total: np.ndarray, stream: Any, std: float) -> None:
            clean["sum"] = total.copy()
            original(total, stream, std)

        def moves_without_noise(self: Upload, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
            gradient[self.first :] = clean["sum"][self.first :] / np.float32(4)
            move(self, weights, gradient, step)

        monkeypatch.setattr(dpsgd, "add_gaussian_noise", record_sum)
        monkeypatch.setattr(Upload, "move", moves_without_noise)
        assert all(check.failed for check in self.checked(federation(**self.CHANGES)))

    @pytest.mark.repeats
    def test_sabotage_that_uploads_the_clean_sum_is_detected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The upload is the clipped sum without noise, while the silo itself learns with noise."""
        original, move, clean = dpsgd.add_gaussian_noise, Upload.move, {}

        def record_sum(total: np.ndarray, stream: Any, std: float) -> None:
            clean["sum"] = total.copy()
            original(total, stream, std)

        def leak(self: Upload, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
            move(self, weights, gradient, step)
            self.sent[: self.first] = clean["sum"][: self.first] / np.float32(4)

        monkeypatch.setattr(dpsgd, "add_gaussian_noise", record_sum)
        monkeypatch.setattr(Upload, "move", leak)
        assert all(check.failed for check in self.checked(federation(**self.CHANGES)))


class TestConfiguration:
    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"rounds": 3}, "rounds=3, expected a whole number from 1 to 1"),
            ({"mechanism": "local"}, "schedule='gradients', expected 'averaging', since mechanism='local'"),
            ({"mechanism": "dp-fedavg"}, "expected 'averaging', since mechanism='dp-fedavg'"),
            ({"clients": 3, "participants": 2}, "participants=2, expected none"),
            ({"corpus": "a"}, "schedule='gradients', expected 'averaging', since clients=1"),
            (
                {"corpus": "a", "clients": 3, "shared": "lstm"},
                "shared='lstm', expected none: clients with parts of one",
            ),
            ({"shared": " "}, "shared=' '"),
        ],
    )
    def test_incompatible_fields_are_refused(self, changes: dict[str, Any], sentence: str) -> None:
        with pytest.raises(InvalidConfig, match=sentence):
            SimulationConfig.from_flat(FLAT | {"schedule": "gradients", "rounds": 1, "noise_multiplier": 1.0} | changes)

    def test_shared_names_layers_and_words_is_ignored(self) -> None:
        named = [
            SimulationConfig.from_flat(FLAT | {"shared": shared}).federation.shared_parts
            for shared in (None, "nothing", "words", "words, lstm", "lstm,scores")
        ]
        assert named == [None, (), (), ("lstm",), ("lstm", "scores")]

    def test_a_layer_that_the_tagger_lacks_is_refused(self) -> None:
        with pytest.raises(InvalidConfig, match=r"shared='convolution',.* lstm, scores"):
            federation(shared="convolution")


class TestSimulation:
    @pytest.fixture
    def config(self, tmp_path: Any) -> SimulationConfig:
        lines = [f"Dose O\n{w} B-Drug\n5 B-Amount\nmg I-Amount\n\n" for w in ("Aspirin", "Zinc", "Iron", "Salt") * 30]
        file = tmp_path / "drugs.conll"
        file.write_text("".join(lines))
        flat = {"corpus": f"synthetic + {file}", "data_fraction": 0.05, "epochs": 4.0, "hidden_size": 8}
        more = {"batch_size": 16, "tagger": "cnn-clstm-crf", "dropout": 0.2, "schedule": "gradients"}
        return SimulationConfig.from_flat(flat | more | {"shared": "characters,convolution"})

    @pytest.mark.repeats
    def test_records_silos_and_resumes(self, config: SimulationConfig, trained_settings: Any) -> None:
        checkpoints: list[Checkpoint] = []
        models: list[Any] = []
        whole = list(simulate(config, trained_settings, on_checkpoint=checkpoints.append, on_model=models.append))
        last = whole[-1]
        assert last.federation.round == last.federation.rounds > 10
        assert all(platform.noise_check.passed for platform in last.platforms)
        assert [platform.name for platform in last.platforms] == list(config.platforms)
        first, second = models
        assert np.array_equal(first.weights[first.tagger.shared], second.weights[first.tagger.shared])
        rest = list(simulate(config, trained_settings, resume=checkpoints[3]))
        assert [dataclasses.replace(record, seconds=0.0) for record in rest] == [
            dataclasses.replace(record, seconds=0.0) for record in whole[4:]
        ]

    def test_shared_characters_and_convolution_equal_equation_2(
        self, config: SimulationConfig, trained_settings: Any
    ) -> None:
        """The split layer of the paper on the real tagger. Batches are the only randomness."""
        still = {"dropout": 0.0, "optimiser": "sgd", "learning_rate": 0.02, "noise_multiplier": 0.0, "clip_norm": None}
        flat = SimulationConfig.from_flat(config.flat() | still)
        run, start = (prepare(flat, trained_settings).run for _ in range(2))
        sizes = np.array([len(shard) for shard in start.plan.shards])
        weights = by_equation_2(start, sizes / sizes.sum(), "sgd", 2)
        after(run, 2)
        np.testing.assert_allclose(run.weights, weights, rtol=2e-4, atol=2e-6)
        tagger = prepare(flat, trained_settings).sides[0].tagger
        shared = {node.part for node, kept in zip(tagger.nodes, tagger.private, strict=False) if not kept}
        assert {"characters", "convolution"} <= shared
        assert run.holdings[0].shared == tagger.shared.stop > 0
        assert np.abs(run.weights - start.weights)[: tagger.shared.stop].max() > 1e-4

    @pytest.mark.parametrize("scheme", ["bio2", "bioes"])
    def test_shared_scores_have_the_entity_types_of_all_silos(
        self, config: SimulationConfig, trained_settings: Any, scheme: str
    ) -> None:
        federation_config = dataclasses.replace(config.federation, shared="characters,convolution,lstm,scores")
        tagger = dataclasses.replace(config.tagger, scheme=scheme)
        prepared = prepare(dataclasses.replace(config, federation=federation_config, tagger=tagger), trained_settings)
        own = [part.tags for part in (each.load() for each in corpus.resolve(config.corpus, trained_settings).parts)]
        assert own[0] != own[1]
        for side, tags in zip(prepared.sides, own, strict=True):
            names = from_bioes(side.encoded.tags)
            assert len(names) == 1 + (2 if scheme == "bio2" else 4) * (len(set(own[0]) | set(own[1])) // 2)
            assert set(names) == set(own[0]) | set(own[1])
            assert {names[number] for number in np.unique(side.encoded.train.tags)} <= set(tags)
        first, second = (side.holding.weights(prepared.run.weights) for side in prepared.sides)
        assert np.array_equal(first, second)  # all weights are equal
        assert len(first) == len(prepared.run.weights)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_parted_silos_continue_separately_with_their_moments(optimiser: str) -> None:
    """Before parting, training is unchanged; then each silo trains on its own sentences with its moments."""
    changes = {**PLAIN, "optimiser": optimiser, "learning_rate": 0.02}
    rounds = len(federation(**changes).plan.rounds)
    whole, parted = after(federation(**changes), 5), federation(**changes, together=5 / rounds)
    assert parted.plan.joint_fraction == 5
    after(parted, 5)
    shared = whole.holdings[0].shared
    for one, other in zip(whole.holdings, parted.holdings, strict=True):
        np.testing.assert_array_equal(one.weights(whole.weights), other.weights(parted.weights))
    assert isinstance(whole, GradientFederation)
    expected = []
    for number, (holding, upload) in enumerate(zip(whole.holdings, whole.uploads, strict=True)):
        weights = holding.weights(whole.weights).copy()
        own = Optimiser(TrainingConfig(optimiser=optimiser, learning_rate=0.02), weights.size)
        for name, array in own.state.items():
            array[:] = upload.state[name]
            array[:shared] = whole.optimiser.state[name]
        plan = whole.plan.parts[number]
        learner = DPSGD(holding.backend, plan, own, Seeds(0).of(part=number), holding.split, holding.table, weights)
        for step in range(5, 8):
            learner.step(step)
        expected.append(weights)
    after(parted, 8, 5)
    for holding, weights in zip(parted.holdings, expected, strict=True):
        np.testing.assert_array_equal(holding.weights(parted.weights), weights)
    assert not np.array_equal(expected[0][:shared], expected[1][:shared])


def test_parted_silos_send_nothing() -> None:
    run = federation(**PLAIN, together=0.5)
    ends = [progress for progress in run.train() if progress.round is not None]
    parting = run.plan.joint_fraction
    assert parting
    assert [end.exchange is not None for end in ends] == [number < parting for number in range(STEPS)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"together": 0.0}, r"together=0\.0, expected a number in \(0, 1\]"),
        ({"together": 1.5}, "together=1.5"),
        ({"together": 0.5, "schedule": "averaging"}, "expected 1 with schedule='averaging'"),
        ({"together": 0.5, "shared": "nothing"}, "only clients that share layers can stop sharing them"),
        ({"together": 0.5, "corpus": "one", "clients": 3}, "only clients that share layers can stop sharing them"),
    ],
)
def test_incompatible_joint_fractions_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        federation(**{**PLAIN, **changes})
