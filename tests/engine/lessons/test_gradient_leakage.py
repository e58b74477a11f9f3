"""What a curious server reads in updates that the training code made: all words without noise, and less with more."""

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
def test_without_noise_all_words_and_only_these(bench, setting):
    reading = read(bench, setting)
    assert 0 < reading.there < 300
    assert reading.said == reading.right == reading.there == reading.rank
    assert (reading.precision, reading.recall, reading.by_update) == (1.0, 1.0, True)
    assert reading.names_read == reading.names
    words = [known for sentence in reading.sentences for _, known in sentence]
    assert len(reading.sentences) == setting.sentences * setting.steps
    assert True in words
    assert False not in words


def test_what_is_there_is_what_the_sentences_say(bench):
    reading = read(bench, Setting(sentences=8))
    texts = [tuple(word for word, _ in sentence) for sentence in reading.sentences]
    assert set(texts) <= set(bench.words)
    rows = {
        row
        for number, words in enumerate(bench.words)
        if words in texts
        for row in bench.split.rows[bench.split.offsets[number] : bench.split.offsets[number + 1]]
    }
    vectors = {bench.table[row].tobytes() for row in rows if bench.table[row].any()}
    assert reading.there == len(vectors)
    assert 0 < reading.names < reading.there


def test_a_secure_sum_fills_the_space_until_nothing_is_told(bench):
    shares = []
    for clients in (1, 20, 100):
        readings = by_noise(bench, Setting(clients=clients))
        shares.append([reading.by_update for reading in readings])
    assert shares[0][:3] == [True] * 3
    assert shares[1][0]
    assert not any(shares[2])
    full = read(bench, Setting(clients=100))
    guessed = read(bench, Setting(clients=100, noise_multiplier=1.0))
    assert full.there > 300
    assert (full.said, full.right) == (guessed.said, guessed.right)  # frequent words, named without the update


@pytest.mark.parametrize("setting", [Setting(), Setting(sentences=8, seed=2), Setting(steps=4), Setting(clients=5)])
def test_more_noise_never_helps_by_much(bench, setting):
    readings = by_noise(bench, setting)
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


def test_one_reading_is_the_same_alone_and_among_others(bench):
    setting = Setting(sentences=8)
    for reading in by_noise(bench, setting):
        if reading.by_update:
            assert read(bench, reading.setting) == reading
    assert len(by_noise(bench, replace(setting, clip_norm=None))) == 1


def test_the_noise_is_added_to_each_value_of_the_sum(bench, monkeypatch):
    """The space found from products of matrices is that of the noised gradient itself."""
    seen = []
    first = gradient_inversion.first_kernels
    monkeypatch.setattr(gradient_inversion, "first_kernels", lambda *given: seen.append(first(*given)) or seen[-1])
    setting = Setting(sentences=3, steps=2, clients=3, noise_multiplier=1e-4, seed=7)
    reading = read(bench, setting)
    assert setting.noise_std == pytest.approx(1e-4 * 1.5 * 6**0.5)
    noise = gradient_leakage._noise(300, 800, 7)[0]
    assert noise.std() == pytest.approx(1, abs=0.005)
    direct = [gradient_inversion.space_of(each + setting.noise_std * noise, setting.noise_std).rank for each in seen]
    assert reading.by_update
    assert reading.rank in direct


def test_what_may_come_next_is_there_when_it_comes(bench):
    settings = tuple(Setting(sentences=3, seed=seed) for seed in (11, 12))
    run = gradient_leakage.ahead(bench, settings)
    deadline = time.monotonic() + 60
    while not run.poll().done:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    misses = by_noise.cache_info().misses
    for setting in settings:
        by_noise(bench, setting)
    assert by_noise.cache_info().misses == misses


@pytest.mark.parametrize(
    "field", [{"sentences": 0}, {"steps": 0}, {"clients": 0}, {"clip_norm": 0.0}, {"noise_multiplier": -1.0}]
)
def test_what_cannot_be_is_refused(field):
    with pytest.raises(InvalidConfig, match=next(iter(field))):
        Setting(**field)


def test_noise_wants_clipping():
    with pytest.raises(InvalidConfig, match="noise_multiplier"):
        Setting(clip_norm=None, noise_multiplier=1.0)
