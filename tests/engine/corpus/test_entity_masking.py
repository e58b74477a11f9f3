"""Masking of entities that several clients have in common, in training sets only."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from engine import corpus
from engine.config import FederationConfig, PrivacyConfig, SimulationConfig
from engine.corpus import Sentence
from engine.corpus.entity_masking import MASK, chosen_names, known_twice, masked, names
from engine.errors import InvalidConfig
from engine.federated.plan import plan_of
from engine.settings import Settings


def lines(*sentences: str) -> str:
    """Words with a type behind a slash; of several words joined by _ each is of the name."""
    found = []
    for sentence in sentences:
        for word in sentence.split():
            text, _, kind = word.partition("/")
            for number, token in enumerate(text.split("_")):
                found.append(f"{token} {'BI'[number > 0]}-{kind}" if kind else f"{token} O")
        found.append("")
    return "\n".join(found) + "\n"


@pytest.fixture
def two(tmp_path) -> str:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, train, rest in (
        (one, ["take Aspirin/Drug", "lithium_salt/Drug helps", "Zinc/Drug or Iron/Drug"], ["ASPIRIN/Drug again"]),
        (other, ["aspirin/Chemical hurts", "Lithium_Salt/Cure", "gold/Chemical", "zinc is free"], ["iron/Chemical"]),
    ):
        folder.mkdir()
        (folder / "train.conll").write_text(lines(*train))
        (folder / "valid.conll").write_text(lines(*rest))
        (folder / "test.conll").write_text(lines(*rest))
    return f"{one} + {other}"


def config_of(name: str, share: float) -> SimulationConfig:
    return SimulationConfig(corpus=name, federation=FederationConfig(masked=share))


def test_known_twice_ignores_case_and_type(two: str, settings: Settings) -> None:
    parts = [part.load() for part in corpus.resolve(two, settings).parts]
    assert known_twice(parts) == {"aspirin", "lithium salt"}  # iron is tested there, not trained on; zinc is no name


def test_all_words_of_the_name_are_replaced_and_its_tags_stay(two: str, settings: Settings) -> None:
    whole = corpus.of_run(config_of(two, 0.0), settings)
    found = corpus.of_run(config_of(two, 1.0), settings)
    one, other = (part.load() for part in found.parts)
    assert [sentence.tokens for sentence in one.train] == [
        ("take", MASK),
        (MASK, MASK, "helps"),
        ("Zinc", "or", "Iron"),
    ]
    assert other.train[1].tokens == (MASK, MASK)
    for masked_part, part in zip((one, other), (each.load() for each in whole.parts), strict=True):
        assert [s.tags for s in masked_part.train] == [s.tags for s in part.train]
        assert (masked_part.validation, masked_part.test) == (part.validation, part.test)
        assert masked_part.checksum != part.checksum


def test_masking_changes_checksum_and_run_id(two: str, settings: Settings) -> None:
    found = [corpus.of_run(config_of(two, share), settings) for share in (0.0, 0.5, 1.0)]
    assert len({each.checksum for each in found}) == 3
    assert len({part.checksum for each in found for part in each.parts}) == 6
    assert found[1].checksum == corpus.of_run(config_of(two, 0.5), settings).checksum
    np.testing.assert_array_equal(np.concatenate(found[0].own), np.concatenate(found[2].own))
    assert [part.train_sentences for part in found[2].parts] == [3, 4]


def test_a_larger_share_holds_a_smaller_one() -> None:
    known = {f"name {number}" for number in range(40)}
    some = [chosen_names(known, share) for share in (0.0, 0.01, 0.25, 0.26, 1.0)]
    assert [len(each) for each in some] == [0, 1, 10, 11, 40]  # rounded up
    assert some[0] < some[1] < some[2] < some[3] < some[4] == known


def test_adjacent_entities_are_masked_separately() -> None:
    sentence = Sentence(("a", "b", "c"), ("B-X", "B-X", "I-X"))
    assert [name for name, _, _ in names(sentence)] == ["a", "b c"]
    assert masked(sentence, {"b c"}).tokens == ("a", MASK, MASK)


def test_remote_worker_masks_the_shared_copy(two: str, settings: Settings, tmp_path) -> None:
    shared = replace(settings, shared="memory://masked")
    config = config_of(two, 1.0)
    found = corpus.of_run(config, shared)
    found.share()
    for part in two.split(" + "):
        shutil.rmtree(part)
    there = corpus.of_run(config, replace(shared, home=tmp_path / "there"), found.checksum)
    assert there.checksum == found.checksum
    assert there.parts[0].load().train[0].tokens == ("take", MASK)


def test_without_platforms_there_is_nothing_in_common() -> None:
    with pytest.raises(InvalidConfig, match=r"masked=0\.5, .*\b0: only clients"):
        SimulationConfig(federation=FederationConfig(masked=0.5))
    with pytest.raises(InvalidConfig, match="masked"):
        FederationConfig(masked=1.5)


def test_with_noise_nothing_is_masked(two: str, settings: Settings) -> None:
    """One sentence of another platform changes the words of many: no noise for one sentence hides that."""
    config = config_of(two, 1.0)
    assert config.privacy.private
    found = corpus.of_run(config, settings)
    with pytest.raises(InvalidConfig, match=r"masked=1, expected 0 .*noise"):
        plan_of(config, found)
    whole = replace(config.privacy, mechanism="dp-fedavg")
    with pytest.raises(InvalidConfig, match=r"masked=1, expected 0 .*noise"):
        plan_of(replace(config, privacy=whole), found)
    training = replace(config.training, batch_size=1)
    assert plan_of(replace(config, privacy=PrivacyConfig(noise_multiplier=0.0), training=training), found).steps
