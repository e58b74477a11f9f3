"""SimulationConfig → iterator of RoundRecord: the only place that ties corpus, tagger, privacy and training together.

``simulate`` yields and never prints or stores. It can stop between any two steps and go on later from a Checkpoint:
every random draw is named by its step, so a resumed run repeats no release and gives the records it would have given.
"""

import math
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from engine import corpus as corpora
from engine import embeddings
from engine.config import SimulationConfig, TaggerConfig
from engine.embeddings import EncodedCorpus, EncodedSplit
from engine.embeddings.encoded import subset, tag_sequences
from engine.errors import InvalidConfig, RunStopped
from engine.privacy.accounting import FAILED_CHECK, spent
from engine.privacy.plan import PrivacyPlan
from engine.records import EntityScores, NoiseCheck, PrivacySpent, RoundRecord
from engine.scoring import score
from engine.seeds import Seeds
from engine.settings import Settings
from engine.taggers import Tagger, build
from engine.taggers.decoding import Decoder
from engine.training import compiled_stamp
from engine.training.batches import physical_batches
from engine.training.checkpoint import Checkpoint
from engine.training.dpsgd import DPSGD, Backend, StepStatistics, predict
from engine.training.optimisers import Optimiser

_CHECK = "noise check/"
"""Before the names of the noise check's arrays in a checkpoint."""
REPORTS = 20
"""Evenly spaced records of a run; ε grows fastest at the start, so a few more stand there."""
_EARLY = (0.002, 0.005, 0.01, 0.02, 0.035)
"""Shares of the steps after which the first records come: the curve begins within seconds of the start."""


def report_steps(steps: int) -> list[int]:
    """Steps after which a record is due, ascending, the last one included; every step if there are few."""
    shares = [*_EARLY, *((i + 1) / REPORTS for i in range(REPORTS))]
    return sorted({max(1, round(share * steps)) for share in shares})


def simulate(
    config: SimulationConfig,
    settings: Settings,
    *,
    stop: Callable[[], bool] = lambda: False,
    resume: Checkpoint | None = None,
    on_checkpoint: Callable[[Checkpoint], None] = lambda checkpoint: None,
    on_stage: Callable[[str, float], None] = lambda stage, progress: None,
) -> Iterator[RoundRecord]:
    """Train and report.

    stop: asked between steps; True ends the run with RunStopped. resume: go on after this state; the first record is
    the one that follows it. on_checkpoint: given the state that belongs to a record just before the record is
    yielded. on_stage: told what is going on, in words, with the share of the steps done.
    Raises InvalidConfig, CorpusError, VectorsMissing, StoreError, TrainingFailed, RunStopped.
    """

    def go_on() -> None:
        if stop():
            raise RunStopped("The run was stopped")

    go_on()
    started = time.monotonic() - (resume.seconds if resume else 0.0)
    on_stage("reading the corpus and its word vectors", 0.0)
    encoded = encoded_corpus(config, settings)
    go_on()
    if settings.backend == "compiled" and not compiled_stamp.is_fresh():
        on_stage("compiling the training step, once; up to a minute", 0.0)
        from engine.training.compilation import compile_everything

        compile_everything()
    on_stage("preparing the tagger", 0.0)
    tagger, learner = learner_of(config, encoded, settings)
    plan, weights, optimiser = learner.plan, learner.weights, learner.optimiser
    decoder = Decoder(encoded.tags, well_formed=config.tagger.well_formed)
    if resume:
        weights[:] = resume.arrays["weights"]
        optimiser.state = {name: resume.arrays[name].copy() for name in optimiser.state}
        if learner.monitor:
            learner.monitor.state = {name: resume.arrays[_CHECK + name].copy() for name in learner.monitor.state}

    def evaluate(split: EncodedSplit) -> EntityScores:
        transitions = tagger.views(weights)[-1].get("transitions")
        found = predict(learner.backend, decoder, weights, transitions, split, encoded.vectors, go_on)
        return score(*(tag_sequences(split, tags, encoded.tags) for tags in (split.tags, found)))

    due = report_steps(plan.steps)
    examples_seen = resume.examples_seen if resume else 0
    nonfinite = resume.nonfinite if resume else 0
    since: list[StepStatistics] = []
    on_stage("training", (resume.step if resume else 0) / plan.steps)
    for step in range(resume.step if resume else 0, plan.steps):
        go_on()
        since.append(learner.step(step))
        examples_seen += len(since[-1].norms) + since[-1].nonfinite
        nonfinite += since[-1].nonfinite
        taken = step + 1
        if taken % 10 == 0:
            on_stage("training", taken / plan.steps)
        if taken not in due:
            continue
        scores = evaluate(encoded.validation)
        last = taken == plan.steps
        check = learner.monitor.verdict() if learner.monitor else None
        record = RoundRecord(
            round=due.index(taken),
            step=taken,
            steps_total=plan.steps,
            examples_seen=examples_seen,
            privacy=_believable(spent(plan, taken), check),
            scores=scores,
            nonfinite=nonfinite,
            test=evaluate(encoded.test) if last else None,
            seconds=time.monotonic() - started,
            noise_check=check,
            **_summary(since, plan.clip_norm),
        )
        since.clear()
        state = {"weights": weights, **optimiser.state}
        if learner.monitor:
            state |= {_CHECK + name: array for name, array in learner.monitor.state.items()}
        arrays = {name: array.copy() for name, array in state.items()}
        on_checkpoint(
            Checkpoint(
                step=taken,
                round=record.round,
                seconds=record.seconds,
                examples_seen=examples_seen,
                nonfinite=nonfinite,
                arrays=arrays,
            )
        )
        yield record


def _believable(privacy: PrivacySpent, check: NoiseCheck | None) -> PrivacySpent:
    """What may be said of a run: nothing is promised where the noise check failed."""
    if check is None or not check.failed:
        return privacy
    return PrivacySpent(epsilon=math.inf, delta=privacy.delta, assumptions=(FAILED_CHECK,))


def learner_of(config: SimulationConfig, encoded: EncodedCorpus, settings: Settings) -> tuple[Tagger, DPSGD]:
    """The tagger of ``config`` with fresh weights, ready for its first step. Raises InvalidConfig."""
    seeds, dimensions, tags = Seeds(config.seed), encoded.vectors.shape[1], len(encoded.tags)
    train = training_part(encoded.train, config.data_fraction, seeds)
    plan = PrivacyPlan.from_config(config, len(train))
    tagger = build(config.tagger, dimensions, tags)
    weights = tagger.initial_weights(seeds.stream("initial weights"))
    backend = _backend(config, dimensions, tags, settings.backend)
    optimiser = Optimiser(config.training, tagger.size)
    return tagger, DPSGD(backend, plan, optimiser, seeds, train, encoded.vectors, weights)


def training_part(train: EncodedSplit, fraction: float, seeds: Seeds) -> EncodedSplit:
    """A random share of the training sentences; it earns no privacy amplification. Raises InvalidConfig if empty."""
    if fraction == 1.0:
        return train
    wanted = round(fraction * len(train))
    if wanted < 1:
        raise InvalidConfig(f"data_fraction={fraction:g} leaves none of the {len(train):,} training sentences")
    chosen = seeds.stream("data fraction").permutation(len(train))[:wanted]
    return subset(train, np.sort(chosen))


def _summary(since: list[StepStatistics], clip_norm: float | None) -> dict[str, float]:
    """Means over the sentences sampled since the last record; 0 if there were none."""
    norms = np.concatenate([statistics.norms for statistics in since])
    losses = np.concatenate([statistics.losses for statistics in since])
    if not len(norms):
        return dict.fromkeys(("loss", "clipped_fraction", "gradient_norm_median", "gradient_norm_max"), 0.0)
    return {
        "loss": float(losses.mean()),
        "clipped_fraction": float((norms > clip_norm).mean()) if clip_norm is not None else 0.0,
        "gradient_norm_median": float(np.median(norms)),
        "gradient_norm_max": float(norms.max()),
    }


def warm_up(settings: Settings) -> None:
    """Compile the default tagger's graphs on a few sentences of the embedded corpus, and encode that corpus.

    Raises VectorsMissing, StoreError.
    """
    config = SimulationConfig()
    encoded = encoded_corpus(config, settings)
    dimensions, tags = encoded.vectors.shape[1], len(encoded.tags)
    backend = _backend(config, dimensions, tags, settings.backend)
    weights = build(config.tagger, dimensions, tags).initial_weights(Seeds(0).stream("initial weights"))
    few = subset(encoded.validation, np.arange(8))
    for batch in physical_batches(few, encoded.vectors, np.arange(len(few))):
        backend.clipped_gradient(weights, batch, 1.0)
        backend.scores(weights, batch)
    spent(PrivacyPlan.from_config(config, len(encoded.train)), 1)


def encoded_corpus(config: SimulationConfig, settings: Settings) -> EncodedCorpus:
    """The arrays of the corpus; its files are parsed only where no run has done so before."""
    return embeddings.encode(
        corpora.checksum(config.corpus, settings),
        lambda: corpora.load(config.corpus, settings),
        embeddings.find(config.embeddings),
        settings.home,
    )


def _backend(config: SimulationConfig, dimensions: int, tags: int, name: str) -> Backend:
    return _warm_backend(config.tagger, dimensions, tags, config.training.loss == "mean", name)


@lru_cache(maxsize=4)
def _warm_backend(tagger: TaggerConfig, dimensions: int, tags: int, mean: bool, name: str) -> Backend:
    """Graphs stay warm between the runs of a worker; only the library that computes is imported."""
    if name == "compiled":
        from engine.training.compiled.backend import CompiledBackend

        return CompiledBackend(build(tagger, dimensions, tags), mean=mean)
    from engine.training.tensorflow_backend import TensorFlowBackend

    return TensorFlowBackend(build(tagger, dimensions, tags), mean=mean)
