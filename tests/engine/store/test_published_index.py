"""The index of published runs is a cache that never changes results, even if it is damaged."""

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
    """A folder of published runs, read as by a newly started program."""

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


def test_indexed_file_is_opened_for_records_only(folder):
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


def test_only_new_or_changed_files_are_opened(folder):
    first, second = folder.add(1, 2)
    folder.read()
    folder.add(3)
    first.unlink()
    second.write_text(second.read_text() + "\n")
    assert seeds(folder.read()) == [2, 3]
    assert sorted(folder.opened) == sorted([with_seed(2).run_id, with_seed(3).run_id])
    assert seeds(folder.read()) == [2, 3]
    assert folder.opened == []


def test_changed_file_with_equal_size_and_time_is_detected(folder):
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
def test_private_run_that_loses_its_noise_check_is_skipped(folder, failed):
    (path,) = folder.add(1)
    assert seeds(folder.read()) == [1]
    values = json.loads(path.read_text())
    values["records"][-1]["noise_check"] = failed.to_dict() if failed else None
    path.write_text(json.dumps(values))
    for _ in range(2):
        found = folder.read()
        assert not found.runs
        assert "without a noise check" in found.problems[0]


def test_broken_file_is_reported_at_each_start(folder):
    folder.add(1)
    (folder.files / "broken.json").write_text("{")
    for _ in range(3):
        found = folder.read()
        assert seeds(found) == [1]
        assert all(part in found.problems[0] for part in ("broken.json", "skipped"))
    assert folder.opened == []


def test_rows_of_other_code_are_discarded(folder, monkeypatch):
    folder.add(1)
    folder.read()
    monkeypatch.setattr(published_index, "_rules", lambda: "other code")
    assert seeds(folder.read()) == [1]
    assert len(folder.opened) == 1
    folder.read()
    assert folder.opened == []


def test_folders_share_one_index_independently(folder, tmp_path):
    folder.add(1)
    folder.read()
    other = tmp_path / "other"
    published.write(with_seed(2), other)
    assert seeds(published.read_all(other, folder.index)) == [2]
    assert seeds(folder.read()) == [1]
    assert folder.opened == []


class TestDamagedIndex:
    """A damaged index gives the same runs without problems, and is created again where possible."""

    @pytest.mark.parametrize(
        "damage",
        [
            lambda index: index.write_bytes(b"no database, but long enough to be looked at " * 300),
            lambda index: index.write_bytes(index.read_bytes()[:5000]),
            lambda index: index.write_bytes(index.read_bytes()[:1024] + b"\xff" * 60_000),
            lambda index: index.write_bytes(b""),
            lambda index: index.unlink(),
        ],
        ids=["another file", "cut off", "overwritten", "empty", "gone"],
    )
    def test_damaged_index_is_rebuilt(self, folder, damage):
        folder.add(1, 2)
        folder.read()
        damage(folder.index)
        found = folder.read()
        assert (seeds(found), found.problems) == ([1, 2], ())
        assert [run.records[-1] for run in found.runs] == [record(2)] * 2
        folder.read()
        assert folder.opened == []

    @pytest.mark.parametrize("column", ["about", "last"])
    @pytest.mark.parametrize("value", [b"", b"\x00" * 40, 7, None, "text", published_index.packed({"config": 1})])
    def test_damaged_row_is_read_from_its_file(self, folder, column, value):
        folder.add(1)
        folder.read()
        with closing(sqlite3.connect(folder.index)) as connection, connection:
            connection.execute(f"UPDATE {published_index._TABLE} SET {column} = ?", (value,))
        (run,) = folder.read().runs
        assert run.records[-1] == record(2)
        assert folder.opened == [run.run_id]

    def test_flipped_bit_is_detected(self, folder):
        kept = published_index.packed(record(2).to_dict())
        for place in range(len(kept)):
            with pytest.raises(ValueError, match="damaged"):
                published_index.unpacked(kept[:place] + bytes([kept[place] ^ 16]) + kept[place + 1 :])

    def test_foreign_database_is_left_unchanged(self, folder):
        folder.index.parent.mkdir()
        with closing(sqlite3.connect(folder.index)) as connection, connection:
            connection.execute(f"CREATE TABLE {published_index._TABLE} (theirs TEXT)")
            connection.execute(f"INSERT INTO {published_index._TABLE} VALUES ('precious')")
        folder.add(1)
        for _ in range(2):
            assert seeds(folder.read()) == [1]
        with closing(sqlite3.connect(folder.index)) as connection:
            assert connection.execute(f"SELECT * FROM {published_index._TABLE}").fetchall() == [("precious",)]

    def test_locked_index_is_not_used(self, folder, monkeypatch):
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

    def test_missing_home_folder_means_no_index(self, folder):
        folder.index.parent.write_text("a file where the home should be")
        folder.add(1)
        for _ in range(2):
            found = folder.read()
            assert (seeds(found), found.problems) == ([1], ())

    def test_read_only_index_is_used(self, folder, monkeypatch):
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

    def test_file_deleted_after_indexing_raises_on_records(self, folder):
        (path,) = folder.add(1)
        folder.read()
        (run,) = folder.read().runs
        path.unlink()
        assert run.final == record(2)
        with pytest.raises(StoreError, match="No such file"):
            list(run.records)

    def test_file_replaced_after_indexing_raises_on_records(self, folder):
        (path,) = folder.add(1)
        folder.read()
        (run,) = folder.read().runs
        path.write_text(published.to_text(with_seed(2)))
        with pytest.raises(StoreError, match="has changed; try again"):
            list(run.records)


def test_application_keeps_the_index_in_the_home(settings):
    published.write(with_seed(1), settings.published)
    app = Application(settings)
    assert [run.config.seed for run in app.queries.published()] == [1]
    assert (settings.home / published_index.NAME).is_file()
    assert app.queries.get(with_seed(1).run_id).records == with_seed(1).records
    assert app.queries.overview()[0].last_record == record(2)


def test_lately_caches_until_timeout_or_publication(folder, monkeypatch):
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
