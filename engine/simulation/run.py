"""A run from its first step to its last: SimulationConfig → iterator of RoundRecord.

``simulate`` yields records and never prints or stores. It can stop between any two steps and resume from a Checkpoint.
Every random draw is named by its step, so a resumed run repeats no release and gives the same records.
"""

import time
from collections.abc import Callable, Iterator

from engine.config import SimulationConfig
from engine.corpus import AnyCorpus
from engine.errors import RunStopped, TrainingFailed
from engine.records import RoundRecord
from engine.seeds import Secrets
from engine.settings import Settings
from engine.simulation.recorder import Recorder
from engine.simulation.setup import prepare
from engine.training.checkpoint import Checkpoint, TrainingProgress
from engine.training.model import Model


def simulate(
    config: SimulationConfig,
    settings: Settings,
    *,
    stop: Callable[[], bool] = lambda: False,
    resume: Checkpoint | None = None,
    secrets: Secrets | None = None,
    corpus: AnyCorpus | None = None,
    on_checkpoint: Callable[[Checkpoint], None] = lambda checkpoint: None,
    on_model: Callable[[Model], None] = lambda model: None,
    on_stage: Callable[[str, float], None] = lambda stage, progress: None,
) -> Iterator[RoundRecord]:
    """Train a model and yield its records.

    Args:
        config: the configuration of the run.
        settings: where corpora, vectors and results are.
        stop: called between steps; True ends the run with RunStopped.
        resume: checkpoint to resume from; the first record is the next one.
        secrets: keys of sampling and noise, by default those of the configuration's noise source. A resumed run needs
            its original keys unless they are seeded.
        corpus: the corpus of the configuration, if it is already resolved.
        on_checkpoint: receives the state of a record just before the record is yielded.
        on_model: receives the model, or the model of each client (silo), after the last record.
        on_stage: receives a description of the stage and the share of the steps that are done.

    Yields:
        The records of the run in order.

    Raises:
        InvalidConfig: for a configuration that is not valid.
        CorpusError: if a corpus is missing or invalid.
        VectorsMissing: if word vectors are not installed.
        StoreError: if stored data cannot be read or written.
        TrainingFailed: if the training diverges or ends before its last step.
        RunStopped: if ``stop`` returned True.
    """

    def check_stop() -> None:
        if stop():
            raise RunStopped("The run was stopped")

    def on_preparation(stage: str) -> None:
        check_stop()
        on_stage(stage, 0.0)

    started = time.monotonic() - (resume.seconds if resume else 0.0)
    prepared = prepare(config, settings, corpus=corpus, secrets=secrets, tell=on_preparation)
    run, plan, sides = prepared.run, prepared.run.plan, prepared.sides
    recorder = Recorder(plan, sides, run.monitors, resume.tally if resume else TrainingProgress())
    if resume:
        run.restore(resume.arrays)

    done = recorder.done
    on_stage("training", done.step / plan.steps)
    for progress in run.train(done.rounds, done.step - plan.steps_before(done.rounds)):
        check_stop()
        recorder.observe(progress)
        if progress.taken % 10 == 0 or progress.round is not None:
            on_stage(recorder.stage, progress.taken / plan.steps)
        if not recorder.due:
            continue
        validation = [side.scores("validation", run.average.weights, check_stop) for side in sides]
        test = None
        if recorder.test_is_due:
            test = [side.scores("test", run.average.weights, check_stop) for side in sides]
        record = recorder.record(validation, test, time.monotonic() - started)
        arrays = {name: array.copy() for name, array in run.state.items()}
        on_checkpoint(Checkpoint(round=record.round, seconds=record.seconds, tally=recorder.done, arrays=arrays))
        yield record
    if recorder.done.step != plan.steps:
        raise TrainingFailed(
            f"Training ended after step {recorder.done.step:,} of {plan.steps:,}, expected all steps of the plan. A "
            "rule that ends it earlier could depend on private sentences; set fewer epochs instead"
        )
    epsilon = recorder.epsilon
    for side in sides:
        on_model(
            Model(
                run_id=prepared.run_id,
                config=config,
                weights=side.holding.weights(run.average.weights).copy(),
                tags=side.encoded.tags,
                dimensions=side.encoded.vectors.shape[1],
                copied=side.encoded.copied,
                engine_version=prepared.engine_version,
                epsilon=epsilon,
                delta=config.privacy.delta,
                platform=side.name if plan.platforms else None,
            )
        )
