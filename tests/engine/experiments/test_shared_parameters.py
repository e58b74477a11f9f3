"""The reported shared layers equal those that the tagger shares."""

from dataclasses import replace

import pytest

from engine.config import NOTHING
from engine.corpus.catalogue import NAMED
from engine.errors import InvalidConfig
from engine.experiments import shared_parameters
from engine.experiments.papers import fedner_2020
from engine.settings import Settings
from engine.simulation.setup import prepare
from engine.taggers import splits_of

ALL = "characters,convolution,lstm,scores"


@pytest.mark.parametrize(
    ("shared", "scheme"),
    [("lstm", "bio2"), ("characters,convolution", "bio2,bioes"), (NOTHING, "bioes"), (ALL, "bio2"), (ALL, "bioes")],
)
@pytest.mark.repeats(after=1)
def test_parts_have_the_sizes_of_the_trained_tagger(
    shared: str, scheme: str, trained_settings: Settings, tmp_path
) -> None:
    file = tmp_path / "drugs.conll"
    rows = (f"Dose O\n{w} B-Drug\nAnna B-PER\n\n" for w in ("Aspirin", "Zinc", "Iron", "Salt") * 10)
    file.write_text("".join(rows))
    base = fedner_2020.federated("cnn-clstm-crf", shared=shared)
    tagger = replace(base.tagger, hidden_size=6, scheme=scheme)
    config = replace(base, tagger=tagger, corpus=f"synthetic + {file}", federation=replace(base.federation, clients=2))
    types = [("DATE", "LOC", "ORG", "PER"), ("Drug", "PER")]  # PER is common: five types in total
    for platform, side in enumerate(prepare(config, trained_settings).sides):
        parts = shared_parameters.parts(config, types, platform)
        assert sum(part.weights for part in parts) == side.tagger.size
        assert shared_parameters.sent(parts) == side.tagger.shared.stop
        assert {part.name for part in parts if part.leaves} == (set() if shared == NOTHING else set(shared.split(",")))


@pytest.mark.parametrize("tagger", [fedner_2020.TAGGER, fedner_2020.SMALL])
def test_only_the_last_part_depends_on_the_entity_types(tagger: str) -> None:
    config = fedner_2020.live(["ade", "psytar"], tagger, splits_of(tagger)[0], fedner_2020.UNPROTECTED)
    few, many = (shared_parameters.parts(config, [types, ()]) for types in (("A",), ("A", "B", "C", "D")))
    assert [part.name for part in few] == list(splits_of(tagger))
    assert few[:-1] == many[:-1]
    assert few[-1].weights < many[-1].weights


def test_parts_refuses_an_unknown_part() -> None:
    config = fedner_2020.live(["ade", "psytar"], fedner_2020.SMALL, "lstm", fedner_2020.UNPROTECTED)
    with pytest.raises(InvalidConfig, match="shared='lstm'"):
        shared_parameters.parts(config, [("A",), ("B",)])


@pytest.mark.parametrize(("tagger", "weights"), [(fedner_2020.SMALL, 78_908), (fedner_2020.TAGGER, 1_183_480)])
def test_shared_scores_have_the_entity_types_of_all_clients(tagger: str, weights: int) -> None:
    """ADE has three types, PsyTAR four and BC5CDR two, all with different names."""
    config = fedner_2020.live(list(fedner_2020.PLATFORMS), tagger, ",".join(splits_of(tagger)), fedner_2020.UNPROTECTED)
    types = [NAMED[name].entity_types for name in fedner_2020.PLATFORMS]
    for platform in range(3):
        parts = shared_parameters.parts(config, types, platform)
        assert shared_parameters.sent(parts) == sum(part.weights for part in parts) == weights
