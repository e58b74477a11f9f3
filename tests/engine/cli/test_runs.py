"""`submit`, `sweep`, `runs`, `cancel`, `rerun` and `publish`, with a real store but without workers."""

import json

import pytest

from engine.config import SimulationConfig
from engine.service import Application
from engine.service.reproducibility import repeat_id
from engine.store import published

SUBMIT = ("submit", "--corpus", "synthetic", "--epochs", "1")


@pytest.fixture
def submitted(shell, service) -> str:
    """Return the identity of a queued run."""
    code, out, err = shell(*SUBMIT, "--json")
    assert code == 0, err
    return json.loads(out)["run_id"]


@pytest.fixture
def done(submitted, service, trained_settings) -> str:
    """Return the identity of a finished run."""
    service.finish(trained_settings, submitted)
    return submitted


def states(printed: str) -> dict[str, str]:
    return {run["run_id"]: run["state"] for run in json.loads(printed)}


def test_runs_without_runs_prints_how_to_submit_one(shell):
    code, out, _ = shell("runs")
    assert code == 0
    assert "python -m engine submit" in out
    assert json.loads(shell("runs", "--json")[1]) == []


def test_submit_queues_a_run_once_and_starts_workers(shell, service, trained_settings):
    code, out, _ = shell(*SUBMIT, "--json")
    fields = json.loads(out)
    config = SimulationConfig.from_flat({"epochs": 1.0})
    assert code == 0
    assert fields["run_id"] == Application(trained_settings).queries.identity(config)
    assert (fields["state"], fields["progress"], fields["queue_place"]) == ("queued", 0.0, 1)
    assert (fields["published"], fields["outdated"], fields["error"]) == (False, False, None)
    assert SimulationConfig.from_dict(fields["config"]) == config
    assert service.ensure_cluster.call_count == 1
    code, out, _ = shell(*SUBMIT)
    assert (code, out) == (0, f"{fields['run_id']} queued\n")
    assert states(shell("runs", "--json")[1]) == {fields["run_id"]: "queued"}


def test_submit_does_not_queue_a_finished_run(shell, service, done):
    service.ensure_cluster.reset_mock()
    assert shell(*SUBMIT) == (0, f"{done} done\n", "")
    service.ensure_cluster.assert_not_called()


def test_runs_show_prints_a_run_with_its_records(shell, service, done):
    code, out, _ = shell("runs", "show", done, "--json")
    fields = json.loads(out)
    assert code == 0
    assert (fields["run_id"], fields["state"]) == (done, "done")
    assert [each["f1"] for each in fields["records"]] == [each.scores.f1 for each in service.records]
    assert "again" not in fields
    code, out, _ = shell("runs", "show", done)
    assert code == 0
    assert out.startswith(f"{done}  done")
    assert "Test scores" in out
    assert "Noise check passed" in out
    assert f"{done}  done" in shell("runs")[1]


def test_cancel_stops_a_run(shell, submitted):
    assert shell("cancel", submitted) == (0, f"{submitted} cancelled\n", "")
    fields = json.loads(shell("cancel", submitted, "--json")[1])
    assert (fields["run_id"], fields["state"]) == (submitted, "cancelled")


def test_rerun_repeats_a_finished_run_and_show_compares_both(shell, service, done, trained_settings):
    second = repeat_id(done)
    code, out, _ = shell("rerun", done, "--json")
    assert code == 0
    assert json.loads(out) == {"runs": [{"run_id": second, "state": "queued"}]}
    assert shell("rerun", done)[1] == f"{second} queued\n"
    assert json.loads(shell("runs", "show", done, "--json")[1])["again"] == {"run_id": second, "outcome": "queued"}
    service.finish(trained_settings, second)
    for run_id in (done, second):
        fields = json.loads(shell("runs", "show", run_id, "--json")[1])
        assert (fields["run_id"], fields["again"]["run_id"]) == (run_id, second)
        assert "equal" in fields["again"]["outcome"]
        assert second in shell("runs", "show", run_id)[1].splitlines()[-1]


def test_publish_writes_a_finished_run(shell, done, settings):
    code, out, _ = shell("publish", done, "--json")
    fields = json.loads(out)
    (published_run,) = published.read_all(settings.published).runs
    assert code == 0
    assert fields["run_id"] == published_run.run_id == done
    assert [fields["path"]] == [str(path) for path in settings.published.glob("*.json")]
    assert shell("publish", done)[1] == f"{fields['path']}\n"
    code, _, err = shell("publish", done, "--model")
    assert code == 2
    assert done in err


def test_publish_refuses_an_unfinished_run(shell, submitted):
    code, _, err = shell("publish", submitted)
    assert code == 2
    assert submitted in err
    assert "queued" in err


def test_sweep_queues_each_run_of_its_grid(shell, service, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text("seeds = 2\n[base]\ncorpus = 'synthetic'\n[grid]\nnoise_multiplier = [1, 2]\n")
    code, out, _ = shell("sweep", path, "--json")
    runs = json.loads(out)["runs"]
    assert code == 0
    assert [run["state"] for run in runs] == ["queued"] * 4
    stored = json.loads(shell("runs", "--json")[1])
    assert {run["run_id"] for run in stored} == {run["run_id"] for run in runs}
    assert {(run["config"]["privacy"]["noise_multiplier"], run["config"]["seed"]) for run in stored} == {
        (1.0, 0),
        (1.0, 1),
        (2.0, 0),
        (2.0, 1),
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[grid]\nsigma = [1]\n", "'sigma'"),
        ("[base]\ncorpus = 'synthetic'\n[grid]\nclients = [1, 100000]\n", "clients=100,000 … 4,400"),
    ],
)
def test_sweep_with_an_invalid_configuration_stores_nothing(shell, service, tmp_path, content, message):
    path = tmp_path / "sweep.toml"
    path.write_text(content)
    code, _, err = shell("sweep", path)
    assert code == 2
    assert all(part in err for part in message.split(" … ")), err
    assert json.loads(shell("runs", "--json")[1]) == []
    service.ensure_cluster.assert_not_called()


def test_sweep_counts_published_runs_as_done(shell, service, publish, tmp_path):
    publish("synthetic-bilstm-*-s0-*")
    path = tmp_path / "sweep.toml"
    path.write_text(
        "[base]\ncorpus = 'synthetic'\nnoise_multiplier = 0\n[grid]\ntagger = ['bilstm-tddl', 'bilstm-crf']\n"
    )
    code, out, _ = shell("sweep", path, "--json")
    assert code == 0
    assert [run["state"] for run in json.loads(out)["runs"]] == ["done", "done"]
    assert shell("sweep", path)[1].startswith("2 runs, 2 of them done")
    service.ensure_cluster.assert_not_called()


def test_an_unavailable_store_is_exit_code_1(shell, service, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EPSILON_STORE_URL", f"sqlite:///{tmp_path / 'file' / 'runs.sqlite'}")
    code, _, err = shell(*SUBMIT)
    assert code == 1
    assert "runs.sqlite" in err
    assert len(err.strip().splitlines()) == 1
