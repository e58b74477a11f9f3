"""SimulationConfig → iterator of RoundRecord: the only place that ties corpus, tagger, privacy and training together.

``simulate`` yields and never prints or stores. It can stop between any two steps and go on later from a Checkpoint:
every random draw is named by its step, so a resumed run repeats no release and gives the records it would have given.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from engine import corpus as corpora
from engine import embeddings
from engine.config import SimulationConfig, engine_version, run_id
from engine.corpus.handle import CorpusHandle
from engine.embeddings import EncodedCorpus, EncodedSplit, apart
from engine.embeddings.encoded import subset, tag_sequences
from engine.errors import RunStopped
from engine.federated.accounting import spent
from engine.federated.federation import Federation, Progress, after
from engine.federated.plan import FederatedPlan, plan_of, seeded_secrets
from engine.federated.server import Exchange
from engine.privacy.accounting import FAILED_CHECK
from engine.records import EntityScores, FederatedRound, NoiseCheck, PrivacySpent, RoundRecord
from engine.scoring import score
from engine.seeds import Secrets, Seeds
from engine.settings import Settings
from engine.taggers import Tagger, build
from engine.taggers.decoding import Decoder
from engine.training import compiled_stamp
from engine.training.averaging import Average
from engine.training.batches import physical_batches
from engine.training.checkpoint import Checkpoint, Tally
from engine.training.dpsgd import Backend, StepStatistics, predict
from engine.training.model import Model

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
    secrets: Secrets | None = None,
    corpus: CorpusHandle | None = None,
    on_checkpoint: Callable[[Checkpoint], None] = lambda checkpoint: None,
    on_model: Callable[[Model], None] = lambda model: None,
    on_stage: Callable[[str, float], None] = lambda stage, progress: None,
) -> Iterator[RoundRecord]:
    """Train and report.

    stop: asked between steps; True ends the run with RunStopped. resume: go on after this state; the first record is
    the one that follows it. secrets: what samples and noise come from, by default what the configuration's noise
    source says; a run that is resumed must be given those it began with, unless they are seeded. corpus: of the
    configuration, where it was resolved already. on_checkpoint: given the state that belongs to a record just before
    the record is yielded. on_model: given the tagger once all records are out. on_stage: told what is going on, in
    words, with the share of the steps done.
    Raises InvalidConfig, CorpusError, VectorsMissing, StoreError, TrainingFailed, RunStopped.
    """

    def go_on() -> None:
        if stop():
            raise RunStopped("The run was stopped")

    go_on()
    started = time.monotonic() - (resume.seconds if resume else 0.0)
    on_stage("reading the corpus and its word vectors", 0.0)

    def computing(share: float) -> None:
        go_on()
        on_stage(f"computing vectors in context, once for this corpus: {share:.0%}", 0.0)

    corpus = corpus or corpora.resolve(config.corpus, settings)
    shared = apart.overlap(corpus, config.features)
    encoded = encoded_corpus(config, corpus, computing)
    go_on()
    if settings.backend == "compiled" and not compiled_stamp.is_fresh():
        on_stage("compiling the training step, once; up to a minute", 0.0)
        from engine.training.compilation import compile_everything

        compile_everything()
    on_stage("preparing the tagger", 0.0)
    tagger, run = federation_of(config, corpus, encoded, settings.backend, secrets)
    plan, weights = run.plan, run.weights
    decoder = Decoder(encoded.tags, well_formed=config.tagger.well_formed)
    done = resume.tally if resume else Tally()
    optimiser_state = None
    if resume:
        weights[:] = resume.arrays["weights"]
        optimiser_state = {name: resume.arrays[name] for name in run.optimiser.state}
        if run.monitor:
            run.monitor.state = {name: resume.arrays[_CHECK + name].copy() for name in run.monitor.state}

    average = Average(config.training.averaging, weights, resume.arrays if resume else {})

    def evaluate(split: EncodedSplit) -> EntityScores:
        transitions = tagger.views(average.weights)[-1].get("transitions")
        found = predict(run.backend, decoder, average.weights, transitions, split, encoded.vectors, go_on)
        return score(*(tag_sequences(split, tags, encoded.tags) for tags in (split.tags, found)))

    due = due_steps(plan)
    since: list[StepStatistics] = []
    rounds_since: list[Exchange] = []
    last_round: Progress | None = None
    on_stage("training", done.step / plan.steps)
    for progress in run.train(done.rounds, done.step - plan.steps_before(done.rounds), optimiser_state):
        go_on()
        done = after(done, progress)
        if progress.step:
            since.append(progress.step)
        if run.alone or progress.exchange:
            average.follow()
        if progress.round is not None:
            last_round = progress
            rounds_since += [progress.exchange] if progress.exchange else []
        if progress.taken % 10 == 0 or progress.round is not None:
            on_stage(_stage(plan, done), done.step / plan.steps)
        if progress.taken not in due or not (run.alone or progress.round is not None):
            continue
        scores = evaluate(encoded.validation)
        check = run.monitor.verdict() if run.monitor else None
        record = RoundRecord(
            round=due.index(progress.taken),
            step=done.step,
            steps_total=plan.steps,
            examples_seen=done.examples_seen,
            privacy=_believable(apart.believable(spent(plan, done.step, done.rounds), shared), check),
            scores=scores,
            nonfinite=done.nonfinite,
            test=evaluate(encoded.test) if _scored_on_test(config, done, plan) else None,
            seconds=time.monotonic() - started,
            noise_check=check,
            federation=_federated(plan, done, last_round),
            **_summary(since, plan.parts[0].clip_norm, tagger),
            noise_to_signal=_noise_to_signal(plan, since, rounds_since, tagger.size),
        )
        since.clear()
        rounds_since.clear()
        state = {"weights": weights, **run.optimiser.state, **average.state}
        if run.monitor:
            state |= {_CHECK + name: array for name, array in run.monitor.state.items()}
        arrays = {name: array.copy() for name, array in state.items()}
        on_checkpoint(Checkpoint(round=record.round, seconds=record.seconds, tally=done, arrays=arrays))
        yield record
    spent_at_end = apart.believable(spent(plan, done.step, done.rounds), shared)
    on_model(
        Model(
            run_id=run_id(config, corpus.checksum),
            config=config,
            weights=average.weights.copy(),
            tags=encoded.tags,
            dimensions=encoded.vectors.shape[1],
            copied=embeddings.near(encoded, config.features),
            corpus_checksum=corpus.checksum,
            engine_version=engine_version(config),
            epsilon=_believable(spent_at_end, run.monitor.verdict() if run.monitor else None).epsilon,
            delta=spent_at_end.delta,
        )
    )


def _scored_on_test(config: SimulationConfig, done: Tally, plan: FederatedPlan) -> bool:
    """At the end, and after each phase of an incremental run, which stands for a run on so much of the data."""
    phase = config.federation.schedule == "incremental" and done.step == plan.steps_before(done.rounds)
    return phase or done.rounds == len(plan.rounds)


def due_steps(plan: FederatedPlan) -> list[int]:
    """After how many steps by all clients together a record is due, ascending, the last one included.

    Of several clients at the end of rounds, of one on the way too.
    """
    rounds = [int(plan.ends[number - 1]) for number in report_steps(len(plan.rounds))]
    return sorted({*rounds, *(report_steps(plan.steps) if len(plan.shards) == 1 else ())} - {0})


def _stage(plan: FederatedPlan, done: Tally) -> str:
    if len(plan.shards) == 1:
        return "training"
    return f"training, round {min(done.rounds + 1, len(plan.rounds)):,} of {len(plan.rounds):,}"


def _federated(plan: FederatedPlan, done: Tally, last: Progress | None) -> FederatedRound | None:
    """What the last round moved; None in central training."""
    if len(plan.shards) == 1:
        return None
    exchange = last.exchange if last else None
    return FederatedRound(
        round=done.rounds,
        rounds=len(plan.rounds),
        clients=exchange.clients if exchange else (),
        failed=last.failed if last else (),
        drift=exchange.drift if exchange else 0.0,
        update_norms=exchange.norms if exchange else (),
        bytes_down=done.bytes_down,
        bytes_up=done.bytes_up,
    )


def _believable(privacy: PrivacySpent, check: NoiseCheck | None) -> PrivacySpent:
    """What may be said of a run: nothing is promised where the noise check failed."""
    if check is None or not check.failed:
        return privacy
    return PrivacySpent(epsilon=math.inf, delta=privacy.delta, assumptions=(FAILED_CHECK,))


@dataclass(frozen=True)
class Prepared:
    """A run before its first step."""

    encoded: EncodedCorpus
    tagger: Tagger
    run: Federation


def prepare(config: SimulationConfig, settings: Settings) -> Prepared:
    """All that a run needs, for those who take its steps themselves. Raises what :func:`simulate` raises."""
    corpus = corpora.resolve(config.corpus, settings)
    encoded = encoded_corpus(config, corpus)
    return Prepared(encoded, *federation_of(config, corpus, encoded, settings.backend))


def federation_of(
    config: SimulationConfig,
    corpus: CorpusHandle,
    encoded: EncodedCorpus,
    computed_by: str,
    secrets: Secrets | None = None,
) -> tuple[Tagger, Federation]:
    """The tagger of ``config`` with fresh weights, ready for its first step. computed_by: name of the back end. Raises
    InvalidConfig, CorpusError."""
    if secrets is None:
        drawn = config.privacy.noise_source == "system"
        secrets = Secrets.drawn() if drawn else seeded_secrets(config, corpus.checksum)
    plan = plan_of(config, corpus, secrets)
    train = encoded.train if len(plan.chosen) == len(encoded.train) else subset(encoded.train, plan.chosen)
    tagger = tagger_of(config, encoded)
    weights = tagger.initial_weights(Seeds(config.seed).stream("initial weights"))
    backend = _backend(config, tagger, computed_by)
    weighty = (each for each in zip(tagger.titles, tagger.parts, tagger.slices, strict=True) if each[1].shapes)
    layers = sorted(((title, stretch) for title, _, stretch in weighty), key=lambda layer: layer[1].start)
    run = Federation(config, plan, backend, train, encoded.vectors, weights, layers=layers, secrets=secrets)
    return tagger, run


def _noise_to_signal(
    plan: FederatedPlan, since: list[StepStatistics], rounds: list[Exchange], size: int
) -> float | None:
    """The noise's expected length ÷ the root mean square length of what it was added to; None without either."""
    if plan.server:
        # Where clients add it themselves, the sum has the noise of each.
        times = np.mean([max(1, len(exchange.clients)) for exchange in rounds]) if plan.local and rounds else 1.0
        noise, signals = plan.server.noise_std * math.sqrt(times * size), [exchange.signal for exchange in rounds]
    else:
        noise, signals = plan.parts[0].noise_std * math.sqrt(size), [statistics.signal for statistics in since]
    power = float(np.mean(np.square(signals))) if signals else 0.0
    return noise / math.sqrt(power) if noise and power and math.isfinite(power) else None


def _summary(since: list[StepStatistics], clip_norm: float | None, tagger: Tagger) -> dict[str, Any]:
    """Means over the sentences sampled since the last record; 0 if there were none."""
    norms = np.concatenate([statistics.norms for statistics in since])
    losses = np.concatenate([statistics.losses for statistics in since])
    if not len(norms):
        return dict.fromkeys(("loss", "clipped_fraction", "gradient_norm_median", "gradient_norm_max"), 0.0)
    parts = np.concatenate([statistics.parts for statistics in since if len(statistics.norms)], axis=1)
    layers = zip(tagger.titles, tagger.parts, np.median(parts, axis=1), strict=True)
    return {
        "loss": float(losses.mean()),
        "clipped_fraction": float((norms > clip_norm).mean()) if clip_norm is not None else 0.0,
        "gradient_norm_median": float(np.median(norms)),
        "gradient_norm_max": float(norms.max()),
        "layer_norms": {title: float(norm) for title, part, norm in layers if part.shapes},
    }


def warm_up(settings: Settings) -> None:
    """Compile the default tagger's graphs on a few sentences of the embedded corpus, and encode that corpus.

    Raises VectorsMissing, StoreError.
    """
    config = SimulationConfig()
    corpus = corpora.resolve(config.corpus, settings)
    encoded = encoded_corpus(config, corpus)
    tagger = tagger_of(config, encoded)
    backend = _backend(config, tagger, settings.backend)
    weights = tagger.initial_weights(Seeds(0).stream("initial weights"))
    few = subset(encoded.validation, np.arange(8))
    for batch in physical_batches(few, encoded.vectors, np.arange(len(few))):
        backend.clipped_gradient(weights, batch, 1.0)
        backend.scores(weights, batch)
    spent(plan_of(config, corpus), 1, 0)


def encoded_corpus(
    config: SimulationConfig, corpus: CorpusHandle, progress: Callable[[float], None] = lambda share: None
) -> EncodedCorpus:
    """The arrays of the corpus; its files are parsed, and its features computed, only where no run has done so before.

    progress: told what share of the features is there.
    """
    package = embeddings.find(config.embeddings)
    encoded = embeddings.encode(corpus, package)
    return (
        encoded
        if config.features == "vectors"
        else embeddings.widen(encoded, config.features, corpus, package, progress)
    )


def tagger_of(config: SimulationConfig, encoded: EncodedCorpus) -> Tagger:
    """The tagger of ``config`` for these features."""
    return build(config.tagger, encoded.vectors.shape[1], len(encoded.tags), embeddings.near(encoded, config.features))


def _backend(config: SimulationConfig, tagger: Tagger, name: str) -> Backend:
    return _warm_backend(tagger, config.training.loss == "mean", name)


@lru_cache(maxsize=4)
def _warm_backend(tagger: Tagger, mean: bool, name: str) -> Backend:
    """Graphs stay warm between the runs of a worker; only the library that computes is imported."""
    if name == "compiled":
        from engine.training.compiled.backend import CompiledBackend

        return CompiledBackend(tagger, mean=mean)
    from engine.training.tensorflow_backend import TensorFlowBackend

    return TensorFlowBackend(tagger, mean=mean)
