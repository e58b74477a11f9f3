"""The index of published runs saves time and changes no answer, whatever happens to it."""

import dataclasses
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.config import run_id
from engine.errors import StoreError
from engine.records import Run
from engine.service import Application
from engine.store import published, published_index
from engine.store.published import Published
from tests.engine.factories import SMALL, check, provenance, record
from tests.engine.store.test_published import finished


def with_seed(seed: int) -> Run:
    config = dataclasses.replace(SMALL, seed=seed)
    return dataclasses.replace(finished(), run_id=run_id(config, "0" * 64, "1"), config=config)


class Folder:
    """Published runs, read as a program would that has just been started."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files, self.index = path / "published", path / "home" / published_index.NAME
        self.opened: list[str] = []
        read = published.from_dict

        def counted(values: dict) -> Run:
            self.opened.append(values["run_id"])
            return read(values)

        monkeypatch.setattr(published, "from_dict", counted)

    def read(self) -> Published:
        published._seen.clear()
        published._read_files.cache_clear()
        published._read.cache_clear()
        self.opened.clear()
        return published.read_all(self.files, self.index)

    def add(self, *seeds: int) -> list[Path]:
        return [published.write(with_seed(seed), self.files) for seed in seeds]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    made = Folder(tmp_path, monkeypatch)
    made.files.mkdir()
    yield made
    published._seen.clear()


def seeds(found: Published) -> list[int]:
    return sorted(run.config.seed for run in found.runs)


def test_a_file_is_opened_once_and_then_for_its_records_alone(folder):
    folder.add(1, 2)
    assert seeds(folder.read()) == [1, 2]
    assert len(folder.opened) == 2
    found = folder.read()
    assert seeds(found) == [1, 2]
    for run in found.runs:
        whole = with_seed(run.config.seed)
        assert dataclasses.replace(run, records=()) == dataclasses.replace(
            whole, records=(), published=True, status=run.status
        )
        assert run.provenance == provenance()
        assert len(run.records) == 3
        assert run.final == whole.records[-1] == run.records[2]
    assert folder.opened == []
    run = found.runs[0]
    assert run.records == with_seed(run.config.seed).records
    assert folder.opened == [run.run_id]
    assert [each.round for each in run.records] == [0, 1, 2]
    assert run.records[0] == record(0)
    assert list(run.records[:2]) == [record(0), record(1)]
    assert run.records != with_seed(9).records[:2]


def test_only_what_is_new_or_changed_is_opened(folder):
    first, second = folder.add(1, 2)
    folder.read()
    folder.add(3)
    first.unlink()
    second.write_text(second.read_text() + "\n")
    assert seeds(folder.read()) == [2, 3]
    assert sorted(folder.opened) == sorted([with_seed(2).run_id, with_seed(3).run_id])
    assert seeds(folder.read()) == [2, 3]
    assert folder.opened == []


def test_a_changed_file_is_not_believed_though_size_and_time_are_the_old_ones(folder):
    (path,) = folder.add(1)
    folder.read()
    before = path.stat()
    text = path.read_text().replace('"seed": 1\n', '"seed": 7\n')
    assert len(text) == before.st_size
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = folder.read()
    assert not found.runs
    assert "configuration and corpus give" in found.problems[0]


@pytest.mark.parametrize("failed", [None, check("The noise is not there.")])
def test_a_private_run_that_loses_its_noise_check_is_no_longer_believed(folder, failed):
    (path,) = folder.add(1)
    assert seeds(folder.read()) == [1]
    values = json.loads(path.read_text())
    values["records"][-1]["noise_check"] = failed.to_dict() if failed else None
    path.write_text(json.dumps(values))
    for _ in range(2):
        found = folder.read()
        assert not found.runs
        assert "without a noise check" in found.problems[0]


def test_what_is_broken_is_said_at_each_start(folder):
    folder.add(1)
    (folder.files / "broken.json").write_text("{")
    for _ in range(3):
        found = folder.read()
        assert seeds(found) == [1]
        assert all(part in found.problems[0] for part in ("broken.json", "skipped"))
    assert folder.opened == []


def test_rows_of_other_code_are_not_believed(folder, monkeypatch):
    folder.add(1)
    folder.read()
    monkeypatch.setattr(published_index, "_rules", lambda: "other code")
    assert seeds(folder.read()) == [1]
    assert len(folder.opened) == 1
    folder.read()
    assert folder.opened == []


def test_two_folders_keep_out_of_each_others_way(folder, tmp_path):
    folder.add(1)
    folder.read()
    other = tmp_path / "other"
    published.write(with_seed(2), other)
    assert seeds(published.read_all(other, folder.index)) == [2]
    assert seeds(folder.read()) == [1]
    assert folder.opened == []


class TestHarm:
    """Whatever becomes of the index: the same runs, no problem, and an index again where there can be one."""

    @pytest.mark.parametrize(
        "harm",
        [
            lambda index: index.write_bytes(b"no database, but long enough to be looked at " * 300),
            lambda index: index.write_bytes(index.read_bytes()[:5000]),
            lambda index: index.write_bytes(index.read_bytes()[:1024] + b"\xff" * 60_000),
            lambda index: index.write_bytes(b""),
            lambda index: index.unlink(),
        ],
        ids=["another file", "cut off", "overwritten", "empty", "gone"],
    )
    def test_it_is_made_anew(self, folder, harm):
        folder.add(1, 2)
        folder.read()
        harm(folder.index)
        found = folder.read()
        assert (seeds(found), found.problems) == ([1, 2], ())
        assert [run.records[-1] for run in found.runs] == [record(2)] * 2
        folder.read()
        assert folder.opened == []

    @pytest.mark.parametrize("column", ["about", "last"])
    @pytest.mark.parametrize("value", [b"", b"\x00" * 40, 7, None, "text", published_index.packed({"config": 1})])
    def test_rows_that_are_damaged_are_read_from_their_files(self, folder, column, value):
        folder.add(1)
        folder.read()
        with closing(sqlite3.connect(folder.index)) as connection, connection:
            connection.execute(f"UPDATE {published_index._TABLE} SET {column} = ?", (value,))
        (run,) = folder.read().runs
        assert run.records[-1] == record(2)
        assert folder.opened == [run.run_id]

    def test_a_flipped_bit_is_noticed(self, folder):
        kept = published_index.packed(record(2).to_dict())
        for place in range(len(kept)):
            with pytest.raises(ValueError, match="damaged"):
                published_index.unpacked(kept[:place] + bytes([kept[place] ^ 16]) + kept[place + 1 :])

    def test_a_database_of_somebody_else_is_left_alone(self, folder):
        folder.index.parent.mkdir()
        with closing(sqlite3.connect(folder.index)) as connection, connection:
            connection.execute(f"CREATE TABLE {published_index._TABLE} (theirs TEXT)")
            connection.execute(f"INSERT INTO {published_index._TABLE} VALUES ('precious')")
        folder.add(1)
        for _ in range(2):
            assert seeds(folder.read()) == [1]
        with closing(sqlite3.connect(folder.index)) as connection:
            assert connection.execute(f"SELECT * FROM {published_index._TABLE}").fetchall() == [("precious",)]

    def test_it_is_done_without_while_it_is_locked(self, folder, monkeypatch):
        monkeypatch.setattr(published_index, "BUSY_SECONDS", 0.0)
        folder.add(1)
        folder.read()
        with closing(sqlite3.connect(folder.index)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            folder.add(2)
            found = folder.read()
            assert (seeds(found), found.problems) == ([1, 2], ())
        assert seeds(folder.read()) == [1, 2]
        assert folder.opened == [with_seed(2).run_id]

    def test_it_is_done_without_where_there_can_be_none(self, folder):
        folder.index.parent.write_text("a file where the home should be")
        folder.add(1)
        for _ in range(2):
            found = folder.read()
            assert (seeds(found), found.problems) == ([1], ())

    def test_what_cannot_be_written_is_used_all_the_same(self, folder, monkeypatch):
        folder.add(1)
        folder.read()
        connect = sqlite3.connect
        read_only = f"file:{folder.index}?mode=ro"
        monkeypatch.setattr(sqlite3, "connect", lambda _, **more: connect(read_only, uri=True, **more))
        folder.add(2)
        for _ in range(2):
            found = folder.read()
            assert (seeds(found), found.problems) == ([1, 2], ())
            assert folder.opened == [with_seed(2).run_id]

    def test_a_file_that_goes_while_its_run_is_shown_is_said(self, folder):
        (path,) = folder.add(1)
        folder.read()
        (run,) = folder.read().runs
        path.unlink()
        assert run.final == record(2)
        with pytest.raises(StoreError, match="No such file"):
            list(run.records)

    def test_a_file_that_is_another_run_by_then_is_said(self, folder):
        (path,) = folder.add(1)
        folder.read()
        (run,) = folder.read().runs
        path.write_text(published.to_text(with_seed(2)))
        with pytest.raises(StoreError, match="has changed; try again"):
            list(run.records)


def test_the_door_keeps_it_in_the_home(settings):
    published.write(with_seed(1), settings.published)
    app = Application(settings)
    assert [run.config.seed for run in app.queries.published()] == [1]
    assert (settings.home / published_index.NAME).is_file()
    assert app.queries.get(with_seed(1).run_id).records == with_seed(1).records
    assert app.queries.overview()[0].last_record == record(2)


def test_a_look_at_the_folder_holds_for_a_while_or_until_somebody_publishes(folder, monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    folder.add(1)
    assert seeds(published.lately(folder.files, folder.index)) == [1]
    (folder.files / "broken.json").write_text("{")
    assert not published.lately(folder.files, folder.index).problems
    now += published.LOOK_SECONDS + 0.1
    assert len(published.lately(folder.files, folder.index).problems) == 1
    folder.add(2)
    assert seeds(published.lately(folder.files, folder.index)) == [1, 2]
