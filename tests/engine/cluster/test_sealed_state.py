"""What measures a secret is a secret: neither files, rows, messages nor logs of a run with system noise hold any."""

import dataclasses
import io
import json
import logging
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from engine import corpus
from engine.cluster import supervisor
from engine.cluster.worker import compute
from engine.config import FederationConfig, PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig, run_id
from engine.privacy.noise_check.monitor import NoiseMonitor
from engine.records import RoundRecord, RunState
from engine.reports.document import json_file
from engine.reports.privacy_report import builder
from engine.reports.runs import record_fields, run_fields
from engine.service import Application, report_evidence
from engine.simulation.run import simulate
from engine.simulation.setup import prepare
from engine.store.run_store import RunStore
from engine.training.dpsgd import DPSGD

CONFIG = SimulationConfig(
    data_fraction=0.1,
    tagger=TaggerConfig(name="linear-softmax"),
    training=TrainingConfig(batch_size=110, epochs=1.0, optimiser="adam", learning_rate=0.02),
    privacy=PrivacyConfig(noise_multiplier=1.0, noise_source="system"),
)
"""440 sentences of the embedded corpus, 4 steps, each with a record and a checkpoint."""
CLIENTS = dataclasses.replace(
    CONFIG,
    data_fraction=0.05,
    federation=FederationConfig(clients=5, participants=3, rounds=3),
    privacy=dataclasses.replace(CONFIG.privacy, mechanism="dp-fedavg"),
)
CHECK = "noise check/"
"""Start of the names of the noise check's arrays in a checkpoint of version 0.6.0, which was not sealed."""
EXACT = 0.01
"""Error of a recovered value that counts as exact, as a share of the noise's standard deviation."""
FALSE_ALARM = 1e-6


class Spy:
    """A run in this process: what the process knew, and copies of all files below the home before each record."""

    def __init__(self, settings, folder: Path, monkeypatch) -> None:
        self.settings, self.folder = settings, folder
        self.sums: list[np.ndarray] = []
        self.samples: list[np.ndarray] = []
        self.weights: list[np.ndarray] = []
        self.measured: list[dict[str, np.ndarray]] = []
        self.single: list[float] = []
        """Norms and losses of single sentences."""
        self._patch(monkeypatch)
        monkeypatch.setattr(supervisor, "ensure_cluster", lambda *_: None)

    def _patch(self, monkeypatch) -> None:
        measure, append, copies, spy = DPSGD._measured, RunStore.append, Spy.copy, self

        def measured(learner, monitor, step, sentences, total):
            spy.sums.append(total.astype(np.float64))
            spy.samples.append(sentences)
            measure(learner, monitor, step, sentences, total)
            spy.weights.append(learner.weights.copy())

        def stepped(learner, step, before=DPSGD.step):
            statistics = before(learner, step)
            spy.single += [*statistics.norms.tolist(), *statistics.losses.tolist(), statistics.signal]
            return statistics

        def appended(store, claim, record):
            copies(spy)
            append(store, claim, record)

        def verdict(monitor, before=NoiseMonitor.verdict):
            spy.measured.append({name: array.copy() for name, array in monitor.state.items()})
            return before(monitor)

        monkeypatch.setattr(DPSGD, "_measured", measured)
        monkeypatch.setattr(DPSGD, "step", stepped)
        monkeypatch.setattr(RunStore, "append", appended)
        monkeypatch.setattr(NoiseMonitor, "verdict", verdict)

    def copy(self) -> None:
        """Copy what another person finds on the disk: all files, except the keys, which only their owner can read."""
        target = self.folder / f"{len(list(self.folder.iterdir())):03}"
        shared = shutil.ignore_patterns("*.key", "encoded", "vectors", "published*")
        shutil.copytree(self.settings.home, target, ignore=shared)

    def run(self, config: SimulationConfig = CONFIG):
        app = Application(self.settings)
        self.id = run_id(config, corpus.resolve(config.corpus, self.settings).checksum)
        app.runs.submit(config)
        compute(self.id, self.settings, "here")
        self.copy()
        found = app.queries.get(self.id)
        app.close()
        assert found.status.state == RunState.DONE, found.status.error
        return found

    def files(self) -> Iterator[tuple[str, bytes]]:
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                yield str(path.relative_to(self.folder)), path.read_bytes()


@pytest.fixture
def spy(trained_settings, tmp_path, monkeypatch):
    (tmp_path / "copies").mkdir()
    return Spy(trained_settings, tmp_path / "copies", monkeypatch)


def arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name; none if it is no archive of arrays."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name.removeprefix("array:"): file[name] for name in file.files}
    except (OSError, ValueError, EOFError):
        return {}


def attack(spy: Spy, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Play the attack of the review on the first step, with the files and the released weights.

    Args:
        spy: The files, and the weights after the first step, which the run releases.
        first: Initial weights, which are public.

    Returns:
        The estimate of the clipped sum of the first batch, and the score of each sentence as its member.
    """
    privacy, training = CONFIG.privacy, CONFIG.training
    std = privacy.noise_multiplier * privacy.clip_norm
    found = next((each for _, content in spy.files() if f"{CHECK}squares" in (each := arrays(content))), {})
    if found:  # first moment of Adam: (1 − β₁) · gradient
        noisy = found["mean"].astype(np.float64) / 0.1 * training.batch_size
    else:  # Adam's first step moves each weight by the learning rate, along the gradient's sign
        noisy = np.sign(first - spy.weights[0].astype(np.float64)) * std
    sizes = np.sqrt(found[f"{CHECK}squares"]) * std if found else np.abs(noisy)
    estimate = noisy - np.sign(noisy) * sizes
    other = noisy + np.sign(noisy) * sizes
    estimate = np.where(np.abs(other) < np.abs(estimate), other, estimate)
    if found:
        return estimate, found[f"{CHECK}times"].astype(np.float64)
    return estimate, member_scores(spy, first, noisy)


def member_scores(spy: Spy, first: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """Return the component of the noisy sum along the clipped gradient of each sentence."""
    run = prepare(CONFIG, spy.settings).run
    learner = run.learner(run.plan.rounds[0][0])
    return np.array([learner.clipped_sum(np.array([i]), first)[0] @ noisy for i in range(learner.plan.examples)])


def advantage(scores: np.ndarray, members: np.ndarray) -> float:
    """Return the largest true positive rate minus false positive rate over all thresholds."""
    inside, outside = scores[members], scores[np.setdiff1d(np.arange(len(scores)), members)]
    return max(float((inside >= limit).mean() - (outside >= limit).mean()) for limit in np.unique(scores))


def test_files_of_a_run_reveal_no_more_than_epsilon_allows(spy):
    """On version 0.6.0 this attack got 94 % of the weights of the sum exactly, and all members of the batch."""
    first = prepare(CONFIG, spy.settings).run.weights.copy()
    spy.run()
    truth, std = spy.sums[0], CONFIG.privacy.noise_multiplier * CONFIG.privacy.clip_norm
    estimate, scores = attack(spy, first)
    matters = np.abs(truth) > 10 * EXACT * std
    exact = float((np.abs(estimate - truth) < EXACT * std)[matters].mean())
    assert matters.sum() > 500
    # For normal noise, a guess within ±a standard deviations is right with probability of at most 2Φ(a) − 1.
    chance = 2 * ndtr(EXACT) - 1
    assert exact <= chance + math.sqrt(math.log(1 / FALSE_ALARM) / 2 / matters.sum())
    # Sampled or not, a sentence changes the sum by at most C: of the Gaussian mechanism's two error rates, the sum is
    # at least 1 − (2Φ(1/2σ) − 1). Rates of m draws differ from their expectation as Hoeffding's inequality allows.
    members, several = spy.samples[0], len(scores)
    allowed = 2 * ndtr(0.5 / CONFIG.privacy.noise_multiplier) - 1
    spread = sum(math.sqrt(math.log(2 / FALSE_ALARM) / 2 / number) for number in (len(members), several - len(members)))
    assert advantage(scores, members) <= min(0.99, allowed + spread)


def forms(values: np.ndarray) -> Iterator[bytes]:
    """Yield the bytes of measured values, as a file may hold them."""
    for kind in (np.float64, np.float32) if values.dtype.kind == "f" else (np.int64, np.int32):
        yield values.astype(kind).tobytes()


@pytest.mark.parametrize("config", [CONFIG, CLIENTS], ids=["dp-sgd", "dp-fedavg"])
@pytest.mark.repeats(area="processes", after=1)
def test_no_file_row_message_or_log_holds_what_measures_a_secret(spy, config, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    run = spy.run(config)
    app = Application(spy.settings)
    report = json_file.render(builder.of_run(report_evidence.evidence(app, run.run_id)))
    texts = [caplog.text, *capfd.readouterr(), repr(run), report, json.dumps(run_fields(run))]
    texts += [json.dumps(record_fields(record)) for record in run.records]
    app.close()
    everything = b"\n".join([*(content for _, content in spy.files()), *(text.encode() for text in texts)])
    # Arrays: eight values in a row. Chance finds none of them in random bytes.
    for state in spy.measured:
        for name in ("squares", "slacks", "times", "keys"):
            values = state[name].ravel()
            for start in range(0, values.size - 7, max(8, values.size // 8)):
                part = values[start : start + 8]
                if np.unique(part).size > 4:
                    assert not any(form in everything for form in forms(part)), name
    # Single numbers: the first digits of each norm, loss, sum and statistic.
    state = spy.measured[-1]
    single = [*spy.single, *(value for name in ("sums", "sizes", "along", "spreads") for value in state[name].ravel())]
    digits = {f"{abs(value):.9g}"[:9].encode() for value in single if math.isfinite(value) and value % 1}
    assert len(digits) > 10
    assert not digits & {number[:9] for number in re.findall(rb"\d+\.\d{5,}", everything)}


@pytest.mark.parametrize(("config", "source"), [(CONFIG, "system"), (CONFIG, "seeded"), (CLIENTS, "system")])
def test_records_of_system_noise_have_no_private_values(trained_settings, config, source):
    config = dataclasses.replace(config, privacy=dataclasses.replace(config.privacy, noise_source=source))
    record = list(simulate(config, trained_settings))[-1]
    check, federation = record.noise_check, record.federation
    private: list[Any] = [record.loss, record.clipped_fraction, record.gradient_norm_median, record.gradient_norm_max]
    private += [record.nonfinite, record.examples_seen, record.noise_to_signal, record.layer_norms or None]
    private += [check.noise_std, check.clipped_norm_max, check.batch_mean, check.batch_std, check.layers or None]
    private += [federation.clients, federation.sent, federation.drift] if federation else []
    assert {value is None for value in private} == {source == "system"}
    assert check.passed
    assert check.withheld == (source == "system")
    assert RoundRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record
