"""Features from the public NER model."""

import numpy as np
import pytest

from engine import embeddings
from engine.embeddings.ner_features import SIZE, TYPES, found_names
from engine.errors import VectorsMissing

MERKEL = ["Angela", "Merkel", "visited", "Paris", "."]
NOTHING = ["it", "rains"]


def bit(kind: str, inside: bool = False) -> int:
    return 2 * TYPES.index(kind) + inside


@pytest.fixture(scope="module")
def package():
    return embeddings.find("en_core_web_md").folder


def test_features_mark_type_and_position_of_entities(package) -> None:
    progress_values: list[float] = []
    features = found_names(package, [MERKEL, NOTHING], progress_values.append)
    assert features.shape == (7, SIZE)
    assert features.dtype == np.float32
    assert np.argwhere(features).tolist() == [[0, bit("PERSON")], [1, bit("PERSON", True)], [3, bit("GPE")]]
    assert progress_values[-1] == 1


def test_features_do_not_depend_on_other_sentences(package) -> None:
    """Otherwise one private sentence would influence the features of another one."""
    separate = found_names(package, [MERKEL])
    together = found_names(package, [["Merkel", "Ltd", "rose"], MERKEL, MERKEL * 3])
    assert (together[3:8] == separate).all()


def test_features_equal_those_of_the_whole_package(package) -> None:
    """The model is loaded without the package's words and vectors; it gets the vectors of the words that are read."""
    import spacy

    sentences = [
        *(
            MERKEL,
            NOTHING,
            ["xqzzyblorp", "Wjkwrtzuiop"],
            ["😀"],
            ["Deutsche", "Bank", "paid", "$", "3", "million", "."],
        ),
        *(["On", "Friday", name, "met", "the", "Dutch", "in", "Kentucky"] for name in ("Obama", "Wjkwrtzuiop")),
    ]
    whole = spacy.load(package)
    expected = [
        (number, entity.start, entity.end, entity.label_)
        for number, words in enumerate(sentences)
        for entity in whole(spacy.tokens.Doc(whole.vocab, words=words)).ents
    ]
    assert len(expected) > 8
    features, first = found_names(package, sentences), 0
    for number, words in enumerate(sentences):
        wanted = np.zeros((len(words), SIZE))
        for _, start, end, kind in (each for each in expected if each[0] == number):
            wanted[start, bit(kind)] = 1
            wanted[start + 1 : end, bit(kind, inside=True)] = 1
        np.testing.assert_array_equal(features[first : first + len(words)], wanted)
        first += len(words)


def test_types_equal_those_of_the_package(package) -> None:
    import json

    assert json.loads((package / "meta.json").read_text())["labels"]["ner"] == sorted(TYPES)


def test_a_package_without_ner_component_is_refused(tmp_path) -> None:
    with pytest.raises(VectorsMissing, match="without spaCy's NER component"):
        found_names(tmp_path, [MERKEL])
