"""SimulationConfig → iterator of RoundRecord: a run from its first step to its last.

``simulate`` yields and never prints or stores. It can stop between any two steps and go on later from a Checkpoint:
every random draw is named by its step, so a resumed run repeats no release and gives the records it would have given.
"""

import time
from collections.abc import Callable, Iterator

from engine.config import SimulationConfig
from engine.corpus import AnyCorpus
from engine.errors import RunStopped
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
    """Train and report.

    stop: asked between steps; True ends the run with RunStopped. resume: go on after this state; the first record is
    the one that follows it. secrets: what samples and noise come from, by default what the configuration's noise
    source says; a run that is resumed must be given those it began with, unless they are seeded. corpus: of the
    configuration, where it was resolved already. on_checkpoint: given the state that belongs to a record just before
    the record is yielded. on_model: given the tagger, or that of each platform, once all records are out. on_stage:
    told what is going on, in words, with the share of the steps done.
    Raises InvalidConfig, CorpusError, VectorsMissing, StoreError, TrainingFailed, RunStopped.
    """

    def go_on() -> None:
        if stop():
            raise RunStopped("The run was stopped")

    def tell(stage: str) -> None:
        go_on()
        on_stage(stage, 0.0)

    started = time.monotonic() - (resume.seconds if resume else 0.0)
    prepared = prepare(config, settings, corpus=corpus, secrets=secrets, tell=tell)
    run, plan, sides = prepared.run, prepared.run.plan, prepared.sides
    recorder = Recorder(plan, sides, run.monitors, resume.tally if resume else TrainingProgress())
    if resume:
        run.restore(resume.arrays)

    done = recorder.done
    on_stage("training", done.step / plan.steps)
    for progress in run.train(done.rounds, done.step - plan.steps_before(done.rounds)):
        go_on()
        recorder.observe(progress)
        if progress.taken % 10 == 0 or progress.round is not None:
            on_stage(recorder.stage, progress.taken / plan.steps)
        if not recorder.due:
            continue
        validation = [side.scores("validation", run.average.weights, go_on) for side in sides]
        test = [side.scores("test", run.average.weights, go_on) for side in sides] if recorder.test_is_due else None
        record = recorder.record(validation, test, time.monotonic() - started)
        arrays = {name: array.copy() for name, array in run.state.items()}
        on_checkpoint(Checkpoint(round=record.round, seconds=record.seconds, tally=recorder.done, arrays=arrays))
        yield record
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
                corpus_checksum=prepared.corpus_checksum,
                engine_version=prepared.engine_version,
                epsilon=epsilon,
                delta=config.privacy.delta,
                platform=side.name if plan.platforms else None,
            )
        )
