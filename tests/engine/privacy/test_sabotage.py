"""Private training broken on purpose, in the ways it is broken by accident: each must turn the noise check red."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from engine.config import TrainingConfig
from engine.embeddings import EncodedSplit
from engine.privacy import mechanisms
from engine.privacy.plan import PrivacyPlan
from engine.records import NoiseCheck
from engine.seeds import Secrets
from engine.taggers import Tagger
from engine.taggers.layers import CRF, BidirectionalLSTM, Dense
from engine.training import dpsgd
from engine.training.compiled.backend import CompiledBackend
from engine.training.dpsgd import DPSGD, StepStatistics
from engine.training.optimisers import Optimiser

SENTENCES, BATCH, STEPS = 300, 12, 100
TAGGER = Tagger(7, (BidirectionalLSTM(7, 8), Dense(16, 4)), CRF(4))
TABLE = np.random.default_rng(9).standard_normal((20, 7)).astype(np.float32)
PLAN = PrivacyPlan(
    examples=SENTENCES,
    batch_size=BATCH,
    steps=STEPS,
    noise_multiplier=1.0,
    clip_norm=0.4,
    delta=1e-5,
    sampling="poisson",
)
Patch = pytest.MonkeyPatch


def learner(plan: PrivacyPlan = PLAN, optimiser: str = "sgd", seed: int = 0, rate: float = 0.05) -> DPSGD:
    """A private run on sentences whose gradients are mostly longer than the clip norm."""
    random = np.random.default_rng(1)
    lengths = random.integers(1, 9, plan.examples)
    split = EncodedSplit(
        random.integers(0, 20, lengths.sum()).astype(np.int32),
        random.integers(0, 4, lengths.sum()).astype(np.int16),
        np.concatenate([[0], np.cumsum(lengths)]),
    )
    weights = TAGGER.initial_weights(np.random.default_rng(0))
    training = TrainingConfig(optimiser=optimiser, learning_rate=rate)
    optimiser_ = Optimiser(training, TAGGER.size)
    return DPSGD(CompiledBackend(TAGGER), plan, optimiser_, Secrets.seeded(seed, "run"), split, TABLE, weights)


def verdict(run: DPSGD, steps: int = STEPS) -> NoiseCheck:
    for step in range(steps):
        run.step(step)
    assert run.monitor
    return run.monitor.verdict()


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_an_honest_run_passes_and_is_measured(optimiser: str) -> None:
    found = verdict(learner(optimiser=optimiser))
    assert not found.failed
    assert found.noise_std == pytest.approx(0.4, abs=found.noise_tolerance)
    assert found.noise_tolerance < 0.005
    assert 0.39 < found.clipped_norm_max <= 0.4001
    assert found.sentences_measured > 100
    assert found.batch_mean == pytest.approx(BATCH, abs=2)
    assert found.batch_std == pytest.approx(found.batch_std_planned, rel=0.4)


@pytest.mark.parametrize("sigma", [20.0, 500.0])
def test_an_honest_run_passes_where_the_noise_drives_the_weights_away(sigma: float) -> None:
    found = verdict(learner(replace(PLAN, noise_multiplier=sigma), rate=1.0))
    assert not found.failed, found.faults


def test_honest_runs_raise_no_false_alarm() -> None:
    for seed in range(40):
        found = verdict(learner(seed=seed))
        assert not found.failed, found.faults


def test_an_honest_run_passes_at_every_moment_and_with_small_and_large_samples() -> None:
    for size in (1, 3, 299, 300):
        run = learner(replace(PLAN, batch_size=size, steps=40))
        for step in range(40):
            run.step(step)
            assert run.monitor
            assert not run.monitor.verdict().failed, (size, step, run.monitor.verdict().faults)


def test_a_shuffled_run_that_says_so_passes() -> None:
    found = verdict(learner(replace(PLAN, sampling="shuffle")))
    assert not found.failed
    assert found.batch_std_planned is None


def test_noise_below_the_rounding_of_the_weights_is_called_unmeasurable() -> None:
    found = verdict(learner(replace(PLAN, noise_multiplier=1e-6)), 10)
    assert found.noise_std is None
    assert not found.failed


def no_noise(patch: Patch) -> None:
    patch.setattr(dpsgd, "add_gaussian_noise", lambda total, random, std: None)


def half_the_noise(patch: Patch) -> None:
    patch.setattr(
        dpsgd, "add_gaussian_noise", lambda total, random, std: mechanisms.add_gaussian_noise(total, random, std / 2)
    )


def two_per_cent_less_noise(patch: Patch) -> None:
    patch.setattr(
        dpsgd, "add_gaussian_noise", lambda total, random, std: mechanisms.add_gaussian_noise(total, random, 0.98 * std)
    )


def noise_left_out_once(patch: Patch) -> None:
    update = DPSGD._update

    def broken(self: DPSGD, total: np.ndarray, step: int) -> None:
        if step == 61:
            total /= np.float32(self.plan.batch_size)
            self.optimiser.move(self.weights, total, step)
        else:
            update(self, total, step)

    patch.setattr(DPSGD, "_update", broken)


def the_same_noise_at_every_step(patch: Patch) -> None:
    stream = Secrets.stream
    patch.setattr(Secrets, "stream", lambda self, name, **keys: stream(self, name, **({} if name == "noise" else keys)))


def old_noise_after_many_steps(patch: Patch) -> None:
    stream = Secrets.stream

    def broken(self: Secrets, name: str, **keys: int) -> object:
        return stream(self, name, **({"step": keys["step"] % 37} if name == "noise" else keys))

    patch.setattr(Secrets, "stream", broken)


def no_clipping(patch: Patch) -> None:
    gradient = CompiledBackend.clipped_gradient
    patch.setattr(
        CompiledBackend, "clipped_gradient", lambda self, weights, batch, *clip: gradient(self, weights, batch, None)
    )


def clip_norm_of_another_plan(patch: Patch) -> None:
    gradient = CompiledBackend.clipped_gradient
    patch.setattr(
        CompiledBackend,
        "clipped_gradient",
        lambda self, weights, batch, clip, by_layer: gradient(self, weights, batch, 1.05 * clip),
    )


def a_layer_left_out_of_the_norm(patch: Patch) -> None:
    patch.setattr("engine.training.compiled.lstm.LSTMLayer.add_squared_norms", lambda self, tape, batch, squares: None)


def microbatches_of_four(patch: Patch) -> None:
    """The mean of four sentences' gradients is clipped, and the clipped means are added up."""

    def broken(self: DPSGD, sentences: np.ndarray, weights: np.ndarray | None = None) -> tuple:
        weights = self.weights if weights is None else weights
        total = np.zeros(self.weights.size, dtype=np.float32)
        for start in range(0, len(sentences), 4):
            group = sentences[start : start + 4]
            (batch,) = dpsgd.physical_batches(self.split, self.table, group)
            mean = self.backend.clipped_gradient(weights, batch, None).total / len(group)
            total += mean * min(1.0, self.plan.clip_norm / np.linalg.norm(mean))
        ones = np.ones(len(sentences))
        return total, StepStatistics(ones, ones[None], ones, 0, 1.0)

    patch.setattr(DPSGD, "clipped_sum", broken)


def the_whole_batch_clipped_at_once(patch: Patch) -> None:
    def broken(self: DPSGD, sentences: np.ndarray, weights: np.ndarray | None = None) -> tuple:
        weights = self.weights if weights is None else weights
        total = np.zeros(self.weights.size, dtype=np.float32)
        for batch in dpsgd.physical_batches(self.split, self.table, sentences):
            total += self.backend.clipped_gradient(weights, batch, None).total
        total *= min(1.0, self.plan.clip_norm / np.linalg.norm(total))
        ones = np.ones(len(sentences))
        return total, StepStatistics(ones, ones[None], ones, 0, 1.0)

    patch.setattr(DPSGD, "clipped_sum", broken)


def shuffled_batches(patch: Patch) -> None:
    patch.setattr(
        DPSGD,
        "sample",
        lambda self, step: mechanisms.shuffled_batch(self.streams, self.plan.examples, self.plan.batch_size, step),
    )


def shuffled_batches_of_random_size(patch: Patch) -> None:
    """Binomial sizes, yet each sentence comes once before any comes twice."""

    def broken(self: DPSGD, step: int) -> np.ndarray:
        sizes = [np.random.default_rng(s).binomial(SENTENCES, BATCH / SENTENCES) for s in range(step + 1)]
        end = sum(sizes)
        places = np.arange(end - sizes[-1], end) % SENTENCES
        return np.unique(np.random.default_rng(4).permutation(SENTENCES)[places])

    patch.setattr(DPSGD, "sample", broken)


def always_the_same_batch(patch: Patch) -> None:
    patch.setattr(DPSGD, "sample", lambda self, step: np.arange(BATCH))


def twice_the_sampling_probability(patch: Patch) -> None:
    patch.setattr(
        dpsgd, "poisson_sample", lambda random, examples, q: mechanisms.poisson_sample(random, examples, 2 * q)
    )


def divided_by_the_actual_batch_size(patch: Patch) -> None:
    sample, move, actual = DPSGD.sample, Optimiser.move, [1]

    def remembered(self: DPSGD, step: int) -> np.ndarray:
        sentences = sample(self, step)
        actual[0] = max(1, len(sentences))
        return sentences

    patch.setattr(DPSGD, "sample", remembered)
    patch.setattr(
        Optimiser,
        "move",
        lambda self, weights, gradient, step: move(self, weights, gradient * np.float32(BATCH / actual[0]), step),
    )


def a_second_step_without_noise(patch: Patch) -> None:
    """What a wrong optimiser hook does: the plain gradient is applied beside the noisy one."""
    update = DPSGD._update

    def broken(self: DPSGD, total: np.ndarray, step: int) -> None:
        plain = total / np.float32(self.plan.batch_size)
        update(self, total, step)
        self.optimiser.move(self.weights, plain * 40, step)

    patch.setattr(DPSGD, "_update", broken)


SABOTAGE: list[tuple[Callable[[Patch], None], str]] = [
    (no_noise, "noise on the weights has 0.0 %"),
    (half_the_noise, "noise on the weights has 49.|noise on the weights has 50."),
    (two_per_cent_less_noise, "noise on the weights has 97.|noise on the weights has 98."),
    (noise_left_out_once, "At step 62|noise on the weights has"),
    (the_same_noise_at_every_step, "Step 2 added the noise of step 1 again"),
    (old_noise_after_many_steps, "Step 38 added the noise of step 1 again"),
    (no_clipping, "longer than the clip norm 0.4"),
    (clip_norm_of_another_plan, "longer than the clip norm 0.4"),
    (a_layer_left_out_of_the_norm, "longer than the clip norm 0.4"),
    (microbatches_of_four, "not clipped one by one"),
    (the_whole_batch_clipped_at_once, "not clipped one by one"),
    (shuffled_batches, "Sample sizes spread 0 times"),
    (shuffled_batches_of_random_size, "comes back too evenly"),
    (always_the_same_batch, "Sample sizes spread 0 times"),
    (twice_the_sampling_probability, "Samples hold"),
    (divided_by_the_actual_batch_size, "noise on the weights"),
    (a_second_step_without_noise, "noise on the weights"),
]


@pytest.mark.parametrize(("breaks", "sentence"), SABOTAGE, ids=[breaks.__name__ for breaks, _ in SABOTAGE])
def test_sabotage_turns_the_check_red(breaks: Callable[[Patch], None], sentence: str, monkeypatch: Patch) -> None:
    breaks(monkeypatch)
    found = verdict(learner())
    assert found.failed
    assert any(part in " ".join(found.faults) for part in sentence.split("|")), found.faults


@pytest.mark.parametrize("optimiser", ["momentum", "adam"])
@pytest.mark.parametrize("breaks", [no_noise, half_the_noise, divided_by_the_actual_batch_size])
def test_sabotage_is_seen_through_other_optimisers(
    breaks: Callable[[Patch], None], optimiser: str, monkeypatch: Patch
) -> None:
    breaks(monkeypatch)
    assert verdict(learner(optimiser=optimiser)).failed


def test_sabotage_of_weights_that_do_not_follow_adam_is_seen(monkeypatch: Patch) -> None:
    move = Optimiser.move

    def broken(self: Optimiser, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        before = weights.copy()
        move(self, weights, gradient, step)
        weights[:] = before + (weights - before) / 2

    monkeypatch.setattr(Optimiser, "move", broken)
    assert verdict(learner(optimiser="adam")).failed
