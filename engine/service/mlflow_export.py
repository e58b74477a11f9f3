"""Finished runs in an MLflow tracking server, by its REST interface (MLflow documentation, *REST API*); nothing of
MLflow need be installed here."""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import requests

from engine.errors import InvalidConfig, StoreError
from engine.records import RoundRecord, Run

TIMEOUT = 30
"""Seconds that an answer may take."""
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100
"""Most that one call may hold."""
_ID = "epsilon_explorer.run_id"
_NO_KEY = re.compile(r"[^\w./ -]")
"""Characters that the name of a metric may not have."""
_LONGEST = 500
"""Characters of a parameter that servers of any age take."""


class Server:
    """A tracking server. Name and password, or a token, stand where MLflow's own clients look for them
    (``MLFLOW_TRACKING_USERNAME``, ``MLFLOW_TRACKING_PASSWORD``, ``MLFLOW_TRACKING_TOKEN``). Methods raise StoreError
    with a sentence."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidConfig(f"mlflow={address!r}, expected the address of a tracking server, http://localhost:5000")
        self._base = address.rstrip("/") + "/api/2.0/mlflow/"
        self._session = requests.Session()
        if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
            self._session.headers["Authorization"] = f"Bearer {token}"
        elif user := os.environ.get("MLFLOW_TRACKING_USERNAME"):
            self._session.auth = (user, os.environ.get("MLFLOW_TRACKING_PASSWORD", ""))

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def experiment(self, name: str) -> str:
        """The experiment with this name, made where there is none: its identity."""
        found = self._call("GET", "experiments/get-by-name", {"experiment_name": name}, missing=True)
        if found:
            return str(found["experiment"]["experiment_id"])
        return str(self._call("POST", "experiments/create", {"name": name})["experiment_id"])

    def known(self, experiment: str) -> set[str]:
        """Our identities of the runs that it has and that were sent whole."""
        found: set[str] = set()
        asked: dict[str, Any] = {
            "experiment_ids": [experiment],
            "filter": "attributes.status = 'FINISHED'",
            "max_results": 1000,
        }
        while True:
            page = self._call("POST", "runs/search", asked)
            for run in page.get("runs", []):
                tags = {tag["key"]: tag["value"] for tag in run.get("data", {}).get("tags", [])}
                found |= {tags[_ID]} if _ID in tags else set()
            if not page.get("next_page_token"):
                return found
            asked |= {"page_token": page["next_page_token"]}

    def send(self, experiment: str, run: Run) -> None:
        """Make a run of ours one of theirs: settings as parameters, scores and ε of each record as metrics by step."""
        start = _milliseconds(run.status.created)
        made = self._call(
            "POST",
            "runs/create",
            {
                "experiment_id": experiment,
                "run_name": _name(run),
                "start_time": start,
                "tags": [{"key": key, "value": value} for key, value in _tags(run).items()],
            },
        )
        identity = made["run"]["info"]["run_id"]
        parameters = [{"key": key, "value": str(value)[:_LONGEST]} for key, value in run.config.flat().items()]
        for some in _batches(parameters, PARAMETERS_AT_ONCE):
            self._call("POST", "runs/log-batch", {"run_id": identity, "params": some})
        for metrics in _batches(list(_metrics(run, start)), METRICS_AT_ONCE):
            self._call("POST", "runs/log-batch", {"run_id": identity, "metrics": metrics})
        end = start + round(1000 * (run.records[-1].seconds if run.records else 0))
        self._call("POST", "runs/update", {"run_id": identity, "status": "FINISHED", "end_time": end})

    def _call(self, method: str, path: str, fields: Mapping[str, Any], *, missing: bool = False) -> dict[str, Any]:
        asked = fields if method == "GET" else None
        sent = None if method == "GET" else fields
        try:
            answer = self._session.request(
                method, self._base + path, params=asked, json=sent, timeout=TIMEOUT, allow_redirects=False
            )
            if missing and answer.status_code == 404 and "RESOURCE_DOES_NOT_EXIST" in answer.text:
                return {}
            if answer.status_code != 200:
                raise StoreError(f"MLflow refused {path}: {answer.status_code}, {_said(answer)}")
            found = answer.json()
        except requests.RequestException as error:
            raise StoreError(
                f"MLflow could not be reached at {urlsplit(self._base).netloc.rpartition('@')[2]} "
                f"({type(error).__name__}): is the tracking server running?"
            ) from error
        except ValueError:
            raise StoreError(f"What answers at {path} is no MLflow tracking server.") from None
        if not isinstance(found, dict):
            raise StoreError(f"What answers at {path} is no MLflow tracking server.")
        return found


def send_all(
    runs: Iterable[Run],
    address: str,
    experiment: str,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> tuple[int, int]:
    """Send finished runs that are not there yet: how many were sent, and how many were there. Raises InvalidConfig,
    StoreError; what was sent before stays, and is not sent again."""
    wanted = [run for run in runs if run.final]
    with Server(address) as server:
        place = server.experiment(experiment)
        there = server.known(place)
        new = [run for run in wanted if run.run_id not in there]
        for number, run in enumerate(new):
            tell(f"run {number + 1:,} of {len(new):,}", number / len(new))
            server.send(place, run)
    return len(new), len(wanted) - len(new)


def _batches(values: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """The values in lists of at most so many."""
    return (list(values[start : start + size]) for start in range(0, len(values), size))


def _name(run: Run) -> str:
    config = run.config
    return f"{config.tagger.name} σ={config.privacy.noise_multiplier:g} seed={config.seed}"


def _tags(run: Run) -> dict[str, str]:
    last, made = run.records[-1], run.provenance
    check = last.noise_check
    tags = {
        _ID: run.run_id,
        "privacy.protects": f"{last.privacy.unit}, {last.privacy.neighbouring}",
        "privacy.accountant": last.privacy.accountant,
        "privacy.epsilon": "∞" if math.isinf(last.privacy.epsilon) else f"{last.privacy.epsilon:.6g}",
        "privacy.noise_check": "none" if check is None else "failed" if check.failed else "passed",
    }
    if made:
        tags |= {"engine_version": made.engine_version, "corpus_checksum": made.corpus_checksum}
        tags |= {"machine": made.machine, "mlflow.source.name": made.command, "mlflow.source.git.commit": made.commit}
    return tags


def _metrics(run: Run, start: int) -> Iterator[dict[str, Any]]:
    for record in run.records:
        when = start + round(1000 * record.seconds)
        for key, value in _values(record).items():
            if math.isfinite(value):  # the interface has no infinity: ε = ∞ stands in a tag
                yield {"key": _NO_KEY.sub("_", key), "value": value, "timestamp": when, "step": record.step}


def _values(record: RoundRecord) -> dict[str, float]:
    scores = record.scores
    found = {
        "epsilon": record.privacy.epsilon,
        "validation_precision": scores.precision,
        "validation_recall": scores.recall,
        "validation_f1": scores.f1,
    }
    if record.final and record.test:
        test = record.test
        found |= {"test_precision": test.precision, "test_recall": test.recall, "test_f1": test.f1}
        found |= {f"test_f1_{kind}": counts.ratios.f1 for kind, counts in test.strict.items()}
    return found


def _milliseconds(seconds: float | None) -> int:
    return round(1000 * (seconds or 0.0))


def _said(answer: requests.Response) -> str:
    try:
        return str(answer.json().get("message", ""))[:300]
    except (ValueError, AttributeError):
        return answer.text[:100]
