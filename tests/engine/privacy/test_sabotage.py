"""Sabotaged private training, at its lowest interfaces and realistic sizes: each fault must fail the noise check, and
the correct runs must not."""

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import pytest

from engine.config import TrainingConfig
from engine.federated import client_update, server
from engine.privacy import gaussian_sampler, mechanisms
from engine.records import NoiseCheck
from engine.seeds import KeyStream, Secrets
from engine.training import dpsgd
from engine.training.batches import Batch
from engine.training.compiled.backend import CompiledBackend
from engine.training.compiled.heads import CRFHead
from engine.training.dpsgd import DPSGD, StepStatistics
from engine.training.optimisers import Optimiser
from tests.engine.privacy.runs_to_sabotage import CENTRAL, CLIP_NORM, FEDERATED, central, checked, federated, verdict_of

Patch = pytest.MonkeyPatch
STEPS = {"bilstm": 64, "linear-1024": 40, "linear-4096": 12}
"""Steps until a fault must be found; the paper's run has 4,388 steps, the others 137 and 34."""


LINEAR_FIRST = {
    "no_noise_on_the_transitions",
    "no_noise_on_the_last_block",
    "no_noise_on_a_few_weights",
    "no_noise_on_every_fiftieth_weight",
    "noise_spares_the_sum",
    "noise_cut_at_two_deviations",
    "the_plain_gradient_once_beside",
}
"""Faults that the BiLSTM shows only after hundreds of steps: the linear tagger with batches of 1,024 shows them
sooner."""


def at_each_size(faults: Iterable[str]) -> list[Any]:
    """Pair each fault with each size; sizes that find it later are marked as repeats."""
    return [
        pytest.param(
            fault,
            kind,
            id=f"{fault}-{kind}",
            marks=() if kind == ("linear-1024" if fault in LINEAR_FIRST else "bilstm") else pytest.mark.repeats,
        )
        for fault in faults
        for kind in CENTRAL
    ]


def first_look(run: DPSGD) -> int:
    """Return the number of steps until the first close look at a sum."""
    assert run.monitor
    return next(step for step in range(run.plan.steps) if run.monitor.watch.looks_closely(step)) + 1


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("kind", CENTRAL)
def test_correct_run_passes_and_is_measured(kind: str) -> None:
    run = central(kind)
    found = checked(run, max(STEPS[kind], first_look(run)))
    assert not found.failed, found.faults
    assert found.noise_std == pytest.approx(CLIP_NORM, abs=found.noise_tolerance)
    assert found.noise_tolerance < 0.03 * CLIP_NORM
    assert found.clipped_norm_max == pytest.approx(CLIP_NORM, rel=1e-4)
    assert found.looks == found.looks_counted > 0
    assert found.largest_gap < 1e-3
    assert abs(found.along) < 5
    assert found.shape_distance < 0.02


@pytest.mark.repeats
@pytest.mark.parametrize("kind", ["linear-4096"])
def test_correct_complete_run_measures_each_weight(kind: str) -> None:
    run = central(kind)
    found = checked(run, run.plan.steps)
    assert not found.failed, found.faults
    assert found.least_visits >= 34
    assert [layer.title for layer in found.layers] == ["linear", "CRF"]
    assert all(abs(layer.ratio - 1) <= layer.tolerance for layer in found.layers)
    assert found.layers[1].tolerance < 0.12  # of 81 transitions


@pytest.mark.repeats(after=1)
@pytest.mark.parametrize("mechanism", FEDERATED)
def test_correct_clients_pass(mechanism: str) -> None:
    for participants in (None, 8):
        run = federated(mechanism, participants=participants)
        found = verdict_of(run)
        assert not found.failed, found.faults
        assert found.unit == "client"
        assert found.steps == (30 if mechanism == "dp-fedavg" else 30 * (participants or 20))


@pytest.mark.parametrize("sigma", [20.0, 500.0])
def test_correct_run_passes_with_very_large_noise(sigma: float) -> None:
    run = central("bilstm", noise_multiplier=sigma)
    run.optimiser = Optimiser(TrainingConfig(learning_rate=1.0), run.weights.size)
    found = checked(run, 30)
    assert not found.failed, found.faults


def test_correct_runs_raise_no_false_alarm() -> None:
    for seed in range(8):
        found = checked(central("linear-1024", seed=seed), 4)
        assert not found.failed, found.faults


def test_declared_shuffling_passes() -> None:
    found = checked(central("linear-1024", sampling="shuffle"), 8)
    assert not found.failed
    assert found.batch_std_planned is None


def test_noise_below_rounding_is_unmeasurable() -> None:
    found = checked(central("bilstm", noise_multiplier=1e-6), 4)
    assert found.noise_std is None
    assert not found.failed
    assert not found.passed


# Noise


Draws = Callable[[np.ndarray, np.ndarray, float], None]


def noise_becomes(change: Callable[[np.ndarray, np.ndarray, float, Draws], np.ndarray]) -> Callable[[Patch], None]:
    """Replace the generator's noise: change(noise, sum, std, draw) → noise; the sum is without the noise."""

    def breaks(patch: Patch) -> None:
        honest = gaussian_sampler.add_normal

        def broken(total: np.ndarray, key: np.ndarray, std: float) -> None:
            noise = np.zeros_like(total)
            honest(noise, key, std)
            total += change(noise, total.copy(), float(std), honest).astype(np.float32)

        patch.setattr(gaussian_sampler, "add_normal", broken)

    return breaks


def _of_before(weigh: Callable[[np.ndarray, np.ndarray | None, int], np.ndarray]) -> Callable[[Patch], None]:
    """Replace the noise by a function of the previous step's noise and of the step number."""
    kept: dict[str, Any] = {}

    def change(noise: np.ndarray, total: np.ndarray, std: float, honest: Draws) -> np.ndarray:
        number = kept["number"] = kept.get("number", -1) + 1
        made = weigh(noise, kept.get("noise"), number)
        kept["noise"] = made
        return made

    def breaks(patch: Patch) -> None:
        kept.clear()
        noise_becomes(change)(patch)

    return breaks


def _without(noise: np.ndarray, where: slice) -> np.ndarray:
    noise[where] = 0
    return noise


def _spared(noise: np.ndarray, total: np.ndarray) -> np.ndarray:
    direction = total.astype(np.float64) / np.linalg.norm(total.astype(np.float64))
    return noise - direction * (noise @ direction)


def _uniform(noise: np.ndarray, std: float) -> np.ndarray:
    from scipy.special import ndtr

    return (ndtr(noise / std) - 0.5) * math.sqrt(12) * std


def _fixed_part(noise: np.ndarray, share: float) -> np.ndarray:
    fixed = np.random.default_rng(8).standard_normal(noise.size) * noise.std()
    return math.sqrt(1 - share) * noise + math.sqrt(share) * fixed


NOISE: dict[str, Callable[[Patch], None]] = {
    "no_noise": noise_becomes(lambda noise, *_: 0 * noise),
    "half_the_noise": noise_becomes(lambda noise, *_: noise / 2),
    "three_per_cent_less_noise": noise_becomes(lambda noise, *_: 0.97 * noise),
    "noise_on_the_mean_and_not_on_the_sum": noise_becomes(lambda noise, *_: noise / 32),
    "no_noise_on_the_transitions": noise_becomes(lambda noise, *_: _without(noise, slice(-81, None))),
    "no_noise_on_the_last_block": noise_becomes(lambda noise, *_: _without(noise, slice(-2007, None))),
    "no_noise_on_a_few_weights": noise_becomes(lambda noise, *_: _without(noise, slice(7000, 7100))),
    "no_noise_on_every_fiftieth_weight": noise_becomes(lambda noise, *_: _without(noise, slice(None, None, 50))),
    "coin_flips": noise_becomes(lambda noise, total, std, _: std * np.sign(noise)),
    "uniform_noise": noise_becomes(lambda noise, total, std, _: _uniform(noise, std)),
    "noise_cut_at_two_deviations": noise_becomes(
        lambda noise, total, std, _: np.clip(noise, -2 * std, 2 * std) / 0.9594
    ),
    "noise_cut_at_four_deviations": noise_becomes(lambda noise, total, std, _: np.clip(noise, -3.99 * std, 3.99 * std)),
    "noise_spares_the_sum": noise_becomes(lambda noise, total, *_: _spared(noise, total)),
    "the_same_draws_for_each_block": noise_becomes(lambda noise, *_: np.resize(noise[:2048], noise.size)),
    "the_same_noise_at_every_step": _of_before(lambda noise, before, _: noise if before is None else before),
    "noise_of_the_step_before_taken_back": _of_before(
        lambda noise, before, number: -before if number % 2 and before is not None else noise
    ),
    "noise_of_the_step_before_subtracted": _of_before(
        lambda noise, before, number: (noise - before) / 2**0.5 if number % 2 and before is not None else noise
    ),
    "noise_that_remembers": _of_before(
        lambda noise, before, _: noise if before is None else 0.6 * before + 0.8 * noise
    ),
    "a_fifth_of_the_noise_is_fixed": noise_becomes(lambda noise, *_: _fixed_part(noise, 0.2)),
}
LONGER = {("noise_cut_at_four_deviations", "bilstm"): 137, ("no_noise_on_a_few_weights", "bilstm"): 256}
"""Steps for faults that few draws show: all weights are measured every 137 steps of the BiLSTM's 4,388."""


@pytest.mark.parametrize(("fault", "kind"), at_each_size(NOISE))
def test_sabotage_of_the_noise_is_found(fault: str, kind: str, monkeypatch: Patch) -> None:
    NOISE[fault](monkeypatch)
    found = checked(central(kind), LONGER.get((fault, kind), STEPS[kind]))
    assert found.failed
    assert "noise" in " ".join(found.faults).lower()


def test_sabotage_of_one_step_is_found(monkeypatch: Patch) -> None:
    honest, number = gaussian_sampler.add_normal, [0]

    def broken(total: np.ndarray, key: np.ndarray, std: float) -> None:
        number[0] += 1
        if number[0] != 23:
            honest(total, key, std)

    monkeypatch.setattr(gaussian_sampler, "add_normal", broken)
    found = checked(central("bilstm"), 32)
    assert any(all(part in fault for part in (" step 23 ", " 0.0 % ")) for fault in found.faults)


def test_sabotage_of_one_weight_is_found(monkeypatch: Patch) -> None:
    noise_becomes(lambda noise, *_: _without(noise, slice(12_345, 12_346)))(monkeypatch)
    found = checked(central("linear-1024"), 40)
    assert found.faults
    assert all(" weight 12,346 " in fault for fault in found.faults)


@pytest.mark.repeats
def test_sabotage_of_old_noise_after_many_steps_is_found(monkeypatch: Patch) -> None:
    """Keys recur: they depend only on the step number modulo 37."""
    honest, kept, number = gaussian_sampler.add_normal, {}, [-1]

    def broken(total: np.ndarray, key: np.ndarray, std: float) -> None:
        number[0] += 1
        honest(total, kept.setdefault(number[0] % 37, key), std)

    monkeypatch.setattr(gaussian_sampler, "add_normal", broken)
    found = checked(central("linear-1024"), 64)
    (fault,) = found.faults
    assert all(part in fault for part in ("At step 38 ", " draw of its key "))


# Sums


def _no_clipping(patch: Patch, *, above: int = 0) -> None:
    gradient = CompiledBackend.clipped_gradient

    def broken(self: CompiledBackend, weights: np.ndarray, batch: Batch, clip: float | None, by: bool) -> Any:
        return gradient(self, weights, batch, None if len(batch.lengths) > above else clip, by)

    patch.setattr(CompiledBackend, "clipped_gradient", broken)


def no_clipping(patch: Patch) -> None:
    _no_clipping(patch)


def no_clipping_of_large_batches(patch: Patch) -> None:
    """Sabotage that the check of engine version 5 missed: it checked 64 sentences at most."""
    clipped_sum, gradient, whole = DPSGD.clipped_sum, CompiledBackend.clipped_gradient, [False]

    def marked(self: DPSGD, sentences: np.ndarray, *more: Any, **how: Any) -> Any:
        whole[0] = len(sentences) > 64 or (self.plan.batch_size == 32 and len(sentences) > 20)
        return clipped_sum(self, sentences, *more, **how)

    def broken(self: CompiledBackend, weights: np.ndarray, batch: Batch, clip: float | None, by: bool) -> Any:
        return gradient(self, weights, batch, None if whole[0] else clip, by)

    patch.setattr(DPSGD, "clipped_sum", marked)
    patch.setattr(CompiledBackend, "clipped_gradient", broken)


def clip_norm_of_another_plan(patch: Patch) -> None:
    gradient = CompiledBackend.clipped_gradient
    patch.setattr(
        CompiledBackend,
        "clipped_gradient",
        lambda self, weights, batch, clip, by: gradient(self, weights, batch, clip and 1.05 * clip, by),
    )


def transitions_left_out_of_the_norm(patch: Patch) -> None:
    patch.setattr(CRFHead, "add_squared_norms", lambda self, tape, batch, squares: None)


def _summed(patch: Patch, change: Callable[[Any, DPSGD, np.ndarray, np.ndarray], np.ndarray]) -> None:
    """Replace a sum: change(clipped_sum, self, sentences, weights) → total."""
    honest = DPSGD.clipped_sum

    def broken(self: DPSGD, sentences: np.ndarray, weights: np.ndarray | None = None, cut: Any = None) -> Any:
        weights = self.weights if weights is None else weights
        ones = np.ones(len(sentences))
        total = change(honest, self, sentences, weights)
        return total.astype(np.float32), StepStatistics(ones, ones[None], ones, 0, 1.0)

    patch.setattr(DPSGD, "clipped_sum", broken)


def _unclipped(self: DPSGD, sentences: np.ndarray, weights: np.ndarray) -> np.ndarray:
    batches = dpsgd.physical_batches(self.split, self.table, sentences)
    total = np.zeros(self.weights.size)
    for batch in batches:
        total += self.backend.clipped_gradient(weights, batch, None).total
    return total


def _shortened(total: np.ndarray) -> np.ndarray:
    return total * min(1.0, CLIP_NORM / max(1e-30, float(np.linalg.norm(total))))


def microbatches_of_four(patch: Patch) -> None:
    """Clip the mean gradient of four sentences, and sum the clipped means."""

    def change(honest: Any, self: DPSGD, sentences: np.ndarray, weights: np.ndarray) -> np.ndarray:
        pieces = [sentences[start : start + 4] for start in range(0, len(sentences), 4)]
        return sum((_shortened(_unclipped(self, piece, weights) / len(piece)) for piece in pieces), np.zeros(1))

    _summed(patch, change)


def the_whole_batch_clipped_at_once(patch: Patch) -> None:
    _summed(patch, lambda honest, self, sentences, weights: _shortened(_unclipped(self, sentences, weights)))


def a_hundred_sentences_more_in_each_sum(patch: Patch) -> None:
    def change(honest: Any, self: DPSGD, sentences: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return honest(self, np.concatenate([sentences, np.arange(100)]), weights)[0]

    _summed(patch, change)


def a_hundred_sentences_more_in_large_sums(patch: Patch) -> None:
    def change(honest: Any, self: DPSGD, sentences: np.ndarray, weights: np.ndarray) -> np.ndarray:
        more = np.arange(100 if len(sentences) > self.plan.batch_size / 2 else 0)
        return honest(self, np.concatenate([sentences, more]), weights)[0]

    _summed(patch, change)


def sentence_0_with_fifty_clip_norms(patch: Patch) -> None:
    def change(honest: Any, self: DPSGD, sentences: np.ndarray, weights: np.ndarray) -> np.ndarray:
        total = honest(self, sentences, weights)[0]
        if len(sentences) > self.plan.batch_size / 2:
            own = _unclipped(self, np.array([0]), weights)
            total = total + own * 50 * CLIP_NORM / np.linalg.norm(own)
        return total

    _summed(patch, change)


def one_sentence_left_out_of_each_sum(patch: Patch) -> None:
    _summed(patch, lambda honest, self, sentences, weights: honest(self, sentences[1:], weights)[0])


def the_longest_gradient_unclipped(patch: Patch) -> None:
    gradient = CompiledBackend.clipped_gradient

    def broken(self: CompiledBackend, weights: np.ndarray, batch: Batch, clip: float | None, by: bool) -> Any:
        found = gradient(self, weights, batch, clip, by)
        alone = batch.where(np.arange(len(batch.lengths)) == int(found.norms.argmax()))
        whole, part = (gradient(self, weights, alone, bound, by).total for bound in (None, clip))
        found.total[:] += whole - part
        return found

    patch.setattr(CompiledBackend, "clipped_gradient", broken)


SUMS = {
    breaks.__name__: breaks
    for breaks in (
        no_clipping,
        no_clipping_of_large_batches,
        clip_norm_of_another_plan,
        transitions_left_out_of_the_norm,
        microbatches_of_four,
        the_whole_batch_clipped_at_once,
        a_hundred_sentences_more_in_each_sum,
        a_hundred_sentences_more_in_large_sums,
        sentence_0_with_fifty_clip_norms,
        one_sentence_left_out_of_each_sum,
        the_longest_gradient_unclipped,
    )
}


@pytest.mark.parametrize(("fault", "kind"), at_each_size(SUMS))
def test_sabotage_of_the_sum_is_found_at_a_close_look(fault: str, kind: str, monkeypatch: Patch) -> None:
    SUMS[fault](monkeypatch)
    run = central(kind)
    found = checked(run, first_look(run))
    assert found.failed
    assert re.search("than the clip norm|clip norms apart", " ".join(found.faults))


@pytest.mark.parametrize("kind", ["linear-1024", pytest.param("linear-4096", marks=pytest.mark.repeats)])
def test_sabotage_of_large_batches_is_found_with_few_long_gradients(kind: str, monkeypatch: Patch) -> None:
    """If one sentence in a hundred is longer than C, the sentences checked alone are not. Only small groups show the
    fault: in groups of more than 64, clipping would be missing as in the sum compared with them."""
    run = central(kind)
    _, seen = run.clipped_sum(np.arange(run.plan.examples))
    bound = float(np.quantile(seen.norms, 0.99))

    honest = central(kind, clip_norm=bound)
    found = checked(honest, first_look(honest))
    assert not found.failed, found.faults
    assert found.clipped_norm_max < bound

    no_clipping_of_large_batches(monkeypatch)
    run = central(kind, clip_norm=bound)
    found = checked(run, first_look(run))
    assert found.clipped_norm_max < bound
    assert "clip norms apart" in " ".join(found.faults)


# The update


def divided_by_the_actual_batch_size(patch: Patch) -> None:
    sample, move, actual = DPSGD.sample, Optimiser.move, [1.0]

    def remembered(self: DPSGD, step: int) -> np.ndarray:
        sentences = sample(self, step)
        actual[0] = max(1, len(sentences)) / self.plan.batch_size
        return sentences

    patch.setattr(DPSGD, "sample", remembered)
    patch.setattr(
        Optimiser,
        "move",
        lambda self, weights, gradient, step: move(self, weights, gradient / np.float32(actual[0]), step),
    )


def the_plain_gradient_once_beside(patch: Patch) -> None:
    """Simulate a wrong optimiser hook: the sum is applied a second time, without noise."""
    noise, move, plain = dpsgd.add_gaussian_noise, Optimiser.move, [np.zeros(0)]

    def remembered(total: np.ndarray, random: KeyStream, std: float) -> None:
        plain[0] = total.copy()
        noise(total, random, std)

    def broken(self: Optimiser, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        move(self, weights, gradient + plain[0] / np.float32(BATCH[0]), step)

    patch.setattr(dpsgd, "add_gaussian_noise", remembered)
    patch.setattr(Optimiser, "move", broken)


BATCH = [32]


UPDATES = {breaks.__name__: breaks for breaks in (divided_by_the_actual_batch_size, the_plain_gradient_once_beside)}


@pytest.mark.parametrize(("fault", "kind"), at_each_size(UPDATES))
def test_sabotage_of_the_update_is_found(fault: str, kind: str, monkeypatch: Patch) -> None:
    UPDATES[fault](monkeypatch)
    run = central(kind)
    BATCH[0] = run.plan.batch_size
    found = checked(run, 2)
    assert found.failed
    assert "noise" in " ".join(found.faults).lower()


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("fault", [None, "no_noise", "half_the_noise"])
def test_sabotage_is_found_with_each_optimiser(fault: str | None, optimiser: str, monkeypatch: Patch) -> None:
    if fault:
        NOISE[fault](monkeypatch)
    run = central("linear-1024")
    run.optimiser = Optimiser(TrainingConfig(optimiser=optimiser, learning_rate=0.05), run.weights.size)
    assert checked(run, 4).failed == bool(fault)


def test_sabotage_of_adam_weights_is_found(monkeypatch: Patch) -> None:
    move = Optimiser.move

    def broken(self: Optimiser, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        before = weights.copy()
        move(self, weights, gradient, step)
        weights[:] = before + (weights - before) / 2

    monkeypatch.setattr(Optimiser, "move", broken)
    assert checked(central("linear-1024"), 2).failed


@pytest.mark.parametrize(("optimiser", "moment"), [("momentum", "velocity"), ("adam", "square")])
def test_sabotage_of_a_moment_with_the_plain_sum_is_found(optimiser: str, moment: str, monkeypatch: Patch) -> None:
    """The weights follow the moments: they contain the sum before the step (Adam), or for the next one (momentum)."""
    update, move, clean = DPSGD._update, Optimiser.move, np.zeros(0)

    def remembered(self: DPSGD, total: np.ndarray, step: int) -> None:
        nonlocal clean
        clean = total / np.float32(self.plan.batch_size)
        update(self, total, step)

    def broken(self: Optimiser, weights: np.ndarray, gradient: np.ndarray, step: int) -> None:
        if moment == "square":
            self.state[moment] += np.float32(0.001) * clean**2
        move(self, weights, gradient, step)
        if moment == "velocity":
            self.state[moment] += clean

    monkeypatch.setattr(DPSGD, "_update", remembered)
    monkeypatch.setattr(Optimiser, "move", broken)
    run = central("linear-1024")
    run.optimiser = Optimiser(TrainingConfig(optimiser=optimiser, learning_rate=0.05), run.weights.size)
    assert checked(run, 4).failed


# Between two updates


def _between(change: Callable[[DPSGD, np.ndarray], None]) -> Callable[[Patch], None]:
    """Change something before each step but the first: change(self, gradient of 50 sentences without noise)."""

    def breaks(patch: Patch) -> None:
        honest = DPSGD.step

        def broken(self: DPSGD, step: int) -> StepStatistics:
            if step:
                change(self, self.clipped_sum(np.arange(50))[0] / np.float32(self.plan.batch_size))
            return honest(self, step)

        patch.setattr(DPSGD, "step", broken)

    return breaks


def _move_weights(self: DPSGD, gradient: np.ndarray) -> None:
    self.weights -= np.float32(0.02) * gradient


def _move_the_last_weight(self: DPSGD, gradient: np.ndarray) -> None:
    self.weights[-1] -= np.float32(0.1)


def _move_a_moment(self: DPSGD, gradient: np.ndarray) -> None:
    next(iter(self.optimiser.state.values()))[:] += np.float32(0.05) * gradient


BETWEEN = {change.__name__: change for change in (_move_weights, _move_the_last_weight, _move_a_moment)}


@pytest.mark.parametrize(("fault", "kind"), at_each_size(BETWEEN))
def test_sabotage_between_two_updates_is_found(fault: str, kind: str, monkeypatch: Patch) -> None:
    _between(BETWEEN[fault])(monkeypatch)
    run = central(kind)
    if fault == "_move_a_moment" and kind == "bilstm":
        run.optimiser = Optimiser(TrainingConfig(optimiser="momentum", learning_rate=0.05), run.weights.size)
    found = checked(run, 2)
    assert found.failed
    assert any(all(part in fault for part in ("Before step 2 ", "moments")) for fault in found.faults)


# Samples


def _sampled(patch: Patch, change: Callable[[DPSGD, np.ndarray, int], np.ndarray]) -> None:
    sample = DPSGD.sample
    patch.setattr(DPSGD, "sample", lambda self, step: change(self, sample(self, step), step))


def shuffled_batches(patch: Patch) -> None:
    def change(self: DPSGD, sentences: np.ndarray, step: int) -> np.ndarray:
        return mechanisms.shuffled_batch(self.streams, self.plan.examples, self.plan.batch_size, step)

    _sampled(patch, change)


def shuffled_batches_of_random_size(patch: Patch) -> None:
    """Use binomial sizes, but repeat a sentence only after all others."""
    begun = [0]

    def change(self: DPSGD, sentences: np.ndarray, step: int) -> np.ndarray:
        first, begun[0] = begun[0], begun[0] + len(sentences)
        return np.unique(
            np.random.default_rng(4).permutation(self.plan.examples)[np.arange(first, begun[0]) % self.plan.examples]
        )

    _sampled(patch, change)


def always_the_same_batch(patch: Patch) -> None:
    _sampled(patch, lambda self, sentences, step: np.arange(self.plan.batch_size))


def half_more_sentences(patch: Patch) -> None:
    honest = mechanisms.poisson_sample
    patch.setattr(dpsgd, "poisson_sample", lambda random, n, q: honest(random, n, min(1.0, 1.5 * q)))


def a_hundred_sentences_in_each_sample(patch: Patch) -> None:
    _sampled(patch, lambda self, sentences, step: np.union1d(sentences, np.arange(100)))


def one_sentence_in_each_sample(patch: Patch) -> None:
    _sampled(patch, lambda self, sentences, step: np.union1d(sentences, [17]))


SAMPLES = {
    breaks.__name__: breaks
    for breaks in (
        shuffled_batches,
        shuffled_batches_of_random_size,
        always_the_same_batch,
        half_more_sentences,
        a_hundred_sentences_in_each_sample,
        one_sentence_in_each_sample,
    )
}


@pytest.mark.parametrize("kind", CENTRAL)
@pytest.mark.parametrize("fault", SAMPLES)
def test_sabotage_of_the_samples_is_found(fault: str, kind: str, monkeypatch: Patch) -> None:
    """Gradients are skipped: the samples alone are checked, to the end of the run."""
    SAMPLES[fault](monkeypatch)
    run = central(kind)
    assert run.monitor
    for step in range(min(run.plan.steps, 400)):
        run.monitor.saw_sample(run.sample(step), key=cast(Secrets, run.streams).stream("sampling", step=step).key)
    faults = run.monitor.verdict().faults
    assert "Sample" in " ".join(faults) or "sentence" in " ".join(faults)


# Clients


FEDERATED_NOISE = (
    "no_noise",
    "half_the_noise",
    "three_per_cent_less_noise",
    "no_noise_on_the_transitions",
    "no_noise_on_a_few_weights",
    "coin_flips",
    "the_same_noise_at_every_step",
    "noise_of_the_step_before_taken_back",
)


@pytest.mark.parametrize("mechanism", FEDERATED)
@pytest.mark.parametrize("fault", FEDERATED_NOISE)
def test_sabotage_of_clients_noise_is_found(fault: str, mechanism: str, monkeypatch: Patch) -> None:
    NOISE[fault](monkeypatch)
    found = verdict_of(federated(mechanism))
    assert found.failed
    assert "noise" in " ".join(found.faults).lower()


def one_client_without_noise(patch: Patch) -> None:
    honest = client_update.server_noise
    patch.setattr(
        client_update,
        "server_noise",
        lambda plan, size, streams, **keys: honest(plan, size, streams, **keys) * (keys["client"] != 7),
    )


def updates_twice_as_long(patch: Patch) -> None:
    honest = client_update.clip
    patch.setattr(client_update, "clip", lambda update, bound: 2 * honest(update, bound))


def the_server_joins_what_it_should_not_know(patch: Patch) -> None:
    """Use plain updates in place of the noisy messages."""
    from engine.federated.fedavg import Federation

    send = Federation._send

    def broken(self: Federation, client: int, trained: Any, examples: int, round: int) -> None:
        send(self, client, trained, examples, round)
        update = client_update.clip(trained.astype(np.float64) - self.weights, CLIP_NORM)
        self._server._sum += update

    patch.setattr(Federation, "_send", broken)


@pytest.mark.parametrize(
    "breaks", [one_client_without_noise, updates_twice_as_long, the_server_joins_what_it_should_not_know]
)
def test_sabotage_of_local_messages_is_found(breaks: Callable[[Patch], None], monkeypatch: Patch) -> None:
    breaks(monkeypatch)
    assert verdict_of(federated("local")).failed


def updates_not_clipped(patch: Patch) -> None:
    patch.setattr(server, "clip", lambda update, bound: update)


def one_client_counts_ten_times(patch: Patch) -> None:
    receive = server.Server.receive

    def broken(self: server.Server, client: int, update: np.ndarray, examples: int) -> None:
        for _ in range(10 if client == 3 else 1):
            receive(self, client, update, examples)

    patch.setattr(server.Server, "receive", broken)


def divided_by_who_came(patch: Patch) -> None:
    finish = server.Server.finish

    def broken(self: server.Server, round: int) -> Any:
        came, before = max(1, len(self._clients)), self.weights.copy()
        exchange = finish(self, round)
        self.weights[:] = before + (self.weights - before) * np.float32(8 / came)
        return exchange

    patch.setattr(server.Server, "finish", broken)


def always_the_same_clients(patch: Patch) -> None:
    from engine.federated import partition

    patch.setattr(partition, "poisson_sample", lambda random, number, q: np.arange(round(number * q)))


@pytest.mark.parametrize(
    "breaks", [updates_not_clipped, one_client_counts_ten_times, divided_by_who_came, always_the_same_clients]
)
def test_sabotage_of_the_server_is_found(breaks: Callable[[Patch], None], monkeypatch: Patch) -> None:
    breaks(monkeypatch)
    found: NoiseCheck = verdict_of(federated("dp-fedavg", participants=8))
    assert found.failed


def test_there_are_at_least_30_sabotages() -> None:
    assert len(NOISE) + len(SUMS) + len(SAMPLES) >= 30
