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


def test_names_are_told_by_type_and_place(package) -> None:
    told: list[float] = []
    found = found_names(package, [MERKEL, NOTHING], told.append)
    assert found.shape == (7, SIZE)
    assert found.dtype == np.float32
    assert np.argwhere(found).tolist() == [[0, bit("PERSON")], [1, bit("PERSON", True)], [3, bit("GPE")]]
    assert told[-1] == 1


def test_a_sentence_is_read_by_itself(package) -> None:
    """Else one private sentence would stand in another one's features."""
    alone = found_names(package, [MERKEL])
    among = found_names(package, [["Merkel", "Ltd", "rose"], MERKEL, MERKEL * 3])
    assert (among[3:8] == alone).all()


def test_the_types_are_those_of_the_package(package) -> None:
    import json

    assert json.loads((package / "meta.json").read_text())["labels"]["ner"] == sorted(TYPES)


def test_a_package_without_a_finder_is_said(tmp_path) -> None:
    with pytest.raises(VectorsMissing, match="without spaCy's NER component"):
        found_names(tmp_path, [MERKEL])
