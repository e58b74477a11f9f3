"""Databases with damaged rows, of old versions and of the current one."""

import json
import sqlite3

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import EpsilonError
from engine.store.run_store import RunStore
from tests.engine.factories import SMALL, record
from tests.engine.fuzz.mutation import ODD_VALUES, altered, answered, as_json, fuzzed
from tests.engine.store.test_migrations import AGAIN, FIRST, WAITING, database

RECORD = json.loads(json.dumps(record(1).to_dict()))
COLUMNS = ("config", "corpus_checksum", "state", "stage", "progress", "created", "error", "provenance", "attempts")
ODD = [value for value in ODD_VALUES if not isinstance(value, list | dict) and value not in (10**400, "\ud800")]


@pytest.mark.repeats(area="processes")
@fuzzed
@given(
    version=st.sampled_from([1, 2]),
    column=st.sampled_from(COLUMNS),
    value=st.sampled_from(ODD) | st.binary(max_size=9) | altered(SMALL.to_dict()).map(as_json).map(bytes.decode),
    body=altered(RECORD).map(as_json).map(bytes.decode) | st.binary(max_size=9),
)
@example(version=2, column="config", value="[" * 100_000, body="[" * 100_000)
@example(version=2, column="provenance", value="[1]", body='{"round": Infinity}')
def test_damaged_rows_do_not_hide_other_rows(tmp_path_factory, version, column, value, body):
    path = tmp_path_factory.mktemp("old") / "runs.sqlite"
    address = database(path, version)
    with sqlite3.connect(path) as connection:
        try:
            connection.execute(f"UPDATE runs SET {column} = ? WHERE run_id = ?", (value, AGAIN))
        except (sqlite3.IntegrityError, OverflowError):  # the column takes no such value
            return
        connection.execute("UPDATE records SET body = ? WHERE run_id = ? AND round = 1", (body, FIRST))
    connection.close()
    store = RunStore(address)
    listed = answered(lambda: store.newest(10))
    assert not isinstance(listed, EpsilonError), listed
    assert {FIRST, WAITING} <= {run.run_id for run in listed[0]}
    for identity in (FIRST, AGAIN):
        answered(lambda identity=identity: store.get(identity))
        answered(lambda identity=identity: store.status(identity))
    answered(lambda: store.last_records([FIRST, AGAIN]))
    answered(lambda: store.claim(AGAIN, "here"))
    assert answered(lambda: store.get(WAITING)).config.seed == 1
    store.close()
