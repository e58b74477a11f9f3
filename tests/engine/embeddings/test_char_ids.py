"""Character ids of a fixed alphabet, from the corpus to a tagger with characters as its only input."""

import dataclasses

import numpy as np
import pytest

from engine import corpus
from engine.config import SimulationConfig
from engine.embeddings.char_ids import LONGEST, spelt, with_characters
from engine.simulation.run import simulate
from engine.simulation.setup import prepare
from engine.taggers import KINDS, TaggerKind
from engine.taggers.base import Sizes
from engine.taggers.char_vocab import ALPHABET, NUMBER, OTHER
from engine.taggers.layers import CHARACTERS, CRF, CharacterPool, Dense
from engine.taggers.tagger import Node, Tagger


def test_alphabet_is_fixed_and_other_characters_share_one_id() -> None:
    assert len(ALPHABET) == 95
    assert NUMBER == OTHER + 1 == 97
    ids = spelt(["Ab ~", "", "\u00e9\u732b", "x" * 50])
    assert ids.dtype == np.uint8
    assert ids[0, :5].tolist() == [1 + ord("A") - 32, 1 + ord("b") - 32, 1, 95, 0]
    assert not ids[1].any()
    assert ids[2, :3].tolist() == [1 + ord("e") - 32, OTHER, 0]
    assert (ids[3] == 1 + ord("x") - 32).sum() == LONGEST == ids.shape[1]


def test_character_ids_of_a_corpus_are_computed_once(trained_settings, monkeypatch) -> None:
    handle = corpus.resolve("synthetic", trained_settings)
    encoded = prepare(SimulationConfig(), trained_settings).sides[0].encoded
    first = with_characters(encoded, handle)
    monkeypatch.setattr(type(handle), "load", lambda self: pytest.fail("the corpus is loaded again"))
    again = with_characters(encoded, handle)
    monkeypatch.undo()
    for part in ("train", "validation", "test"):
        words = [token for sentence in getattr(handle.load(), part) for token in sentence.tokens]
        for split in (getattr(first, part), getattr(again, part)):
            np.testing.assert_array_equal(split.spelling[split.forms], spelt(words))
            np.testing.assert_array_equal(split.rows, getattr(encoded, part).rows)
    assert len(first.train.spelling) < 0.2 * len(first.train.forms)


def character_tagger(sizes: Sizes) -> Tagger:
    return Tagger(
        sizes.dimensions,
        (
            Node("letters", CharacterPool(NUMBER, 8, 24, 1), (CHARACTERS,)),
            Node("scores", Dense(24, sizes.tags), ("letters",)),
        ),
        CRF(sizes.tags),
    )


class TestCharacterTagger:
    @pytest.fixture
    def config(self, monkeypatch) -> SimulationConfig:
        kind = TaggerKind(
            name="letters",
            title="Letters",
            short="letters",
            note="Nothing but characters.",
            fields=(),
            chain=True,
            family="letters",
            paper=None,
            build=character_tagger,
        )
        monkeypatch.setitem(KINDS, "letters", kind)
        flat = {"tagger": "letters", "data_fraction": 0.1, "epochs": 3.0, "noise_multiplier": 0.0, "optimiser": "adam"}
        return SimulationConfig.from_flat(flat | {"learning_rate": 0.02})

    @pytest.mark.parametrize("backend", ["compiled", pytest.param("tensorflow", marks=pytest.mark.repeats)])
    def test_learns_entities_from_their_spelling(self, config, trained_settings, backend) -> None:
        last = list(simulate(config, dataclasses.replace(trained_settings, backend=backend)))[-1]
        assert last.test is not None
        assert last.test.f1 > 0.2
