"""Records of earlier versions claim no more than a record of this version would."""

import dataclasses
from contextlib import closing

import pytest

from engine.config import FederationConfig, SimulationConfig, run_id
from engine.config.mechanism_registry import ADD_OR_REMOVE, ZERO_OUT
from engine.records import PrivacySpent, Run, RunState, RunStatus, assumption_texts
from engine.store import published
from engine.store.earlier_records import provenance_of, restated
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, provenance, record

WHOLE = dataclasses.replace(SMALL, data_fraction=1.0)


def earlier(number: int = 2):
    """Return a record as version 0.6.0 stored it."""
    privacy = PrivacySpent(epsilon=1.0, delta=1e-5, assumptions=(assumption_texts.PUBLIC, "other"))
    return dataclasses.replace(record(number), privacy=privacy)


@pytest.mark.parametrize("corpus", ["synthetic", "conll2003", "ade@3", "wnut17 + btc"])
def test_records_of_public_corpora_keep_their_assumptions(corpus):
    config = dataclasses.replace(WHOLE, corpus=corpus)
    assert restated(config, earlier()).privacy.assumptions == earlier().privacy.assumptions


@pytest.mark.parametrize("corpus", ["my-notes", "my-notes@3", "/data/notes.conll", "synthetic + my-notes"])
def test_records_of_own_corpora_do_not_claim_their_entity_types(corpus):
    """Until version 0.6.0 all records stated that tag names are public, also for uploads."""
    config = dataclasses.replace(WHOLE, corpus=corpus)
    stated = restated(config, earlier())
    public, undeclared, other = stated.privacy.assumptions
    assert "tag names" not in public
    assert (undeclared, other) == (assumption_texts.UNDECLARED_TYPES, "other")
    assert stated.privacy.neighbouring == ZERO_OUT
    assert restated(config, stated) == stated
    declared = earlier().with_own_types(declared=True)
    assert assumption_texts.DECLARED_TYPES in declared.privacy.assumptions
    adjacency = ZERO_OUT if corpus.endswith("@3") else ADD_OR_REMOVE
    assert restated(config, declared).privacy == dataclasses.replace(declared.privacy, neighbouring=adjacency)


@pytest.mark.parametrize(
    ("changes", "adjacency"),
    [
        ({}, ADD_OR_REMOVE),
        ({"corpus": "conll2003"}, ADD_OR_REMOVE),
        ({"corpus": "wikigold"}, ZERO_OUT),
        ({"corpus": "ade@3"}, ZERO_OUT),
        ({"data_fraction": 0.5}, ZERO_OUT),
        ({"data_fraction": 0.5, "federation": FederationConfig(partition="independent")}, ADD_OR_REMOVE),
    ],
)
def test_adjacency_of_a_split_by_the_program_is_zero_out(changes, adjacency):
    stated = restated(dataclasses.replace(WHOLE, **changes), earlier())
    assert stated.privacy == dataclasses.replace(earlier().privacy, neighbouring=adjacency)


def test_stored_and_published_records_are_restated(tmp_path):
    config, expected = dataclasses.replace(WHOLE, data_fraction=0.5), [ZERO_OUT] * 3
    with closing(RunStore(f"sqlite:///{tmp_path / 'runs.sqlite'}")) as store:
        store.submit("a", config, "checksum")
        claim = store.claim("a", "here")
        for number in range(3):
            store.append(claim, earlier(number))
        assert [each.privacy.neighbouring for each in store.records("a")] == expected
        assert [each.privacy.neighbouring for each in store.get("a").records] == expected
        assert store.last_records(["a"])["a"].privacy.neighbouring == ZERO_OUT

    identity = run_id(config, "0" * 64, "1")
    status = RunStatus(run_id=identity, state=RunState.DONE)
    records = tuple(map(earlier, range(3)))
    run = Run(run_id=identity, config=config, status=status, records=records, provenance=provenance())
    published.write(run, tmp_path)
    for _ in range(2):  # from the file, then from the index
        (found,) = published.read_all(tmp_path).runs
        assert [each.privacy.neighbouring for each in found.records] == expected
        assert found.records[-1].privacy.neighbouring == ZERO_OUT


def test_client_level_records_keep_their_adjacency():
    spent = dataclasses.replace(earlier().privacy, unit="client", neighbouring=ADD_OR_REMOVE)
    of_clients = dataclasses.replace(earlier(), privacy=spent)
    assert restated(SMALL, of_clients) == of_clients


@pytest.mark.parametrize(
    ("fields", "command", "expected"),
    [
        ({"clients": 5}, "engine train --clients 5", "engine train --clients 5 --partition random"),
        ({"clients": 5, "partition": "independent"}, "engine train --clients 5", "engine train --clients 5"),
        ({}, "engine train", "engine train"),
        ({"corpus": "synthetic + btc"}, "engine train --platform …", "engine train --platform …"),
    ],
)
def test_stored_commands_give_their_run(fields: dict[str, object], command: str, expected: str) -> None:
    """Up to version 0.7.0, clients had equal sizes unless a command named a partition."""
    values = dataclasses.asdict(provenance()) | {"command": command}
    read = provenance_of(SimulationConfig.from_flat(fields), values)
    assert read.command == expected
    assert provenance_of(SimulationConfig.from_flat(fields), dataclasses.asdict(read)) == read
