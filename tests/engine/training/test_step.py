"""One training step compared with manual results: its draws, its gradients, and the input of the noise check."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from engine.config import TrainingConfig
from engine.embeddings import EncodedSplit
from engine.errors import TrainingFailed
from engine.privacy.mechanisms import add_gaussian_noise, poisson_sample, shuffled_batch
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.privacy.plan import PrivacyPlan
from engine.seeds import Secrets, Seeds
from engine.taggers.decoding import Decoder
from engine.training.batches import Batch
from engine.training.dpsgd import DPSGD, GradientSum, StepStatistics, finite_gradient, losses, planned_norm, predict
from engine.training.dropout import chances_of
from engine.training.optimisers import Optimiser

SIZE = 3000
TABLE = np.zeros((20, 3), dtype=np.float32)
SECRETS = Secrets.seeded(3, "run")
Patch = pytest.MonkeyPatch


class Gradients:
    """Each sentence has its own gradient, and its number as its loss."""

    def __init__(self, gradients: np.ndarray) -> None:
        self.gradients = gradients
        self.asked: list[tuple[float | None, bool]] = []

    def clipped_gradient(
        self, weights: np.ndarray, batch: Batch, clip_norm: float | None, by_layer: bool = False
    ) -> GradientSum:
        self.asked.append((clip_norm, by_layer))
        own = self.gradients[batch.sentences]
        norms = np.linalg.norm(own, axis=1)
        bound = np.inf if clip_norm is None else clip_norm
        total = (own * np.minimum(1, bound / norms)[:, None]).sum(0)
        return GradientSum(total, np.stack([0.6 * norms, 0.8 * norms]), batch.sentences.astype(float))

    def scores(self, weights: np.ndarray, batch: Batch) -> np.ndarray:
        return np.eye(4)[batch.tags] * weights[0]


class Linear(Gradients):
    """The gradient of sentence i is i · M · weights."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    def clipped_gradient(self, weights: np.ndarray, batch: Batch, *_: Any) -> GradientSum:
        norms = np.ones((1, len(batch.sentences)))
        return GradientSum(batch.sentences.sum() * (self.matrix @ weights.astype(np.float64)), norms, norms[0])


def split_of(lengths: list[int]) -> EncodedSplit:
    random, total = np.random.default_rng(0), sum(lengths)
    return EncodedSplit(
        random.integers(0, 20, total).astype(np.int32),
        random.integers(0, 4, total).astype(np.int16),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )


def plan_of(examples: int, batch_size: int, **chosen: Any) -> PrivacyPlan:
    values: dict = {"steps": 60, "noise_multiplier": 1.5, "clip_norm": 2.0, "delta": 1e-5, "sampling": "poisson"}
    return PrivacyPlan(examples=examples, batch_size=batch_size, **(values | chosen))


def learner(backend: Any, plan: PrivacyPlan, size: int, optimiser: str = "sgd", **more: Any) -> DPSGD:
    moved = Optimiser(TrainingConfig(optimiser=optimiser, learning_rate=0.5), size)
    streams = SECRETS if plan.private else Seeds(3)
    split = split_of([2] * plan.examples)
    return DPSGD(backend, plan, moved, streams, split, TABLE, np.zeros(size, dtype=np.float32), **more)


class Shown(NoiseMonitor):
    """A monitor that records its input."""

    def __init__(self, *arguments: Any, **kind: Any) -> None:
        super().__init__(*arguments, **kind)
        self.noise: list[tuple[int, np.ndarray, np.ndarray, list[np.ndarray]]] = []
        self.samples: list[tuple[np.ndarray, int]] = []
        self.keys: list[bytes | None] = []
        self.sums: list[tuple[np.ndarray, float, float]] = []
        self.planned: list[np.ndarray | None] = []

    def saw_noise(
        self, step: int, noise: np.ndarray, error: np.ndarray, directions: Any, key: bytes | None = None
    ) -> None:
        self.noise.append((step, noise.copy(), error.copy(), [each.copy() for each in directions]))
        self.keys.append(key)
        super().saw_noise(step, noise, error, directions, key)

    def saw_sample(self, sentences: np.ndarray, part: int = 0, key: bytes | None = None) -> None:
        self.samples.append((sentences.copy(), part))
        self.keys.append(key)
        super().saw_sample(sentences, part, key)

    def observe_sum(self, norms: np.ndarray, gap: float, unsure: Any, planned: np.ndarray | None = None) -> None:
        self.sums.append((norms.copy(), gap, unsure()))
        self.planned.append(planned)
        super().observe_sum(norms, gap, unsure, planned)


def noise_by_hand(step: int, size: int, std: float) -> np.ndarray:
    noise = np.zeros(size, dtype=np.float32)
    add_gaussian_noise(noise, SECRETS.stream("noise", step=step), std)
    return noise.astype(np.float64)


RANDOM = np.random.default_rng(5).standard_normal((40, SIZE)) * np.linspace(0.001, 0.1, 40)[:, None]
"""Gradients of 40 sentences with norms from 0.05 to 5.5: with C = 2, more than half of them are clipped."""


def clipped(sentences: np.ndarray, bound: float = 2.0) -> np.ndarray:
    own = RANDOM[sentences]
    return own * np.minimum(1, bound / np.linalg.norm(own, axis=1))[:, None]


@pytest.mark.parametrize("kind", [GradientSum, StepStatistics])
def test_step_results_are_immutable(kind: type) -> None:
    made = kind(*[np.zeros(1)] * len(dataclasses.fields(kind)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.losses = np.ones(1)


def test_norm_of_gradient_combines_its_layers() -> None:
    found = GradientSum(np.zeros(1), np.array([[3.0, 0.0, 2.0], [4.0, 1.0, 3.0], [0.0, 0.0, 6.0]]), np.zeros(3))
    assert found.norms.tolist() == [5.0, 1.0, 7.0]


@pytest.mark.parametrize("first", [0, 7])
def test_private_step_applies_sum_and_noise(first: int, monkeypatch: Patch) -> None:
    """The noise depends on the step, and the optimiser counts from its first one."""
    plan, moved = plan_of(40, 10), []
    run = learner(Gradients(RANDOM), plan, SIZE, first=first)
    honest = run.optimiser.move
    monkeypatch.setattr(run.optimiser, "move", lambda *to: moved.append(to[2]) or honest(*to))
    statistics = run.step(9)
    sentences = poisson_sample(SECRETS.stream("sampling", step=9), 40, 0.25)
    assert 0 < len(sentences) < 40
    total = clipped(sentences).sum(0)
    np.testing.assert_allclose(run.weights, -0.5 * (total + noise_by_hand(9, SIZE, 3.0)) / 10, atol=1e-6)
    assert moved == [9 - first]
    assert sorted(statistics.losses) == sentences.tolist()
    assert statistics.signal == pytest.approx(np.linalg.norm(total), rel=1e-5)
    assert statistics.nonfinite == 0


def test_step_without_noise_applies_the_sum_only() -> None:
    plan = plan_of(40, 10, noise_multiplier=0.0)
    run = learner(Gradients(RANDOM), plan, SIZE)
    assert run.monitor is None
    run.step(4)
    sentences = poisson_sample(Seeds(3).stream("sampling", step=4), 40, 0.25)
    np.testing.assert_allclose(run.weights, -0.5 * clipped(sentences).sum(0) / 10, atol=1e-7)


def test_private_plans_get_a_noise_monitor() -> None:
    plan = plan_of(40, 10)
    run = learner(Gradients(RANDOM), plan, SIZE)
    assert run.monitor
    assert run.monitor.watch.plans == (plan,)
    assert run.monitor.watch.size == SIZE
    mine = NoiseMonitor([plan], SIZE)
    assert learner(Gradients(RANDOM), plan, SIZE, monitor=mine).monitor is mine
    assert (run.part, run.first) == (0, 0)


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_the_noise_check_receives_noise_sum_and_sample(optimiser: str) -> None:
    plans = [plan_of(25, 5), plan_of(40, 10)]
    monitor = Shown(plans, SIZE, secrets=SECRETS)
    run = learner(Gradients(RANDOM), plans[1], SIZE, optimiser, monitor=monitor, part=1, first=5)
    whole = 0
    for number, step in enumerate(range(5, 12)):
        run.step(step)
        monitor.finalize()
        where = monitor.watch.stretch(number)
        whole += where.stop - where.start == SIZE
        sentences = poisson_sample(SECRETS.stream("sampling", step=step), 40, 0.25)
        total, noise = clipped(sentences).sum(0), noise_by_hand(step, SIZE, 3.0)
        places = np.concatenate([np.arange(where.start, where.stop), monitor.watch.fixed])
        seen, found, error, directions = monitor.noise[number]
        assert seen == number
        np.testing.assert_allclose(found, noise[places], atol=1e-3)
        assert (np.abs(found - noise[places]) <= error + 1e-5).all()
        assert error.max() < 1e-3
        assert len(directions) == 1
        np.testing.assert_allclose(directions[0], total[places], atol=1e-5)
        assert directions[0].dtype == np.float64
        np.testing.assert_array_equal(monitor.samples[number][0], sentences)
        assert monitor.samples[number][1] == 1
        streams = [SECRETS.stream(name, step=step).key for name in ("noise", "sampling")]
        assert monitor.keys[2 * number : 2 * number + 2] == streams
    assert 0 < whole < 7
    assert monitor.verdict().faults == ()
    assert monitor.state["compared"].min() > 0
    assert monitor.steps_seen == 7


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_changes_between_two_updates_are_detected(optimiser: str) -> None:
    """Of all weights, the previously measured stretch and the fixed ones are compared."""
    plan = plan_of(40, 10, steps=640)
    run = learner(Gradients(RANDOM), plan, SIZE, optimiser)
    assert run.monitor
    watch, touched = run.monitor.watch, run.monitor.state["touched"]
    for step in range(3):
        run.step(step)
    assert touched.tolist() == [0, -1]
    where = watch.stretch(2)
    assert (where.start, where.stop) == (2000, SIZE)
    unseen = np.setdiff1d(np.arange(where.start), watch.fixed)[1]
    run.weights[unseen] += 1
    run.step(3)
    assert touched.tolist() == [0, -1]
    for step, (name, place) in enumerate(
        [(name, place) for name in ("weights", *run.optimiser.state) for place in ("first", "last", "fixed")], start=4
    ):
        before, where = touched.copy(), watch.stretch(step - 1)
        at = {"first": where.start, "last": where.stop - 1, "fixed": int(watch.fixed[-2])}[place]
        array = run.weights if name == "weights" else run.optimiser.state[name]
        array[at] = np.nextafter(array[at], np.float32(np.inf))
        run.step(step)
        assert touched.tolist() == [before[0] + 1, 4], (name, place)


def test_weights_of_others_may_change_between_updates() -> None:
    """The first 100, as defined at the end of the previous step."""
    plan = plan_of(40, 10)
    run = learner(Gradients(RANDOM), plan, SIZE)
    assert run.monitor
    run.optimiser.first = 100
    touched = run.monitor.state["touched"]
    assert run.monitor.watch.stretch(3) == slice(0, SIZE)
    run.step(0)
    run.weights[:100] += 1
    run.optimiser.first = 0
    run.step(1)
    assert touched.tolist() == [0, -1]
    run.step(2)
    run.optimiser.first = 100
    run.weights[int(run.monitor.watch.fixed[1])] += 1
    assert run.monitor.watch.fixed[1] < 100
    run.step(3)
    assert touched.tolist() == [1, 3]
    run.weights[100] += 1
    run.step(4)
    assert touched.tolist() == [2, 3]


def closely(run: DPSGD, more: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return a step's sample, and the reported norms, gap and rounding error when the sum is off by ``more``."""
    assert isinstance(run.monitor, Shown)
    sentences = run.sample(4)
    total = run.clipped_sum(sentences)[0] + np.asarray(more, dtype=np.float32)
    kept = total.copy()
    run._look_closely(run.monitor, 4, sentences, total)
    np.testing.assert_array_equal(total, kept)  # it must be unchanged
    return sentences, *run.monitor.sums[-1]


def test_sum_is_recomputed_from_groups_and_single_sentences() -> None:
    plan = plan_of(40, 38)
    monitor = Shown([plan], SIZE, secrets=SECRETS)
    run = learner(Gradients(RANDOM), plan, SIZE, monitor=monitor)
    sentences, norms, gap, _ = closely(run)
    groups = monitor.watch.groups(4, sentences)
    assert len(groups) >= 3
    np.testing.assert_allclose(norms, np.linalg.norm(clipped(groups[0]), axis=1), rtol=1e-5)
    np.testing.assert_allclose(monitor.planned[-1], norms, rtol=1e-5)
    assert gap < 1e-4
    off = np.zeros(SIZE)
    off[7] = 3.0
    assert closely(run, off)[2] == pytest.approx(3.0, rel=1e-4)


def test_sums_are_recomputed_at_the_sampled_steps() -> None:
    plan = plan_of(40, 20, steps=160)
    monitor = Shown([plan], 50, secrets=SECRETS)
    run = learner(Gradients(RANDOM[:, :50]), plan, 50, monitor=monitor)
    due = [step for step in range(160) if monitor.watch.looks_closely(step)]
    assert 1 < len(due) < 160
    for step in range(due[1] + 2):
        run.step(step)
        assert len(monitor.sums) == sum(each <= step for each in due)


def test_sum_is_compared_with_the_plan_of_its_part_and_all_layers() -> None:
    """C = 2 for three layers is 2 / √3 each; the sentences' gradients have norms in two of them."""
    plan = plan_of(40, 38, by_layer=True)
    layers = [(str(start), slice(start, start + 1000)) for start in (0, 1000, 2000)]
    monitor = Shown([plan_of(40, 38), plan], SIZE, layers=layers, secrets=SECRETS)
    run = learner(Gradients(RANDOM), plan, SIZE, monitor=monitor, part=1)
    sentences, *_ = closely(run)
    own = np.linalg.norm(RANDOM[monitor.watch.groups(4, sentences)[0]], axis=1)
    expected = np.hypot(np.minimum(0.6 * own, 2 / math.sqrt(3)), np.minimum(0.8 * own, 2 / math.sqrt(3)))
    np.testing.assert_allclose(monitor.planned[-1], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("clip_norm", "by_layer", "layers", "expected"),
    [
        (2.0, False, 2, 2.0),
        (10.0, False, 2, 5.0),
        (None, False, 2, 5.0),
        (None, True, 2, 5.0),
        (4.5, True, 2, math.hypot(3, 4.5 / math.sqrt(2))),
        (6.0, True, 3, math.hypot(3, 6 / math.sqrt(3))),
        (10.0, True, 2, 5.0),
    ],
)
def test_planned_norm_clips_whole_or_by_layer(
    clip_norm: float | None, by_layer: bool, layers: int, expected: float
) -> None:
    plan = plan_of(40, 10, clip_norm=clip_norm, by_layer=by_layer, noise_multiplier=0.0)
    assert planned_norm(np.array([[3.0], [4.0]]), plan, layers) == pytest.approx(expected)
    assert planned_norm(np.zeros((0, 0)), plan, layers) == 0.0


def test_empty_sum_is_recomputed(monkeypatch: Patch) -> None:
    plan = plan_of(40, 20)
    run = learner(Gradients(RANDOM), plan, SIZE, monitor=Shown([plan], SIZE, secrets=SECRETS))
    monkeypatch.setattr(run, "sample", lambda step: np.zeros(0, dtype=np.int64))
    _, norms, gap, unsure = closely(run)
    assert len(norms) == gap == unsure == 0


def test_unsure_is_change_of_sum_by_last_digits_of_weights() -> None:
    """Up at odd indices, down at even ones, by 2⁻²³ of each weight: the weights are 1 here, so float32 represents it
    exactly."""
    random = np.random.default_rng(1)
    matrix = random.integers(-3, 4, (6, 6)).astype(float)
    matrix[:, 0] -= matrix.sum(1) - 2.0**-10  # gradients are small at equal weights, to preserve digits
    plan = plan_of(40, 20)
    monitor = Shown([plan], 6, secrets=SECRETS)
    run = learner(Linear(matrix), plan, 6, monitor=monitor)
    run.weights[:] = 1
    sentences, _, _, unsure = closely(run)
    moved = sentences.sum() * 2.0**-23 * (matrix @ np.array([-1, 1, -1, 1, -1, 1]))
    assert np.linalg.norm(moved) > 0
    assert unsure == pytest.approx(np.linalg.norm(moved), rel=1e-3)


def test_samples_use_the_streams_of_their_step() -> None:
    poisson = learner(Gradients(RANDOM), plan_of(40, 10), SIZE)
    np.testing.assert_array_equal(poisson.sample(6), poisson_sample(SECRETS.stream("sampling", step=6), 40, 0.25))
    shuffled = learner(Gradients(RANDOM), plan_of(40, 12, sampling="shuffle"), SIZE)
    for step in (0, 3, 5):
        np.testing.assert_array_equal(shuffled.sample(step), shuffled_batch(SECRETS, 40, 12, step))


def test_dropout_state_depends_on_step_and_sentence() -> None:
    """53 bits of the stream of each step; a recomputed sum draws the same."""

    class Drawn(Gradients):
        def clipped_gradient(self, weights: np.ndarray, batch: Batch, *more: Any) -> GradientSum:
            drawn.append((batch.sentences, batch.chances))
            return super().clipped_gradient(weights, batch, *more)

    drawn: list[tuple[np.ndarray, np.ndarray | None]] = []
    run, seen = learner(Drawn(RANDOM), plan_of(40, 10), SIZE), set()
    for step in range(5):
        drawn.clear()
        run.step(step)
        bits = int(SECRETS.stream("dropout", step=step).random(1)[0] * 2**53)
        seen.add(bits)
        assert drawn
        for sentences, chances in drawn:
            np.testing.assert_array_equal(chances, chances_of(bits, sentences))
    assert len(seen) == 5


def test_sum_over_several_batches_equals_total_sum(monkeypatch: Patch) -> None:
    monkeypatch.setattr("engine.training.batches.MAX_TOKENS", 6)  # three sentences
    gradients = RANDOM.copy()
    gradients[[4, 6, 7, 8, 20]] = np.nan
    backend = Gradients(gradients)
    run = learner(backend, plan_of(40, 10, by_layer=True), SIZE)
    sentences = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 20, 39])
    total, found = run.clipped_sum(sentences)
    finite = np.array([0, 1, 2, 3, 5, 39])
    np.testing.assert_allclose(total, clipped(finite).sum(0), atol=1e-6)
    assert total.dtype == np.float32
    assert found.losses.tolist() == finite.tolist()
    np.testing.assert_allclose(found.norms, np.linalg.norm(RANDOM[finite], axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.parts, np.outer([0.6, 0.8], found.norms), rtol=1e-6)
    assert found.nonfinite == 5
    assert found.signal == pytest.approx(np.linalg.norm(total))
    assert set(backend.asked) == {(2.0, True)}


def test_sum_over_no_sentences_is_zero() -> None:
    total, found = learner(Gradients(RANDOM), plan_of(40, 10), SIZE).clipped_sum(np.zeros(0, dtype=np.int64))
    assert not total.any()
    assert (found.norms.shape, found.parts.shape, found.losses.shape) == ((0,), (0, 0), (0,))
    assert (found.nonfinite, found.signal) == (0, 0.0)


def test_sum_is_computed_at_the_given_weights() -> None:
    run = learner(Linear(np.eye(3)), plan_of(40, 10), 3)
    run.weights[:] = [1, 2, 3]
    assert run.clipped_sum(np.array([1, 4]))[0].tolist() == [5, 10, 15]
    assert run.clipped_sum(np.array([1, 4]), np.array([2, 0, 0], dtype=np.float32))[0].tolist() == [10, 0, 0]


def test_sentences_with_non_finite_gradients_are_excluded() -> None:
    gradients, plan = RANDOM.copy(), plan_of(40, 10, by_layer=True)
    gradients[[1, 2]] = np.inf
    backend = Gradients(gradients)
    run = learner(backend, plan, SIZE)
    batches = {name: _batch(run, numbers) for name, numbers in (("all", [0, 3]), ("some", [0, 1, 3]), ("none", [1, 2]))}
    with np.errstate(invalid="ignore"):
        whole, bad = finite_gradient(backend, run.weights, batches["all"], plan)
        assert bad == 0
        assert len(backend.asked) == 1
        left, bad = finite_gradient(backend, run.weights, batches["some"], plan)
        assert bad == 1
        assert finite_gradient(backend, run.weights, batches["none"], plan) == (None, 2)
    assert whole
    assert left
    np.testing.assert_array_equal(left.total, whole.total)
    assert set(backend.asked) == {(2.0, True)}


def _batch(run: DPSGD, sentences: list[int]) -> Batch:
    from engine.training.batches import batch_of

    return batch_of(run.split, run.table, np.array(sentences))


def test_non_finite_weights_raise_with_the_step_number() -> None:
    run = learner(Gradients(np.full((40, 5), 1e37)), plan_of(40, 40, noise_multiplier=0, clip_norm=None), 5)
    with np.errstate(over="ignore"), pytest.raises(TrainingFailed, match=r"step 7 of 60; .*below 0\.5"):
        run.step(6)


def test_one_non_finite_weight_raises() -> None:
    run = learner(Gradients(np.full((40, 5), 1e-3)), plan_of(40, 40, noise_multiplier=0), 5)
    run.step(0)
    run.weights[2] = np.inf
    with pytest.raises(TrainingFailed, match="after step 2 of"):
        run.step(1)


def test_predict_tags_each_token_and_calls_check_between_batches(monkeypatch: Patch) -> None:
    monkeypatch.setattr("engine.training.batches.CACHED_TOKENS", 6)
    split, asked = split_of([4, 1, 5, 3, 2]), []
    decoder = Decoder(("O", "B-X", "I-X", "B-Y"), well_formed=False)
    found = predict(Gradients(RANDOM), decoder, np.ones(1), None, split, TABLE, lambda: asked.append(1))
    np.testing.assert_array_equal(found, split.tags)
    assert found.dtype == np.int64
    assert len(asked) == 4  # sentences of 1 and 2 tokens in one batch, the others alone
    with np.errstate(invalid="ignore"), pytest.raises(TrainingFailed, match="scores are not finite"):
        predict(Gradients(RANDOM), decoder, np.full(1, np.inf), None, split, TABLE, lambda: None)


def test_losses_are_per_sentence_and_unclipped() -> None:
    split, backend = split_of([4, 1, 5, 3, 2]), Gradients(RANDOM)
    np.testing.assert_array_equal(losses(backend, np.ones(1), split, TABLE), np.arange(5.0))
    assert {clip_norm for clip_norm, _ in backend.asked} == {None}


def test_private_plan_rejects_seed_only_streams() -> None:
    for plan, refused in ((plan_of(40, 10), True), (plan_of(40, 10, noise_multiplier=0.0), False)):
        optimiser = Optimiser(TrainingConfig(), SIZE)
        parts = (Gradients(RANDOM), plan, optimiser, Seeds(3), split_of([2] * 40), TABLE, np.zeros(SIZE, np.float32))
        if refused:
            with pytest.raises(TypeError, match="needs Secrets"):
                DPSGD(*parts)
        else:
            assert DPSGD(*parts).plan is plan


def test_monitor_part_and_first_are_keyword_only() -> None:
    run = learner(Gradients(RANDOM), plan_of(40, 10), SIZE)
    parts: tuple = (run.backend, run.plan, run.optimiser, run.streams, run.split, run.table, run.weights)
    with pytest.raises(TypeError):
        DPSGD(*parts, run.monitor)
