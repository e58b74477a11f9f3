"""Gradient leakage from updates of the training code: all words without noise, fewer with more noise."""

import time
from dataclasses import replace

import pytest

from engine.errors import InvalidConfig
from engine.lessons import gradient_leakage
from engine.lessons.gradient_leakage import NOISE, Setting, by_noise, read
from engine.privacy.audit import gradient_inversion


def f1(reading) -> float:
    return 2 * reading.right / max(1, reading.said + reading.there)


@pytest.mark.parametrize(
    "setting",
    [
        Setting(sentences=1),
        Setting(),
        Setting(sentences=16, clip_norm=None),
        Setting(sentences=32, clip_norm=0.01),
        Setting(sentences=4, steps=8),
        Setting(sentences=4, steps=2, clip_norm=None, seed=3),
        Setting(sentences=16, steps=4),
        Setting(clients=20, seed=1),
        Setting(clients=5, steps=2),
    ],
    ids=str,
)
def test_without_noise_exactly_all_words_leak(lesson_model, setting):
    reading = read(lesson_model, setting)
    assert 0 < reading.there < 300
    assert reading.said == reading.right == reading.there == reading.rank
    assert (reading.precision, reading.recall, reading.by_update) == (1.0, 1.0, True)
    assert reading.names_read == reading.names
    words = [known for sentence in reading.sentences for _, known in sentence]
    assert len(reading.sentences) == setting.sentences * setting.steps
    assert True in words
    assert False not in words


def test_ground_truth_is_the_words_of_the_sentences(lesson_model):
    reading = read(lesson_model, Setting(sentences=8))
    texts = [tuple(word for word, _ in sentence) for sentence in reading.sentences]
    assert set(texts) <= set(lesson_model.words)
    rows = {
        row
        for number, words in enumerate(lesson_model.words)
        if words in texts
        for row in lesson_model.split.rows[lesson_model.split.offsets[number] : lesson_model.split.offsets[number + 1]]
    }
    vectors = {lesson_model.table[row].tobytes() for row in rows if lesson_model.table[row].any()}
    assert reading.there == len(vectors)
    assert 0 < reading.names < reading.there


def test_secure_aggregation_of_many_clients_leaks_nothing(lesson_model):
    shares = []
    for clients in (1, 20, 100):
        readings = by_noise(lesson_model, Setting(clients=clients))
        shares.append([reading.by_update for reading in readings])
    assert shares[0][:3] == [True] * 3
    assert shares[1][0]
    assert not any(shares[2])
    full = read(lesson_model, Setting(clients=100))
    guessed = read(lesson_model, Setting(clients=100, noise_multiplier=1.0))
    assert full.there > 300
    assert (full.said, full.right) == (guessed.said, guessed.right)  # frequent words, guessed without the update


@pytest.mark.parametrize("setting", [Setting(), Setting(sentences=8, seed=2), Setting(steps=4), Setting(clients=5)])
def test_more_noise_leaks_less(lesson_model, setting):
    readings = by_noise(lesson_model, setting)
    assert [reading.setting.noise_multiplier for reading in readings] == list(NOISE)
    scores = [f1(reading) for reading in readings]
    assert scores[0] == 1
    for place, score in enumerate(scores):
        assert score <= min(scores[:place], default=1) + 0.12
    assert not readings[-1].by_update
    assert scores[-1] < 0.7
    assert readings[-1].names_read < 0.8 * readings[-1].names
    used = [reading.by_update for reading in readings]
    assert used == sorted(used, reverse=True)


def test_single_reading_equals_reading_in_sweep(lesson_model):
    setting = Setting(sentences=8)
    for reading in by_noise(lesson_model, setting):
        if reading.by_update:
            assert read(lesson_model, reading.setting) == reading
    assert len(by_noise(lesson_model, replace(setting, clip_norm=None))) == 1


def test_noise_is_added_to_each_coordinate(lesson_model, monkeypatch):
    """The subspace found from matrix products is that of the noisy gradient itself."""
    seen = []
    first = gradient_inversion.first_kernels
    monkeypatch.setattr(gradient_inversion, "first_kernels", lambda *given: seen.append(first(*given)) or seen[-1])
    setting = Setting(sentences=3, steps=2, clients=3, noise_multiplier=1e-4, seed=7)
    reading = read(lesson_model, setting)
    assert setting.noise_std == pytest.approx(1e-4 * 1.5 * 6**0.5)
    noise = gradient_leakage._noise(300, 800, 7)[0]
    assert noise.std() == pytest.approx(1, abs=0.005)
    direct = [gradient_inversion.space_of(each + setting.noise_std * noise, setting.noise_std).rank for each in seen]
    assert reading.by_update
    assert reading.rank in direct


def test_ahead_fills_the_cache(lesson_model):
    settings = tuple(Setting(sentences=3, seed=seed) for seed in (11, 12))
    run = gradient_leakage.ahead(lesson_model, settings)
    deadline = time.monotonic() + 60
    while not run.poll().done:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    misses = by_noise.cache_info().misses
    for setting in settings:
        by_noise(lesson_model, setting)
    assert by_noise.cache_info().misses == misses


@pytest.mark.parametrize(
    "field", [{"sentences": 0}, {"steps": 0}, {"clients": 0}, {"clip_norm": 0.0}, {"noise_multiplier": -1.0}]
)
def test_setting_rejects_out_of_range_values(field):
    with pytest.raises(InvalidConfig, match=next(iter(field))):
        Setting(**field)


def test_noise_requires_clipping():
    with pytest.raises(InvalidConfig, match="noise_multiplier"):
        Setting(clip_norm=None, noise_multiplier=1.0)
