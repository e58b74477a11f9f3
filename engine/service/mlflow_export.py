"""Export of finished runs to an MLflow tracking server.

It uses the REST API (MLflow documentation, *REST API*), so that MLflow need not be installed.
"""

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
"""Timeout of a request in seconds."""
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100
"""Maximum numbers of metrics and parameters in one request."""
_ID = "epsilon_explorer.run_id"
_NO_KEY = re.compile(r"[^\w./ -]")
"""Characters that are invalid in the name of a metric."""
_LONGEST = 500
"""Maximum length in characters of a parameter that servers of all versions accept."""


class Server:
    """Client of a tracking server. Methods raise StoreError with a sentence for the user.

    User name and password, or a token, come from the variables that MLflow's own clients read
    (``MLFLOW_TRACKING_USERNAME``, ``MLFLOW_TRACKING_PASSWORD``, ``MLFLOW_TRACKING_TOKEN``).

    Args:
        address: URL of the server.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidConfig(f"mlflow={address!r}, expected the URL of a tracking server, http://localhost:5000")
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
        """Return the identity of the experiment with this name; create it if there is none."""
        response = self._call("GET", "experiments/get-by-name", {"experiment_name": name}, missing=True)
        if response:
            return str(response["experiment"]["experiment_id"])
        return str(self._call("POST", "experiments/create", {"name": name})["experiment_id"])

    def known(self, experiment: str) -> set[str]:
        """Return the run identities of this program whose runs were completely uploaded to an experiment."""
        identities: set[str] = set()
        request: dict[str, Any] = {
            "experiment_ids": [experiment],
            "filter": "attributes.status = 'FINISHED'",
            "max_results": 1000,
        }
        while True:
            page = self._call("POST", "runs/search", request)
            for run in page.get("runs", []):
                tags = {tag["key"]: tag["value"] for tag in run.get("data", {}).get("tags", [])}
                identities |= {tags[_ID]} if _ID in tags else set()
            if not page.get("next_page_token"):
                return identities
            request |= {"page_token": page["next_page_token"]}

    def send(self, experiment: str, run: Run) -> None:
        """Upload a run: settings as parameters, scores and ε of each record as metrics by step."""
        start = _milliseconds(run.status.created)
        created = self._call(
            "POST",
            "runs/create",
            {
                "experiment_id": experiment,
                "run_name": _name(run),
                "start_time": start,
                "tags": [{"key": key, "value": value} for key, value in _tags(run).items()],
            },
        )
        identity = created["run"]["info"]["run_id"]
        parameters = [{"key": key, "value": str(value)[:_LONGEST]} for key, value in run.config.flat().items()]
        for batch in _batches(parameters, PARAMETERS_AT_ONCE):
            self._call("POST", "runs/log-batch", {"run_id": identity, "params": batch})
        for metrics in _batches(list(_metrics(run, start)), METRICS_AT_ONCE):
            self._call("POST", "runs/log-batch", {"run_id": identity, "metrics": metrics})
        end = start + round(1000 * (run.records[-1].seconds if run.records else 0))
        self._call("POST", "runs/update", {"run_id": identity, "status": "FINISHED", "end_time": end})

    def _call(self, method: str, path: str, fields: Mapping[str, Any], *, missing: bool = False) -> dict[str, Any]:
        query = fields if method == "GET" else None
        body = None if method == "GET" else fields
        try:
            response = self._session.request(
                method, self._base + path, params=query, json=body, timeout=TIMEOUT, allow_redirects=False
            )
            if missing and response.status_code == 404 and "RESOURCE_DOES_NOT_EXIST" in response.text:
                return {}
            if response.status_code != 200:
                raise StoreError(f"MLflow rejected {path}: {response.status_code}, {_error_message(response)}")
            content = response.json()
        except requests.RequestException as error:
            raise StoreError(
                f"MLflow could not be reached at {urlsplit(self._base).netloc.rpartition('@')[2]} "
                f"({type(error).__name__}). Check that the tracking server is running."
            ) from error
        except ValueError:
            raise StoreError(f"The server that answers at {path} is not an MLflow tracking server.") from None
        if not isinstance(content, dict):
            raise StoreError(f"The server that answers at {path} is not an MLflow tracking server.")
        return content


def send_all(
    runs: Iterable[Run],
    address: str,
    experiment: str,
    tell: Callable[[str, float], None] = lambda stage, progress: None,
) -> tuple[int, int]:
    """Upload the finished runs that the server lacks. After an error, a second call uploads only the remaining ones.

    Args:
        runs: The runs.
        address: URL of the tracking server.
        experiment: Name of the experiment.
        tell: Callback with the progress in words and as a share, 0 to 1.

    Returns:
        Number of uploaded runs, and number of runs that the server already had.

    Raises:
        InvalidConfig: If the address is not valid.
        StoreError: If a request fails.
    """
    finished = [run for run in runs if run.final]
    with Server(address) as server:
        experiment_id = server.experiment(experiment)
        existing = server.known(experiment_id)
        new = [run for run in finished if run.run_id not in existing]
        for number, run in enumerate(new):
            tell(f"run {number + 1:,} of {len(new):,}", number / len(new))
            server.send(experiment_id, run)
    return len(new), len(finished) - len(new)


def _batches(values: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Yield the values in lists of at most ``size``."""
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
            if math.isfinite(value):  # the API has no infinity: ε = ∞ is in a tag
                yield {"key": _NO_KEY.sub("_", key), "value": value, "timestamp": when, "step": record.step}


def _values(record: RoundRecord) -> dict[str, float]:
    scores = record.scores
    values = {
        "epsilon": record.privacy.epsilon,
        "validation_precision": scores.precision,
        "validation_recall": scores.recall,
        "validation_f1": scores.f1,
    }
    if record.final and record.test:
        test = record.test
        values |= {"test_precision": test.precision, "test_recall": test.recall, "test_f1": test.f1}
        values |= {f"test_f1_{kind}": counts.ratios.f1 for kind, counts in test.strict.items()}
    return values


def _milliseconds(seconds: float | None) -> int:
    return round(1000 * (seconds or 0.0))


def _error_message(response: requests.Response) -> str:
    try:
        return str(response.json().get("message", ""))[:300]
    except (ValueError, AttributeError):
        return response.text[:100]
