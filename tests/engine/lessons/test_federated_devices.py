"""Partition, availability and selection of devices, counted one by one; and rounds of a real run."""

import itertools

import numpy as np
import pytest

from engine import corpus
from engine.config import SYNTHETIC
from engine.corpus.sentences import entities
from engine.errors import InvalidConfig
from engine.lessons import federated
from engine.lessons.background_task import Snapshot
from engine.lessons.federated import AT_MOST, CONDITIONS, DEVICES, Setting, devices, heard, play, ready
from engine.seeds import Seeds


@pytest.fixture(scope="module")
def world(lesson_model, lesson_settings):
    return federated._world(lesson_settings, False)


@pytest.fixture(scope="module")
def sentences(lesson_settings):
    return corpus.resolve(SYNTHETIC, lesson_settings).parts[0].load()


def about_places(sentence) -> bool:
    counts = dict.fromkeys(("DATE", "LOC", "ORG", "PER"), 0)
    for kind, _, _ in entities(sentence.tags):
        counts[kind] += 1
    return 0 < counts["LOC"] == max(counts.values())


class TestDevices:
    def test_road_devices_hold_location_sentences(self, world, sentences):
        owners = devices(Setting(road=25), world)
        assert owners.road.sum() == 10
        for part, numbers in ((sentences.train, owners.own), (sentences.validation, owners.others)):
            for device, road in enumerate(owners.road):
                assert {about_places(part[number]) for number in numbers[device]} == {road}

    @pytest.mark.parametrize("road", [0, 25, 50])
    def test_each_sentence_is_on_one_device(self, world, road):
        own = devices(Setting(road=road), world).own
        assert len(np.unique(own)) == own.size == DEVICES * 30

    def test_changed_shares_keep_other_devices(self, world):
        few, many = devices(Setting(road=20, other=10), world), devices(Setting(road=45, other=30), world)
        same = ~(few.road ^ many.road)
        assert 0 < same.sum() < DEVICES
        np.testing.assert_array_equal(few.own[same], many.own[same])
        assert not (few.road & ~many.road).any()
        assert not (few.other & ~many.other).any()
        assert many.other.sum() == 12

    def test_other_devices_tag_persons_only(self, world, sentences):
        split, names = world.encoded.validation, world.encoded.tags
        other = np.arange(len(split)) % 2 == 0
        tags = world.tagged(split, other).tags
        for number in range(40):
            own = [names[tag] for tag in tags[split.offsets[number] : split.offsets[number + 1]]]
            given = sentences.validation[number].tags
            assert own == ([tag if "PER" in tag else "O" for tag in given] if other[number] else list(given))


class TestReady:
    def test_availability_rates_match_the_model(self, monkeypatch):
        monkeypatch.setattr(federated, "ROUNDS", 20_000)
        road = np.arange(DEVICES) < 10
        wifi, charging, both = (
            ready(Setting(conditions=some), road).mean(0) for some in (("Wi-Fi",), ("charging",), ("charging", "Wi-Fi"))
        )
        np.testing.assert_allclose(wifi, 0.6, atol=0.02)
        np.testing.assert_allclose(charging, np.where(road, 0.4 * 0.7, 0.6 * 0.7 + 0.4 * 0.05), atol=0.02)
        np.testing.assert_allclose(both, np.where(road, 0, 0.6 * 0.7), atol=0.02)
        np.testing.assert_allclose(
            np.sort(ready(Setting(conditions=("idle",)), road).mean(0)), np.linspace(0.2, 0.9, DEVICES), atol=0.02
        )

    def test_conditions_are_combined_by_and(self):
        road = np.zeros(DEVICES, dtype=bool)
        for some in itertools.chain.from_iterable(itertools.combinations(CONDITIONS, n) for n in range(4)):
            found = np.logical_and.reduce(
                [ready(Setting(conditions=(each,)), road) for each in some] or [ready(Setting(conditions=()), road)]
            )
            np.testing.assert_array_equal(found, ready(Setting(conditions=some), road))
        assert ready(Setting(conditions=()), road).all()

    def test_server_samples_available_devices(self):
        may = ready(Setting(), np.arange(DEVICES) < 10)
        for there, chosen in zip(may, heard(Setting(), may), strict=True):
            assert len(chosen) == min(AT_MOST, there.sum())
            assert there[chosen].all()
            assert chosen == sorted(set(chosen))


class TestPlay:
    @pytest.fixture
    def short(self, monkeypatch):
        monkeypatch.setattr(federated, "ROUNDS", 2)

    def test_two_rounds_are_consistent_and_reproducible(self, short, lesson_settings, lesson_model):
        setting = Setting(other=50)
        rounds = [each for each in play(setting, lesson_settings, print) if each]
        assert [each.number for each in rounds] == [0, 1]
        owners = devices(setting, federated._world(lesson_settings, False))
        for each, so_far in zip(rounds, (1, 2), strict=True):
            counts = [sum(device in one.heard for one in rounds[:so_far]) for device in range(DEVICES)]
            assert list(each.visits) == counts
            assert each.never == counts.count(0)
            assert not owners.road[list(each.heard)].any()
            low, high = sorted((each.f1_road, each.f1_rest))
            assert low <= each.f1 <= high
        assert rounds[1].f1 > 0.1
        assert rounds[0].weights == federated._world(lesson_settings, False).tagger.size
        assert [each for each in play(setting, lesson_settings, print) if each] == rounds

    def test_without_road_devices_there_is_no_road_f1(self, short, lesson_settings, lesson_model):
        first = next(each for each in play(Setting(road=0), lesson_settings, print) if each)
        assert first.f1_road is None
        assert first.f1 == first.f1_rest

    def test_private_head_stays_on_its_device(self, world, lesson_settings):
        own = federated._world(lesson_settings, True)
        setting = Setting(personal=True)
        owners = devices(setting, own)
        run, holdings = federated._federation(setting, own, owners, [[3, 7]])
        before = run.weights.copy()
        sent = [each.exchange for each in run.train() if each.exchange]
        common = own.tagger.shared.stop
        assert common < own.tagger.size == world.tagger.size
        assert sent[0].bytes_up == 2 * 4 * common
        changed = [not np.array_equal(before[each.private_slice], run.weights[each.private_slice]) for each in holdings]
        assert np.flatnonzero(changed).tolist() == [3, 7]
        assert not np.array_equal(run.weights[holdings[3].private_slice], run.weights[holdings[7].private_slice])
        assert not np.array_equal(before[:common], run.weights[:common])

    def test_server_averages_weights(self, world):
        """Two devices alone, each a federation of one: the mean of their shared weights is the result of both."""
        setting = Setting()
        owners = devices(setting, world)
        ends = []
        for rounds in ([[3]], [[7]], [[3, 7]]):
            run, _ = federated._federation(setting, world, owners, rounds)
            np.testing.assert_array_equal(run.weights, world.tagger.initial_weights(Seeds(0).stream("initial weights")))
            for _ in run.train():
                pass
            ends.append(run.weights.astype(np.float64))
        np.testing.assert_allclose(ends[2], (ends[0] + ends[1]) / 2, atol=1e-6)

    def test_equal_settings_share_one_run(self, short, lesson_settings, lesson_model):
        run = federated.live(Setting(road=10), lesson_settings)
        assert federated.live(Setting(road=10), lesson_settings) is run
        assert isinstance(run.poll(), Snapshot)


@pytest.mark.parametrize("field", [{"conditions": ("asleep",)}, {"road": 101}, {"other": -1}])
def test_setting_rejects_out_of_range_values(field):
    with pytest.raises(InvalidConfig, match=next(iter(field))):
        Setting(**field)
