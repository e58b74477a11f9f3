"""A training whose corpus is not available is described by its record."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.config import SimulationConfig
from engine.config.mechanism_registry import ADD_OR_REMOVE, ZERO_OUT
from engine.errors import CorpusError
from engine.records import PrivacySpent, RunState
from engine.service.preview_service import PreviewService


@pytest.mark.parametrize("published", [True, False])
def test_error_on_a_missing_corpus_names_the_partition_of_published_runs(published: bool) -> None:
    equal = SimulationConfig.from_flat({"corpus": "conll2003", "clients": 5})
    independent = SimulationConfig.from_flat(equal.flat() | {"partition": "independent"})

    def missing(_: object) -> None:
        raise CorpusError("corpus='conll2003' is not available.")

    def find(config: SimulationConfig) -> object:
        return SimpleNamespace(published=True) if published and config == equal else None

    queries = SimpleNamespace(find=find, corpus=missing)
    with pytest.raises(CorpusError, match="is not available") as error:
        PreviewService(cast(Any, None), cast(Any, queries)).preview(independent)
    assert ("choose the data partition 'Random, equal sizes'" in str(error.value)) == published


@pytest.mark.parametrize("neighbouring", [ADD_OR_REMOVE, ZERO_OUT])
def test_scenario_without_the_corpus_has_the_adjacency_of_the_record(neighbouring: str) -> None:
    """Only the record knows whether the program split the corpus."""

    def missing(_: object) -> None:
        raise CorpusError("corpus='own-1' is not available")

    last = SimpleNamespace(privacy=PrivacySpent(epsilon=1.0, delta=1e-5, neighbouring=neighbouring), noise_check=None)
    run = SimpleNamespace(
        config=SimulationConfig.from_flat({"corpus": "own-1", "noise_multiplier": 1.0}),
        records=(last,),
        status=SimpleNamespace(state=RunState.DONE),
        provenance=SimpleNamespace(train_sentences=1_000, corpus_checksum="0"),
    )
    queries = SimpleNamespace(get=lambda _: run, find=lambda _: None, corpus=missing)
    training = PreviewService(cast(Any, None), cast(Any, queries)).scenario("0")
    assert training.has_zero_out_adjacency == (neighbouring == ZERO_OUT)
