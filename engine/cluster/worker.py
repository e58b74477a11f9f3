"""Tasks of a cluster worker: it computes a run and writes the records to the store.

Each record is written before its checkpoint. After a crash between the two, the repeated steps draw the same samples
and the same noise and give the same record, which the store ignores.
"""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from traceback import format_tb
from typing import TypeVar

import psutil

from engine import corpus as corpora
from engine import embeddings
from engine.artifact_store import overwrite
from engine.config import MINILM, SimulationConfig, engine_version
from engine.corpus import AnyCorpus
from engine.errors import EpsilonError, RunNotFound, RunStopped, StoreError, StoreUnavailable
from engine.federated.plan import seeded_secrets
from engine.hardware import machine_class
from engine.privacy.audit import applicability
from engine.records import Provenance, RoundRecord, RunKind
from engine.reports.audits import audit_command
from engine.reports.cli_command import command_line
from engine.seeds import Secrets
from engine.settings import REPOSITORY, Settings
from engine.store import access_store, noise_keys
from engine.store import audits as saved_audits
from engine.store.paths import checkpoint_name, key_path, model_name
from engine.store.run_store import Claim, RunStore
from engine.training.checkpoint import Checkpoint, is_sealed
from engine.training.model import Model

HEARTBEAT_SECONDS = 0.5
"""Seconds between two heartbeats, which is also how fast a worker notices that its run was cancelled."""
AWAY_SECONDS = 1.0
"""Seconds between two attempts to reach an unavailable database."""

log = logging.getLogger("epsilon.worker")
_T = TypeVar("_T")


def environment(cores: int) -> dict[str, str]:
    """Return environment variables for a worker: thread pools within its share of the cores, and memory settings."""
    return {
        "OMP_NUM_THREADS": str(cores),
        # Threads that wait for work spin for some ten microseconds, not for milliseconds. Two runs on the same cores
        # are then half as fast, instead of a fifth as fast.
        "GOMP_SPINCOUNT": "10000",
        "OPENBLAS_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": str(cores),
        "TF_NUM_INTEROP_THREADS": "1",
        "NUMBA_NUM_THREADS": str(cores),
        # A step reuses the memory that the previous one freed. If it were returned to the system each time, as Dask
        # does by default, a step would take three times as long.
        "MALLOC_TRIM_THRESHOLD_": str(2**30),
        "MALLOC_MMAP_THRESHOLD_": str(2**30),
        # A run does not use its process's main thread. For other threads glibc returns freed memory anyway, a heap of
        # 64 MB at a time, unless all threads share one arena. Some runs lost a tenth of their time to that.
        "MALLOC_ARENA_MAX": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def warm_up(addresses: Mapping[str, str | None]) -> None:
    """Import large libraries and compile the default tagger's graphs, so that the first run starts immediately.

    This is the first task of each worker. So it also destroys the keys that ended runs left on its machine.
    """
    from engine.simulation import setup

    settings = _local_settings(addresses)
    store = RunStore(settings.store_url)
    noise_keys.sweep(settings, store.status)
    store.close()
    try:
        setup.warm_up(settings)
    except EpsilonError as error:
        log.warning("Warm-up failed: %s", error)  # the first run reports the same error to its user


def execute(run_id: str, addresses: Mapping[str, str | None], holder: str) -> None:
    """Compute a run on this machine.

    Args:
        run_id: Identity of the run.
        addresses: Settings that all machines share (:attr:`engine.settings.Settings.addresses`); folders are local.
        holder: Cluster of the worker.
    """
    compute(run_id, _local_settings(addresses), holder)


def _local_settings(addresses: Mapping[str, str | None]) -> Settings:
    return replace(Settings.from_environment(), **addresses)  # type: ignore[arg-type]


def compute(run_id: str, settings: Settings, holder: str) -> None:
    """Compute a run from its last checkpoint and write its records; a failure is stored as the run's error."""
    store = RunStore(settings.store_url)
    access = access_store.AccessStore(store)
    settings = replace(settings, shared_with=lambda *on: retry_while_unavailable(partial(access.shared_with, *on)))
    try:
        with suppress(RunStopped):
            _compute(store, retry_while_unavailable(partial(store.claim, run_id, holder)), settings)
        _destroy_keys_of_deleted(store, run_id, settings)
        noise_keys.sweep(settings, lambda other: retry_while_unavailable(partial(store.status, other)))
    finally:
        store.close()


def _destroy_keys_of_deleted(store: RunStore, run_id: str, settings: Settings) -> None:
    """Destroy the keys of a run that was deleted before this worker made them; it is known to be of this database."""
    try:
        retry_while_unavailable(partial(store.status, run_id))
    except RunNotFound:
        with suppress(StoreError):
            noise_keys.destroy(settings, run_id)
    except StoreError as error:
        log.warning("%s", error)


def _compute(store: RunStore, claim: Claim, settings: Settings) -> None:
    pulse = Heartbeat(store, claim)
    try:
        with pulse:
            if claim.kind == RunKind.AUDIT:
                _audit(store, claim, settings, pulse)
            else:
                _run(store, claim, settings, pulse)
    except RunStopped:
        log.info("Run %s was stopped.", claim.run_id)
    except Exception as error:
        _mark_failed(store, claim, str(error) if isinstance(error, EpsilonError) else _unexpected(error, claim))
    if claim.config.privacy.noise_source == "system" and not key_path(settings, claim.run_id).exists():
        with suppress(StoreError):  # of a run that was cancelled while it was written: it can no longer be opened
            settings.artefacts.remove(checkpoint_name(claim.run_id))


def retry_while_unavailable(ask: Callable[[], _T]) -> _T:
    """Return the result of a store call, and retry while the database server is unavailable.

    Waiting loses nothing. If the run is given to another worker meanwhile, the next write raises RunStopped.

    Args:
        ask: The call. Its exceptions other than StoreUnavailable are raised.
    """
    reported = ""
    while True:
        try:
            return ask()
        except StoreUnavailable as error:
            if str(error) != reported:
                log.warning("%s Retrying until it succeeds.", error)
                reported = str(error)
            time.sleep(AWAY_SECONDS)


def _unexpected(error: Exception, claim: Claim) -> str:
    """Log an error of the program, and return its sentence; neither quotes values of a run with system noise."""
    if claim.config.privacy.noise_source == "system":
        log.error("Run %s failed: %s\n%s", claim.run_id, type(error).__name__, "".join(format_tb(error.__traceback__)))
        text = "its message may quote private values and is withheld"
    else:
        log.error("Run %s failed.", claim.run_id, exc_info=error)
        text = str(error)[:200]
    if isinstance(error, MemoryError):
        return "The machine has too little memory for this run. Use a smaller batch size or hidden size."
    return f"Unexpected error ({type(error).__name__}: {text}). See the cluster's log."


def _mark_failed(store: RunStore, claim: Claim, sentence: str) -> None:
    try:
        retry_while_unavailable(partial(store.give_up, claim, sentence))
    except (RunStopped, StoreError) as error:
        log.warning("Run %s: %s The error could not be stored: %s", claim.run_id, sentence, error)


def _run(store: RunStore, claim: Claim, settings: Settings, pulse: "Heartbeat") -> None:
    from engine.simulation.run import simulate

    config = claim.config
    corpus = corpora.of_run(config, settings, claim.corpus_checksum)
    artefacts, checkpoint = settings.artefacts, checkpoint_name(claim.run_id)
    stored_records = partial(retry_while_unavailable, partial(store.records, claim.run_id))
    last_checkpoint, records_before = artefacts.get(checkpoint, changes=True), stored_records()
    if config.privacy.noise_source == "system":
        begun = bool(last_checkpoint or records_before)
        secrets = noise_keys.secrets_for(key_path(settings, claim.run_id), begun=begun)
    else:
        secrets = seeded_secrets(config, corpus.checksum)

    def save(found: Checkpoint) -> None:
        with artefacts.write(checkpoint, "The checkpoint") as path:
            found.save(path, claim.run_id, secrets)

    resume = _resume(last_checkpoint, records_before, claim.run_id, secrets)
    if resume and last_checkpoint and not is_sealed(last_checkpoint):
        with last_checkpoint.open("r+b") as unsealed:
            save(resume)
            overwrite(unsealed)
    latest: list[Checkpoint] = []
    models: list[Model] = []

    def stop() -> bool:
        if settings.backend == "compiled" and settings.scheduler is None:
            share_cores(pulse.under_way, pulse.others)
        return pulse.stopped()

    records = simulate(
        config,
        settings,
        stop=stop,
        resume=resume,
        secrets=secrets,
        corpus=corpus,
        on_checkpoint=latest.append,
        on_model=models.append,
        on_stage=pulse.tell,
    )
    record = None
    for record in records:
        retry_while_unavailable(partial(store.append, claim, record))
        save(latest.pop())
    if record is None:  # the worker had crashed between the last record and the end of the run
        record = stored_records()[-1]
    for number, model in enumerate(models):
        with artefacts.write(model_name(claim.run_id, number), "The tagger") as path:
            model.save(path)
    retry_while_unavailable(partial(store.finish, claim, provenance(config, corpus, record.seconds)))
    artefacts.remove(checkpoint)


def _audit(store: RunStore, claim: Claim, settings: Settings, pulse: "Heartbeat") -> None:
    """Audit the configuration of another run and save the result. After a crash, the next worker starts over."""
    from engine.experiments import audits

    config, start = claim.config, time.monotonic()
    corpus = corpora.of_run(config, settings, claim.corpus_checksum)

    def tell(stage: str, progress: float) -> None:
        if settings.backend == "compiled" and settings.scheduler is None:
            share_cores(pulse.under_way, pulse.others)
        pulse.tell(stage, progress)
        if pulse.stopped():
            raise RunStopped(f"The audit {claim.run_id} was stopped.")

    canaries, references = applicability.usual(config)
    command = audit_command(config, canaries, references, claim.parent)
    audit = audits.audit(config, settings, canaries, references, command=command, tell=tell)
    saved_audits.write(audit, settings.artefacts)
    retry_while_unavailable(partial(store.finish, claim, provenance(config, corpus, time.monotonic() - start)))


def share_cores(under_way: int, others: float) -> None:
    """Set the number of threads of this run to its share of the cores that other programs leave idle.

    This is called between steps: a run releases cores within a heartbeat of another run's start, and takes them back
    afterwards. Threads that wait for one another on busy cores are slower than a single thread. With a browser busy on
    the second of two cores, a run took 61 s with two threads and 36 s with one.

    Args:
        under_way: Running runs of this cluster, including this one.
        others: Number of cores that other programs keep busy.
    """
    import numba

    free = int((os.cpu_count() or 1) - others + 0.5)
    share = numba.config.NUMBA_NUM_THREADS // under_way  # type: ignore[attr-defined]
    threads = max(1, min(share, free))
    if threads != numba.get_num_threads():
        numba.set_num_threads(threads)


def _resume(path: Path | None, written: Sequence[RoundRecord], run_id: str, secrets: Secrets) -> Checkpoint | None:
    """Return the checkpoint from which the run resumes, or None.

    A checkpoint ahead of the records is refused: the database was restored from an older copy, and the records in
    between would be missing forever.

    Args:
        path: File of the checkpoint, or None.
        written: Records in the store.
        run_id: Identity of the run.
        secrets: Streams of the run, which open the checkpoint.
    """
    if path is None:
        return None
    try:
        found = Checkpoint.load(path, run_id, secrets)
        if not written or written[-1].round < found.round:
            raise StoreError(f"The checkpoint {path} is ahead of its run's records.")
        return found
    except StoreError as error:
        log.warning("%s The run restarts from the first step and repeats the same steps.", error)
        return None


def _processor_seconds() -> tuple[float, float, float]:
    """Return the monotonic time and the processor time of all processes and of this one, in seconds."""
    total, own = psutil.cpu_times(), psutil.Process().cpu_times()
    busy = sum(getattr(total, name, 0.0) for name in ("user", "system", "nice", "irq", "softirq"))
    return time.monotonic(), busy, own.user + own.system


class Heartbeat:
    """Thread that writes heartbeats while a run is computed and detects that the run was stopped.

    Attributes:
        under_way: Running runs of this cluster, including this one.
        others: Number of cores that all other processes keep busy, as a moving average.
    """

    def __init__(self, store: RunStore, claim: Claim) -> None:
        self._store, self._claim = store, claim
        self._end, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._stage, self._progress = "starting", 0.0
        self.under_way, self.others = 1, 0.0
        self._before = _processor_seconds()

    def tell(self, stage: str, progress: float) -> None:
        """Set the stage in words and the share of the steps done, 0 to 1, for the next heartbeat."""
        self._stage, self._progress = stage, progress

    def stopped(self) -> bool:
        """Return whether the run was cancelled or taken over."""
        return self._stopped.is_set()

    def _beat(self) -> None:
        reported = ""
        while not self._end.is_set():
            try:
                self.under_way = self._store.heartbeat(self._claim, self._stage, self._progress)
            except RunStopped:
                self._stopped.set()
                return
            except StoreError as error:  # the next heartbeat may succeed; a failed write of a record fails the run
                if str(error) != reported:
                    log.warning("%s", error)
                    reported = str(error)
            self._end.wait(HEARTBEAT_SECONDS)
            self._measure_load()

    def _measure_load(self) -> None:
        """Update the load of other programs, a moving average, so that short bursts have little effect."""
        now = _processor_seconds()
        seconds, busy, own = (after - before for after, before in zip(now, self._before, strict=True))
        if seconds > 0:
            self.others += 0.3 * (max(0.0, busy - own) / seconds - self.others)
        self._before = now

    def __enter__(self) -> "Heartbeat":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def provenance(config: SimulationConfig, corpus: AnyCorpus, seconds: float) -> Provenance:
    """Return the provenance of a run that has just ended; ``seconds`` is its duration."""
    return Provenance(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        engine_version=engine_version(config),
        corpus_checksum=corpus.checksum,
        vectors=", ".join(_public_parts(config)),
        machine=machine_class(),
        commit=_commit(),
        command=command_line(config),
        wall_seconds=round(seconds, 1),
        train_sentences=round(config.data_fraction * corpus.train_sentences),
        synthetic=corpus.synthetic,
        noise_source=config.privacy.noise_source,
    )


def _public_parts(config: SimulationConfig) -> list[str]:
    """Return the names of the word vectors and of a language model other than MiniLM."""
    other_model = [config.language_model] if config.language_model != MINILM else []
    return [embeddings.find(config.embeddings).label, *other_model]


def _commit() -> str:
    command = ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"
