"""Saved taggers of neighbouring corpora differ in nothing but their weights, which alone are protected by noise."""

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.config import PrivacyConfig, TaggerConfig, TrainingConfig
from engine.privacy.accounting import epsilon
from engine.privacy.plan import PrivacyPlan
from engine.records.assumption_texts import DECLARED_TYPES, UNDECLARED_TYPES
from engine.simulation.run import simulate
from tests.engine.factories import SMALL

USUAL = "".join(f"{name} B-PER\nlives O\nin O\nUlm B-LOC\n\n" for name in ("Rosa", "Ada", "Max", "Ida") * 10)
LAST = "Ben B-PER\nlives O\nin O\nBonn B-LOC\n\n"
ODD = (
    "".join(f"word{number} O\n" for number in range(200))
    + "Ωmega-ß B-RARE\n"
    + "x" * 90
    + " I-RARE\nRenée B-VERY-RARE\nLUPUS O\n\n"
)
"""A sentence that is the longest, and alone has its types, characters, word lengths and word shapes."""
TAGGERS = {"cnn-clstm-crf": "vectors", "mlp-crf": "shapes", "bilstm-tddl": "vectors"}


@pytest.fixture
def tagger_of(tmp_path, trained_settings):
    """Return a function that trains on a folder with these training sentences, and saves the tagger."""

    def train(name: str, sentences: str, declaration: str = "", sampling: str = "poisson"):
        folder, path = tmp_path / "corpus", tmp_path / "tagger.npz"
        folder.mkdir(exist_ok=True)
        for part in ("train", "dev", "test"):
            (folder / f"{part}.txt").write_text(declaration + (sentences if part == "train" else USUAL))
        config = replace(
            SMALL,
            corpus=str(folder),
            data_fraction=1.0,
            features=TAGGERS[name],
            tagger=TaggerConfig(name=name, hidden_size=4),
            training=TrainingConfig(batch_size=8, epochs=0.5),
            privacy=PrivacyConfig(noise_multiplier=1.0, sampling=sampling),
        )
        models = []
        *_, last = simulate(config, trained_settings, on_model=models.append)
        models[0].save(path)
        with np.load(path) as file:
            return config, last, json.loads(str(file["head"])), path.stat().st_size

    return train


DECLARED = "# entity types: LOC PER\n# undeclared types: O\n"


@pytest.mark.parametrize("name", TAGGERS)
@pytest.mark.repeats
def test_one_sentence_changes_neither_length_nor_head_of_the_tagger(tagger_of, name):
    """The corpora have equally many sentences: that number is public, and ε in the head depends on it."""
    _, _, head, size = tagger_of(name, USUAL + LAST, DECLARED)
    _, _, other_head, other_size = tagger_of(name, USUAL + ODD, DECLARED)
    assert (other_head, other_size) == (head, size)


def test_one_more_sentence_changes_epsilon_alone(tagger_of):
    config, last, head, size = tagger_of("mlp-crf", USUAL, DECLARED)
    _, more, other_head, other_size = tagger_of("mlp-crf", USUAL + ODD, DECLARED)
    assert other_size == size
    for record, made, number in ((last, head, 40), (more, other_head, 41)):
        plan = PrivacyPlan.from_config(config, number)
        assert made.pop("epsilon") == record.privacy.epsilon == epsilon(plan, plan.steps)
    assert other_head == head


def test_record_states_whether_the_types_are_declared(tagger_of):
    _, declared, _, _ = tagger_of("mlp-crf", USUAL, DECLARED)
    assert DECLARED_TYPES in declared.privacy.assumptions
    _, undeclared, head, _ = tagger_of("mlp-crf", USUAL + ODD)
    assert "B-RARE" in head["tags"]
    assert UNDECLARED_TYPES in undeclared.privacy.assumptions
    assert not any("tag names" in text for text in (*declared.privacy.assumptions, *undeclared.privacy.assumptions))
