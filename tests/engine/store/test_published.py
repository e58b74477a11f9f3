"""Published results read back; a broken file is skipped and reported."""

import dataclasses
import json
import math
import shlex
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engine import PLAIN_VERSION, PRIVATE_VERSION
from engine.config import PrivacyConfig, SimulationConfig, run_id
from engine.embeddings import contamination
from engine.errors import InvalidConfig, StoreError
from engine.records import EntityScores, PrivacySpent, Run, RunState, RunStatus, SidedCounts
from engine.reports.cli_command import command_line
from engine.store import published
from tests.engine.factories import SMALL, check, provenance, record


def finished() -> Run:
    identity = run_id(SMALL, "0" * 64, "1")
    return Run(
        run_id=identity,
        config=SMALL,
        status=RunStatus(run_id=identity, state=RunState.DONE),
        records=tuple(record(number) for number in range(3)),
        provenance=provenance(),
    )


def test_published_run_reads_back(tmp_path):
    path = published.write(finished(), tmp_path)
    every = published.read_all(tmp_path)
    (found,), problems = every.runs, every.problems
    assert not problems
    assert found.records == finished().records
    assert found.config == finished().config
    assert found.provenance == finished().provenance
    assert found.published
    assert path.name == f"synthetic-bilstm-tddl-s1-{found.run_id}.json"
    assert list(tmp_path.iterdir()) == [path]


def test_many_to_many_scores_read_back_and_are_optional(tmp_path):
    run = finished()
    sided = EntityScores.from_dict(run.records[-1].test.to_dict() | {"many_to_many": {"PER": [4, 5, 3, 6]}})
    last = dataclasses.replace(run.records[-1], test=sided)
    published.write(dataclasses.replace(run, records=(*run.records[:-1], last)), tmp_path)
    ((found,), problems) = published.read_all(tmp_path).runs, published.read_all(tmp_path).problems
    assert not problems
    assert found.records[-1].test.many_to_many == {"PER": SidedCounts(right=4, predicted=5, found=3, gold=6)}
    assert found.records == run.records  # ignored in comparisons of records
    assert "many_to_many" not in published.to_text(run)


def test_unfinished_run_cannot_be_published(tmp_path):
    run = finished()
    unfinished = Run(run_id=run.run_id, config=run.config, status=run.status, records=run.records[:1])
    with pytest.raises(InvalidConfig, match="is done"):
        published.write(unfinished, tmp_path)


@pytest.mark.parametrize("check", [None, check("The noise on the weights has 0.0 % of what was planned.")])
def test_private_run_without_passed_noise_check_is_refused(tmp_path, check):
    run = finished()
    last = dataclasses.replace(run.records[-1], noise_check=check)
    unproven = dataclasses.replace(run, records=(*run.records[:-1], last))
    with pytest.raises(InvalidConfig, match="no noise check"):
        published.write(unproven, tmp_path)
    values = json.loads(published.to_text(run))
    values["records"][-1]["noise_check"] = check.to_dict() if check else None
    (tmp_path / "claimed.json").write_text(json.dumps(values))
    every = published.read_all(tmp_path)
    found, problems = every.runs, every.problems
    assert not found
    assert "without a noise check" in problems[0]


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        (PrivacyConfig(noise_multiplier=0.0), "it claims privacy without noise"),
        (PrivacyConfig(noise_multiplier=0.1), "noise check does not match the noise"),
        (PrivacyConfig(noise_multiplier=0.5, clip_norm=3.0), "noise check does not match the noise"),
    ],
)
def test_run_with_config_contradicting_noise_check_is_skipped(tmp_path, privacy, words):
    """In the noise check of the run, σ · C is 1.5 and C is 1.5."""
    config = dataclasses.replace(SMALL, privacy=privacy)
    run = dataclasses.replace(finished(), run_id=run_id(config, "0" * 64, "1"), config=config)
    (tmp_path / "claimed.json").write_text(published.to_text(run))
    every = published.read_all(tmp_path)
    assert not every.runs
    assert words in every.problems[0]


def test_private_run_with_infinite_epsilon_is_not_published(tmp_path):
    run = finished()
    nothing = PrivacySpent(epsilon=math.inf, delta=1e-5, assumptions=("The features knew its sentences.",))
    last = dataclasses.replace(run.records[-1], privacy=nothing)
    with pytest.raises(InvalidConfig, match=r"ε is ∞\. The features knew"):
        published.write(dataclasses.replace(run, records=(*run.records[:-1], last)), tmp_path)


@pytest.mark.parametrize(("features", "believed"), [("vectors", True), ("contextual", False), ("names", False)])
def test_private_run_with_contaminated_features_is_skipped(tmp_path, features, believed):
    with np.load(contamination.CHECKSUMS) as kept:
        (wikigold,) = kept["corpora"].tolist()
    config = dataclasses.replace(SMALL, features=features)
    identity = run_id(config, wikigold, "1")
    run = dataclasses.replace(finished(), run_id=identity, config=config, provenance=provenance(wikigold))
    (tmp_path / "claimed.json").write_text(published.to_text(run))
    every = published.read_all(tmp_path)
    assert len(every.runs) == believed
    assert believed or "initial weights were fitted on" in every.problems[0]


def test_private_run_with_masked_entities_is_skipped(tmp_path):
    config = SimulationConfig.from_flat({"corpus": "wnut17 + btc", "masked": 0.5})
    identity = run_id(config, "0" * 64, "1")
    run = dataclasses.replace(finished(), run_id=identity, config=config)
    (tmp_path / "claimed.json").write_text(published.to_text(run))
    every = published.read_all(tmp_path)
    assert not every.runs
    assert "although entities were masked" in every.problems[0]


def test_private_run_with_unmeasured_noise_is_refused(tmp_path):
    run = finished()
    last = dataclasses.replace(run.records[-1], noise_check=check(noise_std=None))
    with pytest.raises(InvalidConfig, match="not be measured"):
        published.write(dataclasses.replace(run, records=(*run.records[:-1], last)), tmp_path)
    values = json.loads(published.to_text(run))
    values["records"][-1]["noise_check"] = check(noise_std=None).to_dict()
    with pytest.raises(ValueError, match="without a noise check"):
        published.from_dict(values)


def of_engine(version: str, config: SimulationConfig = SMALL, *, day: int = 21, checksum: str = "0" * 64) -> Run:
    """Return the same run, computed by another engine version."""
    identity = run_id(config, checksum, version)
    made = dataclasses.replace(provenance(checksum, version), created=f"2026-11-{day}T10:00:00+00:00")
    epsilon = 0.5 if config.privacy.private else math.inf
    records = tuple(record(number, epsilon=epsilon) for number in range(3))
    return dataclasses.replace(finished(), run_id=identity, config=config, provenance=made, records=records)


class TestOutdatedRuns:
    def today(self, folder, *runs: Run) -> list[tuple[str, bool]]:
        for run in runs:
            published.write(run, folder)
        every = published.read_all(folder)
        assert not every.problems
        return sorted((run.provenance.engine_version, run.outdated) for run in every.today.runs)

    def test_older_run_is_outdated(self, tmp_path):
        assert self.today(tmp_path, of_engine("4")) == [("4", True)]

    def test_newest_of_older_runs_is_kept(self, tmp_path):
        assert self.today(tmp_path, of_engine("4", day=22), of_engine("3", day=23), of_engine("5", day=20)) == [
            ("3", True)
        ]

    def test_current_run_replaces_older_run(self, tmp_path):
        assert self.today(tmp_path, of_engine("4", day=30), of_engine(PRIVATE_VERSION)) == [(PRIVATE_VERSION, False)]

    def test_current_run_of_another_corpus_or_config_replaces_none(self, tmp_path):
        other = dataclasses.replace(SMALL, seed=1)
        runs = of_engine("5"), of_engine(PRIVATE_VERSION, checksum="1" * 64), of_engine(PRIVATE_VERSION, other)
        assert self.today(tmp_path, *runs) == [("5", True), (PRIVATE_VERSION, False), (PRIVATE_VERSION, False)]

    def test_run_without_noise_has_plain_version(self, tmp_path):
        plain = SimulationConfig(privacy=PrivacyConfig(noise_multiplier=0))
        assert self.today(tmp_path, of_engine(PLAIN_VERSION, plain)) == [(PLAIN_VERSION, False)]
        assert PLAIN_VERSION != PRIVATE_VERSION


def test_json_of_older_engine_reads_back(tmp_path):
    """Engine 5 wrote no noise source, a smaller noise check, and the amplified ε of shuffled batches as the main
    value."""
    shuffled = dataclasses.replace(SMALL, privacy=PrivacyConfig(sampling="shuffle"))
    values = json.loads(published.to_text(of_engine("5", shuffled)))
    del values["config"]["privacy"]["noise_source"], values["provenance"]["noise_source"]
    for each in values["records"]:
        del each["privacy"]["poisson_epsilon"]
        each["privacy"]["unamplified_epsilon"] = 17.9
        known = each["noise_check"]
        later = ("layers", "least_visits", "shape_distance", "along", "along_spread", "looks", "looks_counted")
        each["noise_check"] = {name: known[name] for name in known if name not in (*later, "largest_gap")}
    (tmp_path / "old.json").write_text(json.dumps(values))
    (run,) = published.read_all(tmp_path).today.runs
    assert run.outdated
    assert run.config == shuffled
    assert run.provenance.noise_source == "seeded"
    assert run.final.privacy.epsilon == 17.9
    assert run.final.privacy.poisson_epsilon == finished().final.privacy.epsilon
    assert run.final.noise_check.passed


def test_unwritable_folder_raises(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        published.write(finished(), tmp_path / "file")


def changed(**values: object) -> str:
    return json.dumps(json.loads(published.to_text(finished())) | values)


def with_config(**values: object) -> str:
    config = json.loads(published.to_text(finished()))["config"] | values
    return changed(config=config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expecting value"),
        ("[]", "list indices"),
        ('{"format": 1', "delimiter"),
        ("[" * 100_000, "recursion"),
        (changed(format=2), "its format is 2, expected 1"),
        (changed(run_id="x"), "its run_id is 'x'"),
        (with_config(seed=7), "its configuration and corpus give"),
        (with_config(surprise=1), "unknown field 'surprise'"),
        (with_config(data_fraction=-1), "data_fraction=-1"),
        (changed(records=[]), "do not end with test scores"),
        (changed(records=[record(2).to_dict()]), "numbered"),
        (changed(records=[{"round": 0}]), "the field 'privacy' is missing"),
        (published.to_text(finished()).replace('"loss": 1.5', '"loss": NaN'), "NaN"),
        (json.dumps({"format": 1}), "the field 'config' is missing"),
        (" " * (published.MAX_BYTES + 1), "expected at most"),
    ],
)
def test_broken_file_is_skipped_and_reported(tmp_path, text, words):
    published.write(finished(), tmp_path)
    (tmp_path / "broken.json").write_text(text)
    every = published.read_all(tmp_path)
    runs, (problem,) = every.runs, every.problems
    assert len(runs) == 1
    assert all(part in problem for part in ("broken.json", "skipped", words))
    assert "\n" not in problem


def test_binary_bytes_are_skipped(tmp_path):
    (tmp_path / "broken.json").write_bytes(b"\xff\xfe\x00")
    every = published.read_all(tmp_path)
    runs, problems = every.runs, every.problems
    assert not runs
    assert "broken.json was skipped" in problems[0]


def test_published_files_of_the_repository_are_valid():
    from engine.settings import Settings

    every = published.read_all(Settings.from_environment().published)
    runs, problems = every.runs, every.problems
    assert not problems
    assert all(run.final and run.provenance and run.provenance.command for run in runs)
    for run in runs:
        stored = run.provenance.command.replace("engine simulate", "engine train")  # the command's earlier name
        assert sorted(shlex.split(stored)) == sorted(shlex.split(command_line(run.config))), "it gives that run"


def test_files_are_read_again_only_after_changes(tmp_path):
    published.write(finished(), tmp_path)
    first = published.read_all(tmp_path)
    assert published.read_all(tmp_path) is first
    (run,) = first.runs
    assert first.by_id == {run.run_id: run}
    assert first.by_config == {run.config: [run]}
    (tmp_path / "more.json").write_text("{}")
    second = published.read_all(tmp_path)
    assert second is not first
    assert second.runs[0] is run
    assert len(second.problems) == 1
    assert [each.outdated for each in second.today.runs] == [True]


def test_threads_read_each_file_once(tmp_path, monkeypatch):
    """Several sessions may arrive at a new server, and each would read all files."""
    published.write(finished(), tmp_path)
    monkeypatch.setattr(published, "_listings", {})
    monkeypatch.setattr(published, "_seen", {})
    published._read_files.cache_clear()
    read, names, meet = published._read, [], threading.Barrier(2)

    def slow(file):
        names.append(file)
        time.sleep(0.2)  # the other thread would read it too
        return read(file)

    def visit(_):
        meet.wait(60)
        return published.lately(tmp_path, tmp_path / "index.sqlite")

    monkeypatch.setattr(published, "_read", slow)
    with ThreadPoolExecutor(2) as both:
        assert [len(found.runs) for found in both.map(visit, range(2))] == [1, 1]
    assert len(names) == 1
