"""Masking of entities that several clients have in common, in their training sets only."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from engine import corpus
from engine.config import FederationConfig, PrivacyConfig, SimulationConfig
from engine.corpus import Sentence
from engine.corpus.multi_corpus import MASK, chosen_names, known_twice, masked, names
from engine.errors import InvalidConfig
from engine.federated.plan import plan_of
from engine.settings import Settings


def lines(*sentences: str) -> str:
    """Return column lines of sentences: ``word/TYPE`` is an entity, and ``_`` joins its words."""
    rows = []
    for sentence in sentences:
        for word in sentence.split():
            text, _, kind = word.partition("/")
            for number, token in enumerate(text.split("_")):
                rows.append(f"{token} {'BI'[number > 0]}-{kind}" if kind else f"{token} O")
        rows.append("")
    return "\n".join(rows) + "\n"


@pytest.fixture
def two_corpora(tmp_path) -> str:
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


def test_known_twice_ignores_case_and_type(two_corpora: str, settings: Settings) -> None:
    parts = [part.load() for part in corpus.resolve(two_corpora, settings).parts]
    assert known_twice(parts) == {"aspirin", "lithium salt"}  # iron is in a test set only; zinc is tagged once


def test_masking_replaces_all_words_of_an_entity_and_keeps_tags(two_corpora: str, settings: Settings) -> None:
    whole = corpus.of_run(config_of(two_corpora, 0.0), settings)
    corpora = corpus.of_run(config_of(two_corpora, 1.0), settings)
    one, other = (part.load() for part in corpora.parts)
    assert [sentence.tokens for sentence in one.train] == [
        ("take", MASK),
        (MASK, MASK, "helps"),
        ("Zinc", "or", "Iron"),
    ]
    assert other.train[1].tokens == (MASK, MASK)
    for masked_part, part in zip((one, other), (item.load() for item in whole.parts), strict=True):
        assert [s.tags for s in masked_part.train] == [s.tags for s in part.train]
        assert (masked_part.validation, masked_part.test) == (part.validation, part.test)
        assert masked_part.checksum != part.checksum


def test_masking_changes_checksum_and_run_id(two_corpora: str, settings: Settings) -> None:
    corpora = [corpus.of_run(config_of(two_corpora, share), settings) for share in (0.0, 0.5, 1.0)]
    assert len({item.checksum for item in corpora}) == 3
    assert len({part.checksum for item in corpora for part in item.parts}) == 6
    assert corpora[1].checksum == corpus.of_run(config_of(two_corpora, 0.5), settings).checksum
    np.testing.assert_array_equal(np.concatenate(corpora[0].own), np.concatenate(corpora[2].own))
    assert [part.train_sentences for part in corpora[2].parts] == [3, 4]


def test_chosen_names_are_nested_for_larger_shares() -> None:
    names_in_common = {f"name {number}" for number in range(40)}
    chosen = [chosen_names(names_in_common, share) for share in (0.0, 0.01, 0.25, 0.26, 1.0)]
    assert [len(item) for item in chosen] == [0, 1, 10, 11, 40]  # rounded up
    assert chosen[0] < chosen[1] < chosen[2] < chosen[3] < chosen[4] == names_in_common


def test_adjacent_entities_are_masked_separately() -> None:
    sentence = Sentence(("a", "b", "c"), ("B-X", "B-X", "I-X"))
    assert [name for name, _, _ in names(sentence)] == ["a", "b c"]
    assert masked(sentence, {"b c"}).tokens == ("a", MASK, MASK)


def test_remote_worker_masks_the_shared_copy(two_corpora: str, settings: Settings, tmp_path) -> None:
    shared = replace(settings, shared="memory://masked")
    config = config_of(two_corpora, 1.0)
    corpora = corpus.of_run(config, shared)
    corpora.share()
    for part in two_corpora.split(" + "):
        shutil.rmtree(part)
    remote = corpus.of_run(config, replace(shared, home=tmp_path / "there"), corpora.checksum)
    assert remote.checksum == corpora.checksum
    assert remote.parts[0].load().train[0].tokens == ("take", MASK)


def test_masking_is_refused_without_silos() -> None:
    with pytest.raises(InvalidConfig, match=r"masked=0\.5, .*\b0: only clients"):
        SimulationConfig(federation=FederationConfig(masked=0.5))
    with pytest.raises(InvalidConfig, match="masked"):
        FederationConfig(masked=1.5)


def test_masking_is_refused_with_noise(two_corpora: str, settings: Settings) -> None:
    """One sentence of another silo changes the words of many, which noise for one sentence does not hide."""
    config = config_of(two_corpora, 1.0)
    assert config.privacy.private
    corpora = corpus.of_run(config, settings)
    with pytest.raises(InvalidConfig, match=r"masked=1, expected 0 .*noise"):
        plan_of(config, corpora)
    client_level = replace(config.privacy, mechanism="dp-fedavg")
    with pytest.raises(InvalidConfig, match=r"masked=1, expected 0 .*noise"):
        plan_of(replace(config, privacy=client_level), corpora)
    training = replace(config.training, batch_size=1)
    assert plan_of(replace(config, privacy=PrivacyConfig(noise_multiplier=0.0), training=training), corpora).steps
