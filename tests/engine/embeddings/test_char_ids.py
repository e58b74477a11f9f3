"""Character ids of a fixed alphabet, from the corpus to a tagger that reads only characters."""

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


def test_the_alphabet_is_fixed_and_what_it_lacks_is_one_character() -> None:
    assert len(ALPHABET) == 95
    assert NUMBER == OTHER + 1 == 97
    found = spelt(["Ab ~", "", "\u00e9\u732b", "x" * 50])
    assert found.dtype == np.uint8
    assert found[0, :5].tolist() == [1 + ord("A") - 32, 1 + ord("b") - 32, 1, 95, 0]
    assert not found[1].any()
    assert found[2, :3].tolist() == [1 + ord("e") - 32, OTHER, 0]
    assert (found[3] == 1 + ord("x") - 32).sum() == LONGEST == found.shape[1]


def test_a_corpus_is_spelt_once(trained_settings, monkeypatch) -> None:
    handle = corpus.resolve("synthetic", trained_settings)
    encoded = prepare(SimulationConfig(), trained_settings).sides[0].encoded
    first = with_characters(encoded, handle)
    monkeypatch.setattr(type(handle), "load", lambda self: pytest.fail("its spelling is there"))
    again = with_characters(encoded, handle)
    monkeypatch.undo()
    for part in ("train", "validation", "test"):
        words = [token for sentence in getattr(handle.load(), part) for token in sentence.tokens]
        for found in (getattr(first, part), getattr(again, part)):
            np.testing.assert_array_equal(found.spelling[found.forms], spelt(words))
            np.testing.assert_array_equal(found.rows, getattr(encoded, part).rows)
    assert len(first.train.spelling) < 0.2 * len(first.train.forms)


def characters_alone(sizes: Sizes) -> Tagger:
    return Tagger(
        sizes.dimensions,
        (
            Node("letters", CharacterPool(NUMBER, 8, 24, 1), (CHARACTERS,)),
            Node("scores", Dense(24, sizes.tags), ("letters",)),
        ),
        CRF(sizes.tags),
    )


class TestATaggerThatReadsCharacters:
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
            build=characters_alone,
        )
        monkeypatch.setitem(KINDS, "letters", kind)
        flat = {"tagger": "letters", "data_fraction": 0.1, "epochs": 3.0, "noise_multiplier": 0.0, "optimiser": "adam"}
        return SimulationConfig.from_flat(flat | {"learning_rate": 0.02})

    @pytest.mark.parametrize("backend", ["compiled", pytest.param("tensorflow", marks=pytest.mark.repeats)])
    def test_learns_names_from_their_spelling(self, config, trained_settings, backend) -> None:
        last = list(simulate(config, dataclasses.replace(trained_settings, backend=backend)))[-1]
        assert last.test is not None
        assert last.test.f1 > 0.2
