"""Audits as files: a saved audit reads back, and a changed file is ignored."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from engine.artifact_store import ArtifactStore
from engine.config import SimulationConfig
from engine.records import RATES, AttackCurve, Audit, CanaryAudit, MembershipAudit, ServerAudit, ServerReading
from engine.store import audits

CANARIES = CanaryAudit(
    kind="directions",
    claimed=math.inf,
    delta=1e-5,
    canaries=10,
    made=10,
    right=5,
    bound=0.1,
    bound_of_steps=0.0,
    bound_of_trials=None,
    check_failed=None,
)
MEMBERSHIP = MembershipAudit(
    claimed=3.0,
    delta=1e-5,
    models=3,
    references=2,
    sentences=5,
    curves=(AttackCurve(attack="loss", area=0.5, caught=(0.1,) * len(RATES), shown=((0.1, 0.0, 0.2),) * 2),),
    best="loss",
    by_type={"PER": 0.5},
    by_client={},
    at_risk=((3, 2.5),),
)
SERVER = ServerAudit(
    claimed=3.0,
    delta=1e-5,
    sums=False,
    clients=3,
    sentences=11,
    steps=2,
    readings=(
        ServerReading(noise_multiplier=1.0, there=200, said=100, right=60, names=70, names_read=30, by_message=False),
    ),
)
AUDIT = Audit(
    run_id="ab",
    config=SimulationConfig(),
    created="2026-01-01T00:00:00+00:00",
    machine="a machine",
    command="a command",
    engine_version="6",
    white=CANARIES,
    membership=MEMBERSHIP,
    server=SERVER,
)


def store_in(folder: Path) -> ArtifactStore:
    return ArtifactStore(str(folder), folder)


def test_audit_reads_back(tmp_path):
    path = audits.write(AUDIT, store_in(tmp_path / "home"))
    assert audits.read_all(tmp_path / "home") == {"ab": AUDIT}
    assert "Infinity" in path.read_text()


def test_counts_of_independent_guesses_read_back_and_must_fit(tmp_path):
    white = replace(CANARIES, trials=(6, 9), examples=1000)
    path = audits.write(replace(AUDIT, white=white), store_in(tmp_path))
    assert audits.read_all(tmp_path)["ab"].white == white
    text = path.read_text()
    for good, bad in (('"right": 5', '"right": 11'), ('"examples": 1000', '"examples": 7')):
        assert good in text
        path.write_text(text.replace(good, bad))
        assert audits.read_all(tmp_path) == {}


def test_own_audit_precedes_published_audit(tmp_path):
    audits.write(AUDIT, store_in(tmp_path / "own"))
    published = json.loads((tmp_path / "own" / "audits" / "ab.json").read_text()) | {"machine": "another"}
    (tmp_path / "published" / "audits").mkdir(parents=True)
    (tmp_path / "published" / "audits" / "ab.json").write_text(json.dumps(published))
    assert audits.read_all(tmp_path / "own", tmp_path / "published")["ab"].machine == "a machine"
    assert audits.read_all(tmp_path / "published")["ab"].machine == "another"


def test_audit_of_remote_worker_is_found_after_sync(tmp_path):
    worker, app = (ArtifactStore("memory://audits-elsewhere", tmp_path / name) for name in ("worker", "app"))
    audits.write(AUDIT, worker)
    assert audits.read_all(app.folder) == {}
    app.sync_folder(audits.FOLDER)
    assert audits.read_all(app.folder) == {"ab": AUDIT}


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.pop("machine"),
        lambda values: values["server"]["readings"][0].update(noise_multiplier=0.5),
        lambda values: values["server"]["readings"][0].update(right="all"),
        lambda values: values["membership"].update(best="another"),
        lambda values: values["membership"]["curves"][0].update(caught=[0.1]),
        lambda values: values["membership"]["curves"][0].update(area="much"),
        lambda values: values["white"].update(right=None),
        lambda values: values["config"].update(corpus=3),
        lambda values: values.update(run_id=["ab"]),
        lambda values: values.update(note="x" * 2_000_000),
    ],
)
def test_inconsistent_file_is_ignored(change, tmp_path):
    path = audits.write(AUDIT, store_in(tmp_path))
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    assert audits.read_all(tmp_path) == {}


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff", b"[" * 100_000, b"3"])
def test_unreadable_file_is_ignored(text, tmp_path):
    path = audits.write(AUDIT, store_in(tmp_path))
    path.write_bytes(text)
    assert audits.read_all(tmp_path) == {}
