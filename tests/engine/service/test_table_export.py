"""Exports of runs: tables that read back, and an MLflow tracking server that receives each run once."""

import json
import math
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from engine.cli import main
from engine.errors import InvalidConfig, StoreError
from engine.service import Application, mlflow_export, table_export
from engine.settings import REPOSITORY


@pytest.fixture(scope="module")
def published(tmp_path_factory, published_index) -> Iterator[Application]:
    """Return an application with the published runs."""
    from engine.settings import Settings

    home = tmp_path_factory.mktemp("home")
    shutil.copy(published_index, home)
    published, address = REPOSITORY / "cached_results", f"sqlite:///{home}/runs.sqlite"
    app = Application(Settings(home=home, data_dir=None, store_url=address, published=published))
    yield app
    app.close()


@pytest.mark.parametrize("ending", table_export.KINDS)
@pytest.mark.repeats(area="processes")
def test_table_reads_back_with_all_fields(published, tmp_path, ending):
    found = published.queries.overview(100_000)
    path = tmp_path / f"runs{ending}"
    table_export.write(table_export.runs_table(found), path)
    table = pd.read_csv(path) if ending == ".csv" else pd.read_parquet(path)
    assert len(table) == len(found) > 600
    by_id = {each.run.run_id: each for each in found}
    for row in table.to_dict("records"):
        each = by_id[row["run_id"]]
        for name, value in each.run.config.flat().items():
            assert pd.isna(row[name]) if value is None else row[name] == value, name
        test = each.last_record.test
        assert [row[name] for name in ("precision", "recall", "f1")] == [
            pytest.approx(score, abs=1e-12) for score in (test.precision, test.recall, test.f1)
        ]
        assert row["part"] == "test"
        assert row["epsilon"] == pytest.approx(each.last_record.privacy.epsilon)
        assert [row[f"f1 {kind}"] for kind in test.strict] == [
            pytest.approx(counts.ratios.f1) for counts in test.strict.values()
        ]
    assert math.isinf(table["epsilon"].max())


def test_records_table_has_one_row_per_record(published, tmp_path):
    runs = [run for run in published.queries.published() if run.config.corpus == "synthetic"][:3]
    table_export.write(table_export.records_table(runs), tmp_path / "records.parquet")
    table = pd.read_parquet(tmp_path / "records.parquet")
    assert len(table) == sum(len(run.records) for run in runs)
    last = table[table["run_id"] == runs[0].run_id].iloc[-1]
    assert last["step"] == runs[0].records[-1].step
    assert last["f1"] == runs[0].records[-1].scores.f1


def test_empty_table_can_be_written(tmp_path):
    table_export.write(table_export.runs_table([]), tmp_path / "runs.csv")
    assert (tmp_path / "runs.csv").read_text() == "\n"


def test_other_file_types_are_refused(tmp_path):
    with pytest.raises(InvalidConfig, match=r"\.csv or \.parquet"):
        table_export.write(table_export.runs_table([]), tmp_path / "runs.xlsx")


class Mlflow(BaseHTTPRequestHandler):
    """Minimal MLflow tracking server, with its limits."""

    experiments: dict[str, str]
    runs: dict[str, dict]
    said: list[str]
    broken = ""

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        if (name := asked["experiment_name"][0]) in self.experiments:
            return self._say(200, {"experiment": {"experiment_id": self.experiments[name]}})
        return self._say(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment"})

    def do_POST(self) -> None:
        values = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verb = self.path.removeprefix("/api/2.0/mlflow/")
        self.said.append(verb)
        if self.broken and verb == self.broken:
            return self._say(500, {"message": "the disk is full"})
        return self._say(200, getattr(self, verb.replace("/", "_").replace("-", "_"))(values))

    def experiments_create(self, values):
        self.experiments[values["name"]] = identity = str(len(self.experiments) + 1)
        return {"experiment_id": identity}

    def runs_search(self, values):
        assert values["filter"] == "attributes.status = 'FINISHED'"
        first = int(values.get("page_token", 0))
        found = [{"data": {"tags": run["tags"]}} for run in self.runs.values() if run["status"] == "FINISHED"]
        more = {"next_page_token": str(first + 2)} if len(found) > first + 2 else {}
        return {"runs": found[first : first + 2]} | more

    def runs_create(self, values):
        identity = f"{len(self.runs):032x}"
        self.runs[identity] = values | {"status": "RUNNING", "params": [], "metrics": []}
        return {"run": {"info": {"run_id": identity}}}

    def runs_log_batch(self, values):
        run = self.runs[values["run_id"]]
        assert len(values.get("params", [])) <= 100
        assert len(values.get("metrics", [])) <= 1000
        for name in ("params", "metrics"):
            run[name] += values.get(name, [])
        return {}

    def runs_update(self, values):
        self.runs[values["run_id"]] |= values
        return {}

    def _say(self, code: int, values: dict) -> None:
        body = json.dumps(values).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mlflow() -> Iterator[tuple[str, type[Mlflow]]]:
    kind = type("Handler", (Mlflow,), {"experiments": {}, "runs": {}, "said": []})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}", kind
    httpd.shutdown()
    httpd.server_close()


def sample_runs(published, number: int = 5):
    private = [
        run for run in published.queries.published() if run.config.privacy.private and len(run.config.platforms) > 1
    ]
    plain = [run for run in published.queries.published() if not run.config.privacy.private]
    return [*private[:2], *plain[: number - 2]]


def test_each_run_is_sent_once_with_fields_and_epsilon(published, mlflow):
    address, server = mlflow
    runs = sample_runs(published)
    progress = []
    assert mlflow_export.send_all(runs[:3], address, "mine", lambda *now: progress.append(now)) == (3, 0)
    assert mlflow_export.send_all(runs, address, "mine") == (2, 3)
    assert mlflow_export.send_all(runs, address + "/", "mine") == (0, 5)
    assert server.experiments == {"mine": "1"}
    assert [stage for stage, _ in progress] == ["run 1 of 3", "run 2 of 3", "run 3 of 3"]
    by_id = {tag["value"]: run for run in server.runs.values() for tag in run["tags"] if tag["key"].endswith("run_id")}
    for run in runs:
        sent = by_id[run.run_id]
        tags = {tag["key"]: tag["value"] for tag in sent["tags"]}
        assert {each["key"]: each["value"] for each in sent["params"]} == {
            name: str(value) for name, value in run.config.flat().items()
        }
        assert all(math.isfinite(each["value"]) for each in sent["metrics"])
        assert all(mlflow_export._NO_KEY.search(each["key"]) is None for each in sent["metrics"])
        spent = [each["value"] for each in sent["metrics"] if each["key"] == "epsilon"]
        if run.config.privacy.private:
            assert spent == [record.privacy.epsilon for record in run.records]
        else:
            assert (spent, tags["privacy.epsilon"]) == ([], "∞")
        assert [each["value"] for each in sent["metrics"] if each["key"] == "test_f1"] == [run.final.test.f1]
        assert sent["end_time"] >= sent["start_time"]


def test_interrupted_run_is_sent_again(published, mlflow):
    address, server = mlflow
    runs = sample_runs(published)
    server.broken = "runs/update"
    with pytest.raises(StoreError, match=r"rejected runs/update: 500, .*disk is full"):
        mlflow_export.send_all(runs, address, "mine")
    server.broken = ""
    assert mlflow_export.send_all(runs, address, "mine") == (5, 0)


def test_invalid_or_unreachable_server_raises(published):
    with pytest.raises(InvalidConfig, match="mlflow='ftp://here', expected the URL"):
        mlflow_export.send_all([], "ftp://here", "mine")
    with pytest.raises(StoreError, match=r"not be reached at 127\.0\.0\.1:9 "):
        mlflow_export.send_all([], "http://me:secret@127.0.0.1:9", "mine")  # pragma: allowlist secret


def test_export_command(published, mlflow, tmp_path, monkeypatch, capsys):
    address, server = mlflow
    monkeypatch.setattr(Application, "from_environment", classmethod(lambda cls: published))
    out = tmp_path / "runs.csv"
    for arguments, code in (
        (["--out", str(out), "--corpus", "synthetic"], 0),
        (["--mlflow", address, "--corpus", "ade@0", "--json"], 0),
        (["--out", str(out), "--mlflow", address], 2),
        ([], 2),
        (["--mlflow", address, "--records"], 2),
        (["--out", str(tmp_path / "runs.pickle")], 2),
    ):
        monkeypatch.setattr("sys.argv", ["engine", "export", *arguments])
        assert main.main() == code, arguments
    assert len(pd.read_csv(out)) == len(
        [run for run in published.queries.published() if run.config.corpus == "synthetic"]
    )
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1]) == {"sent": len(server.runs), "there_already": 0}
    assert all(part in said.err for part in ("--out FILE", "--mlflow ADDRESS"))
