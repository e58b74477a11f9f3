"""What a cluster worker executes: a simulation, whose records it writes to the store.

A record is written first and its checkpoint after it: a crash between the two repeats steps that draw the same samples
and the same noise, and gives the same record again, which the store ignores.
"""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import psutil

from engine import corpus as corpora
from engine import embeddings
from engine.config import MINILM, SimulationConfig, engine_version
from engine.corpus import AnyCorpus
from engine.errors import EpsilonError, RunNotFound, RunStopped, StoreError, StoreUnavailable
from engine.hardware import machine_class
from engine.privacy.audit import applicability
from engine.records import Provenance, RoundRecord, RunKind, RunState
from engine.reports.audits import audit_command
from engine.reports.cli_command import command_line
from engine.settings import REPOSITORY, Settings
from engine.store import audits as kept_audits
from engine.store import noise_keys
from engine.store.paths import checkpoint_name, key_path, model_name
from engine.store.run_store import Claim, RunStore
from engine.training.checkpoint import Checkpoint
from engine.training.model import Model

HEARTBEAT_SECONDS = 0.5
"""Also how soon a run notices that it was cancelled."""
AWAY_SECONDS = 1.0
"""Between two attempts to reach a database that is away."""

log = logging.getLogger("epsilon.worker")
_T = TypeVar("_T")


def environment(cores: int) -> dict[str, str]:
    """Environment variables for a worker: thread pools within its share of the cores, memory that is kept."""
    return {
        "OMP_NUM_THREADS": str(cores),
        # Threads that wait for work spin for some ten microseconds, not for milliseconds: two runs that find each other
        # on the same cores are half as fast then, not a fifth.
        "GOMP_SPINCOUNT": "10000",
        "OPENBLAS_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": str(cores),
        "TF_NUM_INTEROP_THREADS": "1",
        "NUMBA_NUM_THREADS": str(cores),
        # Memory that a step frees is wanted by the next: given back to the system each time, as Dask would have it,
        # a step takes three times as long.
        "MALLOC_TRIM_THRESHOLD_": str(2**30),
        "MALLOC_MMAP_THRESHOLD_": str(2**30),
        # A run is not on its process's first thread. What other threads free glibc gives back all the same, a heap of
        # 64 MB at a time, unless all take theirs from one place: now and then a run lost a tenth of its time to that.
        "MALLOC_ARENA_MAX": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def warm_up(addresses: Mapping[str, str | None]) -> None:
    """Import what takes long and compile the default tagger's graphs, so that the first run starts at once."""
    from engine.simulation import setup

    try:
        setup.warm_up(_here(addresses))
    except EpsilonError as error:
        log.warning("Not warm: %s", error)  # the first run will say the same to its user


def execute(run_id: str, addresses: Mapping[str, str | None], holder: str) -> None:
    """Compute a run on this machine. addresses: what holds on all machines; folders are this machine's own."""
    compute(run_id, _here(addresses), holder)


def _here(addresses: Mapping[str, str | None]) -> Settings:
    return replace(Settings.from_environment(), **addresses)  # type: ignore[arg-type]


def compute(run_id: str, settings: Settings, holder: str) -> None:
    """Compute a run from where it stands and write its records; what goes wrong is written beside them."""
    store = RunStore(settings.store_url)
    try:
        claim = retry_while_unavailable(partial(store.claim, run_id, holder))
    except RunStopped:
        return
    pulse = Heartbeat(store, claim)
    try:
        noise_keys.sweep(
            key_path(settings, run_id).parent, lambda known: retry_while_unavailable(partial(_is_done, store, known))
        )
        with pulse:
            if claim.kind == RunKind.AUDIT:
                _audit(store, claim, settings, pulse)
            else:
                _run(store, claim, settings, pulse)
    except RunStopped:
        log.info("Run %s was stopped.", run_id)
    except Exception as error:
        if not isinstance(error, EpsilonError):
            log.exception("Run %s failed.", run_id)
        _mark_failed(store, claim, str(error) if isinstance(error, EpsilonError) else _unexpected(error))
    finally:
        store.close()


def retry_while_unavailable(ask: Callable[[], _T]) -> _T:
    """What the database answers, asked again while its server is away: nothing is lost by waiting for it, and whoever
    was given the run meanwhile has taken it from this worker by then. Raises what asking raises, but StoreAway."""
    told = ""
    while True:
        try:
            return ask()
        except StoreUnavailable as error:
            if str(error) != told:
                log.warning("%s Trying again and again.", error)
                told = str(error)
            time.sleep(AWAY_SECONDS)


def _is_done(store: RunStore, run_id: str) -> bool:
    try:
        return store.status(run_id).state == RunState.DONE
    except RunNotFound:
        return False


def _unexpected(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "The machine has too little memory for this run; a smaller batch size or hidden size needs less."
    return f"Something unexpected happened ({type(error).__name__}: {str(error)[:200]}); the cluster's log has more."


def _mark_failed(store: RunStore, claim: Claim, sentence: str) -> None:
    try:
        retry_while_unavailable(partial(store.give_up, claim, sentence))
    except (RunStopped, StoreError) as error:
        log.warning("Run %s: %s Could not be written: %s", claim.run_id, sentence, error)


def _run(store: RunStore, claim: Claim, settings: Settings, pulse: "Heartbeat") -> None:
    from engine.simulation.run import simulate

    config = claim.config
    corpus = corpora.of_run(config, settings, claim.corpus_checksum)
    artefacts, checkpoint = settings.artefacts, checkpoint_name(claim.run_id)
    keys, secrets = key_path(settings, claim.run_id), None
    written = partial(retry_while_unavailable, partial(store.records, claim.run_id))
    kept, records_before = artefacts.get(checkpoint, changes=True), written()
    resume = _resume(kept, records_before)
    if config.privacy.noise_source == "system":
        secrets = noise_keys.secrets_for(keys, begun=bool(kept or records_before))
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
        with artefacts.write(checkpoint, "The checkpoint") as path:
            latest.pop().save(path)
    if record is None:  # it had died between its last record and its end
        record = written()[-1]
    for number, model in enumerate(models):
        with artefacts.write(model_name(claim.run_id, number), "The tagger") as path:
            model.save(path)
    retry_while_unavailable(partial(store.finish, claim, provenance(config, corpus, record.seconds)))
    artefacts.remove(checkpoint)
    noise_keys.destroy(keys)


def _audit(store: RunStore, claim: Claim, settings: Settings, pulse: "Heartbeat") -> None:
    """Attack what another run was, and keep what was measured. Begun anew by whom it falls to next."""
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
    found = audits.audit(config, settings, canaries, references, command=command, tell=tell)
    kept_audits.write(found, settings.artefacts)
    retry_while_unavailable(partial(store.finish, claim, provenance(config, corpus, time.monotonic() - start)))


def share_cores(under_way: int, others: float) -> None:
    """Take this run's share of the cores, where so many runs are under way: all of them, or one, or what is between;
    and leave those alone that other programs keep busy. others: how many that is.

    Asked between steps: a run that gets company gives way within a heartbeat, and takes the cores back afterwards.
    Threads that wait for one another on cores that they must share are slower than one thread alone: with a browser
    that draws on the second of two cores, a run took 61 s with two threads and 36 s with one.
    """
    import numba

    free = int((os.cpu_count() or 1) - others + 0.5)
    share = numba.config.NUMBA_NUM_THREADS // under_way  # type: ignore[attr-defined]
    threads = max(1, min(share, free))
    if threads != numba.get_num_threads():
        numba.set_num_threads(threads)


def _resume(path: Path | None, written: Sequence[RoundRecord]) -> Checkpoint | None:
    """Where the run goes on. One that is ahead of its records is of another time than the database, which was put back
    from an older copy: the records between them would be missing for ever."""
    if path is None:
        return None
    try:
        found = Checkpoint.load(path)
        if not written or written[-1].round < found.round:
            raise StoreError(f"The checkpoint {path} is ahead of its run's records.")
        return found
    except StoreError as error:
        log.warning("%s The run starts again and repeats the same steps.", error)
        return None


def _processor_seconds() -> tuple[float, float, float]:
    """The time, what all processes have computed until now, and what this one has, in seconds."""
    every, own = psutil.cpu_times(), psutil.Process().cpu_times()
    busy = sum(getattr(every, name, 0.0) for name in ("user", "system", "nice", "irq", "softirq"))
    return time.monotonic(), busy, own.user + own.system


class Heartbeat:
    """Writes a heartbeat while the run is computed and notices when it may not go on. under_way: runs of this cluster
    that are being computed, this one included. others: cores that all other processes keep busy, of late."""

    def __init__(self, store: RunStore, claim: Claim) -> None:
        self._store, self._claim = store, claim
        self._end, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._stage, self._progress = "starting", 0.0
        self.under_way, self.others = 1, 0.0
        self._before = _processor_seconds()

    def tell(self, stage: str, progress: float) -> None:
        """What goes on now, and the share of the steps done."""
        self._stage, self._progress = stage, progress

    def stopped(self) -> bool:
        """Whether the run was cancelled or taken over."""
        return self._stopped.is_set()

    def _beat(self) -> None:
        told = ""
        while not self._end.is_set():
            try:
                self.under_way = self._store.heartbeat(self._claim, self._stage, self._progress)
            except RunStopped:
                self._stopped.set()
                return
            except StoreError as error:  # a locked database may be free at the next beat; a record would not pass it by
                if str(error) != told:
                    log.warning("%s", error)
                    told = str(error)
            self._end.wait(HEARTBEAT_SECONDS)
            self._look_around()

    def _look_around(self) -> None:
        """A moving average, so that a moment's work of another program changes nothing."""
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
    """How the run that just ended came about."""
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
    """Word vectors, and a language model that stands in MiniLM's place."""
    own = [config.language_model] if config.language_model != MINILM else []
    return [embeddings.find(config.embeddings).label, *own]


def _commit() -> str:
    asked = ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"
