"""Kinds of sabotage at 20,000, 300,000 and 1,000,000 weights: imprecise or truncated noise, reused draws, dependent
samples, and settings that follow private values. Each must fail the noise check by a stated step, or is listed as
undetectable in ``docs/metrics.md``.

The smallest size finds most faults at step 1 and runs daily; the other sizes are marked as repeats."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.config import TrainingConfig
from engine.federated import client_update, server
from engine.privacy import gaussian_sampler, mechanisms
from engine.records import NoiseCheck
from engine.seeds import Secrets
from engine.training.batches import Batch
from engine.training.dpsgd import DPSGD, StepStatistics
from engine.training.optimisers import Optimiser
from tests.engine.privacy.runs_to_sabotage import SIZED, Ways, checked, federated, shards, sized, verdict_of

Patch = pytest.MonkeyPatch
Noise = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def at_sizes(limits: dict[str, dict[int, int]], daily: int = 20_000) -> list[Any]:
    """Pair each fault with its sizes and the step at which it must be found; one size runs daily."""
    return [
        pytest.param(fault, size, step, id=f"{fault}-{size}", marks=() if size == daily else pytest.mark.repeats)
        for fault, steps in limits.items()
        for size, step in steps.items()
    ]


def at_once(faults: Iterable[str]) -> dict[str, dict[int, int]]:
    return {fault: dict.fromkeys(SIZED, 1) for fault in faults}


def found_by(run: DPSGD, steps: int) -> NoiseCheck:
    """Return the failed check; the step of the failure is at most ``steps``."""
    found = checked(run, steps)
    assert found.failed
    return found


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize(
    "size", [size if size == 20_000 else pytest.param(size, marks=pytest.mark.repeats) for size in SIZED]
)
def test_correct_runs_pass(size: int, optimiser: str) -> None:
    for seed, sigma in ((1, 0.5), (2, 30.0)):
        training = TrainingConfig(optimiser=optimiser, learning_rate=0.05)
        found = checked(sized(size, training=training, seed=seed, noise_multiplier=sigma), 24)
        assert found.faults == ()
        assert found.draws_compared >= 24 * (1024 // 32 + 16)
        assert found.sampling_compared >= 24 * 256


# Precision and tails


def noise_becomes(change: Noise) -> Callable[[Patch], None]:
    """Replace the generator's noise: change(noise, sum, std) → noise; the sum is without the noise."""

    def breaks(patch: Patch) -> None:
        honest = gaussian_sampler.add_normal

        def broken(total: np.ndarray, key: np.ndarray, std: float) -> None:
            noise = np.zeros_like(total)
            honest(noise, key, std)
            total += change(noise, total.copy(), float(std)).astype(np.float32)

        patch.setattr(gaussian_sampler, "add_normal", broken)

    return breaks


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Round float32 values to the nearest number of eight binary digits."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def on_a_grid(noise: np.ndarray, step: float) -> np.ndarray:
    return np.rint(noise / step) * step


def redrawn(noise: np.ndarray, limit: float) -> np.ndarray:
    """Draw the values beyond a limit again, within it."""
    noise, beyond = noise.copy(), np.abs(noise) > limit
    noise[beyond] = np.random.default_rng(5).uniform(-limit, limit, int(beyond.sum()))
    return noise


PRECISION: dict[str, Callable[[Patch], None]] = {
    "bfloat16": noise_becomes(lambda noise, total, std: bfloat16(noise)),
    "float16": noise_becomes(lambda noise, total, std: noise.astype(np.float16).astype(np.float32)),
    "standard_draws_in_float16": noise_becomes(
        lambda noise, total, std: std * (noise / np.float32(std)).astype(np.float16).astype(np.float32)
    ),
    "sum_and_noise_in_bfloat16": noise_becomes(lambda noise, total, std: bfloat16(total + noise) - total),
    "grid_of_a_32nd": noise_becomes(lambda noise, total, std: on_a_grid(noise, std / 32)),
    "grid_of_a_1024th": noise_becomes(lambda noise, total, std: on_a_grid(noise, std / 1024)),
    "grid_of_a_4096th": noise_becomes(lambda noise, total, std: on_a_grid(noise, std / 4096)),
}


@pytest.mark.parametrize(("fault", "size", "step"), at_sizes(at_once(PRECISION)))
def test_imprecise_noise_is_found(fault: str, size: int, step: int, monkeypatch: Patch) -> None:
    PRECISION[fault](monkeypatch)
    found = found_by(sized(size), step)
    assert "draw of its key" in " ".join(found.faults)


CUTS = {
    2.5: {20_000: 1, 300_000: 2, 1_000_000: 2},
    3.0: {20_000: 4, 300_000: 32, 1_000_000: 32},
    3.5: {20_000: 4, 300_000: 137, 1_000_000: 68},
    4.0: {20_000: 8, 300_000: 137, 1_000_000: 68},
    4.5: {20_000: 64, 300_000: 274, 1_000_000: 68},
}
"""Step by which noise truncated at so many standard deviations is found, by number of weights."""


@pytest.mark.parametrize("how", ["clipped", "redrawn"])
@pytest.mark.parametrize(
    ("cut", "size", "step"),
    [
        pytest.param(cut, size, step, marks=() if size == 20_000 else pytest.mark.repeats)
        for cut, steps in CUTS.items()
        for size, step in steps.items()
    ],
)
def test_truncated_noise_is_found(cut: float, size: int, step: int, how: str, monkeypatch: Patch) -> None:
    noise_becomes(
        lambda noise, total, std: (
            np.clip(noise, -cut * std, cut * std) if how == "clipped" else redrawn(noise, cut * std)
        )
    )(monkeypatch)
    found_by(sized(size), step)


def test_noise_truncated_at_five_deviations_is_undetectable_with_few_draws() -> None:
    """A run with 20,000 weights compares 0.4 draws beyond five deviations on average, with 300,000 weights 6."""
    expected = {}
    for size in SIZED:
        watch = sized(size).monitor.watch
        whole = sum(watch.is_whole(step) for step in range(watch.steps))
        expected[size] = whole * size * 2 * stats.norm.sf(5)
    assert expected[20_000] == pytest.approx(0.4, abs=0.05)
    assert expected[300_000] > 5
    assert expected[1_000_000] > 15


# Reuse


def of_before(make: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Patch], None]:
    """From the second step on, the noise is make(noise, noise of the step before)."""

    def breaks(patch: Patch) -> None:
        kept: dict[str, np.ndarray] = {}

        def change(noise: np.ndarray, total: np.ndarray, std: float) -> np.ndarray:
            made = make(noise, kept["noise"]) if "noise" in kept else noise
            kept["noise"] = made
            return made

        noise_becomes(change)(patch)

    return breaks


REUSE: dict[str, Callable[[Patch], None]] = {
    "shifted_by_one_weight": of_before(lambda noise, before: np.roll(before, 1)),
    "shifted_by_1000_weights": of_before(lambda noise, before: np.roll(before, 1000)),
    "remembered_by_a_hundredth": of_before(lambda noise, before: 0.99995 * noise + 0.01 * before),
    "restarted_after_2048_draws": noise_becomes(lambda noise, *_: np.resize(noise[:2048], noise.size)),
    "restarted_after_16000_draws": noise_becomes(lambda noise, *_: np.resize(noise[:16_000], noise.size)),
    "mirrored_from_the_middle": noise_becomes(
        lambda noise, *_: np.concatenate([noise[: noise.size // 2], -noise[: noise.size - noise.size // 2]])
    ),
}


@pytest.mark.parametrize(("fault", "size", "step"), at_sizes({fault: dict.fromkeys(SIZED, 2) for fault in REUSE}))
def test_reused_draws_are_found(fault: str, size: int, step: int, monkeypatch: Patch) -> None:
    REUSE[fault](monkeypatch)
    found = found_by(sized(size), step)
    assert "draw of its key" in " ".join(found.faults)


def keys_of(change: Callable[[str, dict[str, int]], dict[str, int]]) -> Callable[[Patch], None]:
    """Derive each key from other numbers: change(name, keys) → keys. The check derives the same wrong keys."""

    def breaks(patch: Patch) -> None:
        honest = Secrets.stream
        patch.setattr(Secrets, "stream", lambda self, name, **keys: honest(self, name, **change(name, keys)))

    return breaks


KEYS = {
    "every_37_steps": keys_of(lambda name, keys: {**keys, **({"step": keys["step"] % 37} if "step" in keys else {})}),
    "one_key": keys_of(lambda name, keys: {}),
    "one_key_of_samples": keys_of(lambda name, keys: {} if name == "sampling" else keys),
}


@pytest.mark.parametrize(
    ("fault", "size", "step"),
    at_sizes({fault: dict.fromkeys(SIZED, 38 if "37" in fault else 2) for fault in KEYS}),
)
def test_key_that_recurs_is_found(fault: str, size: int, step: int, monkeypatch: Patch) -> None:
    KEYS[fault](monkeypatch)
    found = found_by(sized(size), step)
    assert "used the key of step 1 again" in " ".join(found.faults)


def test_noise_of_the_key_of_samples_is_found(monkeypatch: Patch) -> None:
    honest = Secrets.stream
    monkeypatch.setattr(
        Secrets, "stream", lambda self, name, **keys: honest(self, name.replace("sampling", "noise"), **keys)
    )
    found = found_by(sized(20_000), 1)
    assert "Step 1 used the key of step 1 again" in " ".join(found.faults)


@pytest.mark.parametrize("size", [20_000, pytest.param(300_000, marks=pytest.mark.repeats)])
def test_correct_clients_pass(size: int) -> None:
    assert verdict_of(shards(size)).faults == ()


@pytest.mark.parametrize("size", [20_000, *(pytest.param(size, marks=pytest.mark.repeats) for size in SIZED)][:1])
def test_clients_that_share_keys_are_found(size: int, monkeypatch: Patch) -> None:
    monkeypatch.setattr(Secrets, "of", lambda self, **keys: self)
    found = verdict_of(shards(size))
    assert any("used the key of step 1 again" in fault for fault in found.faults)


def test_silos_that_share_keys_are_found() -> None:
    one, other = sized(20_000), sized(20_000)
    assert one.monitor
    assert other.monitor
    one.monitor.others, other.monitor.others = [other.monitor], [one.monitor]
    assert not checked(one, 1).failed
    found = found_by(other, 1)
    assert "the key of another client again" in " ".join(found.faults)


@pytest.mark.parametrize("mechanism", ["dp-fedavg", "local"])
@pytest.mark.parametrize("forgotten", ["round", "client"])
def test_rounds_or_clients_that_share_noise_are_found(mechanism: str, forgotten: str, monkeypatch: Patch) -> None:
    """In the noise alone, and in the names of the keys, which the check derives too."""
    if (mechanism, forgotten) == ("dp-fedavg", "client"):
        forgotten = "round"
    honest = client_update.server_noise
    for module in (client_update, server):
        monkeypatch.setattr(
            module,
            "server_noise",
            lambda plan, size, streams, **keys: honest(plan, size, streams, **{**keys, forgotten: 0}),
        )
    assert "draw of its key" in " ".join(verdict_of(federated(mechanism)).faults)
    monkeypatch.undo()
    keys_of(lambda name, keys: {key: number for key, number in keys.items() if key != forgotten})(monkeypatch)
    assert "used the key of step" in " ".join(verdict_of(federated(mechanism)).faults)


# Samples


def sampled(change: Callable[[DPSGD, np.ndarray, int], np.ndarray]) -> Callable[[Patch], None]:
    def breaks(patch: Patch) -> None:
        sample = DPSGD.sample
        patch.setattr(DPSGD, "sample", lambda self, step: change(self, sample(self, step), step))

    return breaks


def favoured(sentences: np.ndarray, probability: float, step: int, sentence: int = 17) -> np.ndarray:
    """Add a sentence to three in ten of the samples that hold it by chance."""
    chance = 0.3 * probability / (1 - probability)
    extra = np.random.default_rng(step).random() < chance
    return np.union1d(sentences, [sentence]) if extra else sentences


def pairs_apart(sentences: np.ndarray) -> np.ndarray:
    """Leave out a sentence with an odd number if the one before is in the sample."""
    return sentences[~((sentences % 2 == 1) & np.isin(sentences - 1, sentences))]


SAMPLING = {
    "pairs_drawn_together": sampled(
        lambda run, drawn, step: np.flatnonzero(np.isin(np.arange(14_041) // 2, drawn // 2))
    ),
    "pairs_drawn_apart": sampled(lambda run, drawn, step: pairs_apart(drawn)),
    "one_sentence_favoured": sampled(lambda run, drawn, step: favoured(drawn, run.plan.sampling_probability, step)),
    "fifty_sentences_favoured": sampled(
        lambda run, drawn, step: np.unique(
            np.concatenate(
                [favoured(drawn, run.plan.sampling_probability, 50 * step + each, each) for each in range(50)]
            )
        )
    ),
    "one_pair_drawn_together": sampled(
        lambda run, drawn, step: np.union1d(drawn, [8, 9]) if np.isin([8, 9], drawn).any() else drawn
    ),
    "the_sample_of_the_step_before_is_left_out": sampled(
        lambda run, drawn, step: (
            np.setdiff1d(
                drawn,
                mechanisms.poisson_sample(
                    run.streams.stream("sampling", step=step - 1), 14_041, run.plan.sampling_probability
                ),
            )
            if step
            else drawn
        )
    ),
}
SAMPLING_FOUND = {
    "pairs_drawn_together": {20_000: 1, 300_000: 1, 1_000_000: 1},
    "pairs_drawn_apart": {20_000: 1, 300_000: 4388, 1_000_000: 512},
    "one_sentence_favoured": {20_000: 137, 300_000: 4388, 1_000_000: 2194},
    "fifty_sentences_favoured": {20_000: 4, 300_000: 128, 1_000_000: 64},
    "one_pair_drawn_together": {20_000: 64, 300_000: 2048, 1_000_000: 1024},
    "the_sample_of_the_step_before_is_left_out": {20_000: 2, 300_000: 4388, 1_000_000: 1024},
}
"""Step by which a fault of the samples is found. The sizes differ in their batches: 1,024, 32 and 64."""


@pytest.mark.parametrize(("fault", "size", "step"), at_sizes(SAMPLING_FOUND))
def test_dependent_samples_are_found(fault: str, size: int, step: int, monkeypatch: Patch) -> None:
    """Gradients are skipped: only samples are checked."""
    SAMPLING[fault](monkeypatch)
    run = sized(size)
    assert run.monitor
    for number in range(step):
        key = run.streams.stream("sampling", step=number).key  # type: ignore[union-attr]
        run.monitor.saw_sample(run.sample(number), key=key)
        if run.monitor.state["misdrawn"][0]:
            break
    assert "draw of its key" in " ".join(run.monitor.verdict().faults)


# Settings that follow private values


def after_each_step(change: Callable[[DPSGD, StepStatistics], None]) -> Callable[[Patch], None]:
    """Call change(run, statistics) after each step; its losses are those of the private sentences."""

    def breaks(patch: Patch) -> None:
        honest = DPSGD.step

        def broken(self: DPSGD, step: int) -> StepStatistics:
            seen = honest(self, step)
            change(self, seen)
            return seen

        patch.setattr(DPSGD, "step", broken)

    return breaks


def _configured(run: DPSGD, seen: StepStatistics) -> None:
    config = run.optimiser.config
    rate = config.learning_rate * (1 - 0.001 * float(seen.losses.mean()))
    run.optimiser.config = replace(config, learning_rate=rate)


def _planned(run: DPSGD, **change: Any) -> None:
    run.plan = replace(run.plan, **change)


def _moved_by_loss(patch: Patch) -> None:
    """Scale each update by a factor that follows the losses of its sentences."""
    clipped, move, factor = DPSGD.clipped_sum, Optimiser.move, [1.0]

    def watched(self: DPSGD, sentences: np.ndarray, *more: Any, **how: Any) -> Any:
        total, seen = clipped(self, sentences, *more, **how)
        factor[0] = 1 - 0.001 * float(seen.losses.mean())
        return total, seen

    patch.setattr(DPSGD, "clipped_sum", watched)
    patch.setattr(
        Optimiser,
        "move",
        lambda self, weights, gradient, step: move(self, weights, gradient * np.float32(factor[0]), step),
    )


def _clipped_by_loss(patch: Patch) -> None:
    """Lower the clip norm of the back end after each step, as the losses demand."""
    gradient, bound = Ways.clipped_gradient, [1.0]

    def lowered(self: Ways, weights: np.ndarray, batch: Batch, clip: float | None, by_layer: bool = False) -> Any:
        return gradient(self, weights, batch, clip and clip * bound[0], by_layer)

    patch.setattr(Ways, "clipped_gradient", lowered)

    def follow(run: DPSGD, seen: StepStatistics) -> None:
        bound[0] = 1 - 0.1 * float(seen.losses.mean())

    after_each_step(follow)(patch)


def _clipped_by_batch(patch: Patch) -> None:
    """Clip to the median norm of the batch, if it is below C."""
    gradient = Ways.clipped_gradient

    def lowered(self: Ways, weights: np.ndarray, batch: Batch, clip: float | None, by_layer: bool = False) -> Any:
        median = float(np.median((batch.tags[batch.offsets] + 1) / 20))
        return gradient(self, weights, batch, clip and min(clip, 0.9 * median), by_layer)

    patch.setattr(Ways, "clipped_gradient", lowered)


FOLLOWING: dict[str, tuple[Callable[[Patch], None], dict[int, int]]] = {
    "learning_rate_of_the_settings": (after_each_step(_configured), dict.fromkeys(SIZED, 2)),
    "learning_rate_of_the_update": (_moved_by_loss, dict.fromkeys(SIZED, 1)),
    "clip_norm_of_the_plan": (
        after_each_step(lambda run, seen: _planned(run, clip_norm=0.1 - 1e-6 * float(seen.losses.mean()))),
        dict.fromkeys(SIZED, 2),
    ),
    "batch_size_of_the_plan": (
        after_each_step(lambda run, seen: _planned(run, batch_size=run.plan.batch_size + (seen.losses.mean() > 0.1))),
        dict.fromkeys(SIZED, 2),
    ),
    "clip_norm_of_the_gradients": (_clipped_by_loss, {20_000: 92, 300_000: 1463, 1_000_000: 732}),
    "clip_norm_of_each_batch": (_clipped_by_batch, dict.fromkeys(SIZED, 1)),
}


@pytest.mark.parametrize(("fault", "size", "step"), at_sizes({fault: steps for fault, (_, steps) in FOLLOWING.items()}))
def test_settings_that_follow_private_values_are_found(fault: str, size: int, step: int, monkeypatch: Patch) -> None:
    FOLLOWING[fault][0](monkeypatch)
    found_by(sized(size), step)


def test_step_beyond_the_plan_is_found() -> None:
    """A run that goes on until its losses are low enough takes more steps than were accounted for."""
    run = sized(20_000)
    assert run.monitor
    run.monitor.state["sizes"][0, 2] = run.plan.steps
    run.monitor.state["steps"][0] = run.plan.steps
    run.step(run.plan.steps)
    assert "more than the 137 of its plan" in " ".join(run.monitor.verdict().faults)
