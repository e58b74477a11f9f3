"""SimulationConfig → a run before its first step: corpus, features, tagger, plan, and the federation that trains."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine import corpus as corpora
from engine import embeddings, readiness
from engine.config import SimulationConfig, engine_version, run_id
from engine.corpus import AnyCorpus, CorpusHandle
from engine.embeddings import EncodedCorpus, apart
from engine.embeddings.apart import Overlap
from engine.embeddings.characters import with_characters
from engine.embeddings.encoded import subset, tag_sequences
from engine.errors import InvalidConfig
from engine.federated.accounting import spent
from engine.federated.federation import Federation, Holding
from engine.federated.gradients import GradientFederation
from engine.federated.plan import plan_of, secrets_of
from engine.records import EntityScores
from engine.scoring import score
from engine.seeds import Secrets, Seeds
from engine.settings import Settings
from engine.taggers import Tagger, build
from engine.taggers.decoding import Decoder
from engine.training import compiled_stamp
from engine.training.backends import backend_of
from engine.training.batches import physical_batches
from engine.training.dpsgd import predict


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """A corpus with the tagger for its tags: a platform's, or that of all clients together. name: of the corpus.
    shared: sentences that public parts of the features were fitted on. holding: what clients train with. decoder: reads
    tags off scores."""

    name: str
    shared: Overlap
    encoded: EncodedCorpus
    tagger: Tagger
    holding: Holding
    decoder: Decoder

    def scores(self, part: str, every: np.ndarray, check: Callable[[], None]) -> EntityScores:
        """How well the names in the "validation" or "test" part are found with the run's weights as in ``every``.
        check: called again and again; it may raise. Raises TrainingFailed."""
        encoded, split, weights = self.encoded, getattr(self.encoded, part), self.holding.weights(every)
        transitions = self.tagger.views(weights)[-1].get("transitions")
        found = predict(self.holding.backend, self.decoder, weights, transitions, split, encoded.vectors, check)
        return score(*(tag_sequences(split, tags, encoded.tags) for tags in (split.tags, found)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A run before its first step. run_id, corpus_checksum, engine_version: what it is known by. sides: of each
    platform, or one. run: what trains, with the plan and the first weights."""

    run_id: str
    corpus_checksum: str
    engine_version: str
    sides: tuple[Side, ...]
    run: Federation


def prepare(
    config: SimulationConfig,
    settings: Settings,
    *,
    corpus: AnyCorpus | None = None,
    secrets: Secrets | None = None,
    tell: Callable[[str], None] = lambda stage: None,
) -> Prepared:
    """Everything that is decided before training.

    corpus: of the configuration, where it was resolved already. secrets: what samples and noise come from, by default
    what the configuration's noise source says. tell: is told what is going on, in words; it may raise to stop. Raises
    InvalidConfig, CorpusError, VectorsMissing, StoreError, TrainingFailed.
    """
    needed = _needed(config, settings)
    readiness.wait_for(needed, tell)
    tell("reading the corpus and its word vectors")
    corpus = corpus or corpora.resolve(config.corpus, settings)
    shared = [apart.overlap(part, config.features) for part in corpus.parts]
    encoded = [
        embeddings.encode(
            part,
            config.embeddings,
            config.features,
            lambda share: tell(f"computing vectors in context, once for this corpus: {share:.0%}"),
        )
        for part in corpus.parts
    ]
    if settings.backend == "compiled" and not compiled_stamp.is_fresh():
        from engine.training.compilation import compile_what_is_missing

        compile_what_is_missing(tell)
    tell("preparing the tagger")
    secrets = secrets or secrets_of(config, corpus.checksum)
    identity, seeds = run_id(config, corpus.checksum), Seeds(config.seed)
    plan = plan_of(config, corpus, secrets)
    sides = tuple(_sides(config, corpus.parts, shared, encoded, settings.backend))
    weights = _first_weights([side.tagger for side in sides], seeds)
    kind = GradientFederation if config.federation.schedule == "gradients" else Federation
    run = kind(plan, [side.holding for side in sides], weights, config.training, seeds=seeds, secrets=secrets)
    return Prepared(
        run_id=identity,
        corpus_checksum=corpus.checksum,
        engine_version=engine_version(config),
        sides=sides,
        run=run,
    )


def _needed(config: SimulationConfig, settings: Settings) -> set[str]:
    """The parts of set-up that this run cannot do without."""
    needed = {readiness.VECTORS, readiness.TRAINING}
    if config.features in embeddings.IN_CONTEXT:
        needed |= {readiness.TENSORFLOW, readiness.LANGUAGE_MODEL}
    if settings.backend == "tensorflow":
        needed.add(readiness.TENSORFLOW)
    return needed


def _sides(
    config: SimulationConfig,
    parts: Sequence[CorpusHandle],
    shared: Sequence[Overlap],
    encoded: Sequence[EncodedCorpus],
    backend: str,
) -> Iterator[Side]:
    """Of each corpus, in their order; the weights that a platform keeps to itself follow those of the one before it."""
    first = end = 0
    for part, overlap, arrays in zip(parts, shared, encoded, strict=True):
        tagger = build(config.tagger, arrays.vectors.shape[1], len(arrays.tags), arrays.copied)
        if config.platforms:
            parts_shared = config.federation.shared_parts
            if parts_shared and tagger.splits[-1] in parts_shared and arrays.tags != encoded[0].tags:
                raise InvalidConfig(
                    f"shared={config.federation.shared!r}, but {part.name!r} has other tags than {parts[0].name!r}"
                )
            tagger = tagger.sharing(config.federation.shared_parts)
        if tagger.spells:
            arrays = with_characters(arrays, part)
        start = end or tagger.shared.stop
        end = start + tagger.size - tagger.shared.stop
        holding = Holding(
            split=arrays.train,
            table=arrays.vectors,
            backend=backend_of(tagger, config.training.loss, backend),
            shared=tagger.shared.stop,
            own=slice(start, end) if end > start else slice(0, 0),
            first=first,
            layers=tagger.stretches,
        )
        decoder = Decoder(arrays.tags, well_formed=config.tagger.well_formed)
        yield Side(name=part.name, shared=overlap, encoded=arrays, tagger=tagger, holding=holding, decoder=decoder)
        first += len(arrays.train)


def _first_weights(taggers: Sequence[Tagger], seeds: Seeds) -> np.ndarray:
    """The common ones as a single tagger's would be, then those of each platform, drawn for it."""
    common = taggers[0].initial_weights(seeds.stream("initial weights"))
    own = [
        tagger.initial_weights(seeds.of(platform=number).stream("initial weights"))[tagger.shared.stop :]
        for number, tagger in enumerate(taggers)
        if tagger.size > tagger.shared.stop
    ]
    return np.concatenate([common[: taggers[0].shared.stop], *own])


def warm_up(settings: Settings) -> None:
    """Compile the default tagger's graphs on a few sentences of the embedded corpus, and encode that corpus.

    Raises VectorsMissing, StoreError.
    """
    prepared = prepare(SimulationConfig(), settings)
    run, (side,) = prepared.run, prepared.sides
    few, backend = subset(side.encoded.validation, np.arange(8)), side.holding.backend
    for batch in physical_batches(few, side.encoded.vectors, np.arange(len(few))):
        backend.clipped_gradient(run.weights, batch, 1.0)
        backend.scores(run.weights, batch)
    spent(run.plan, 1, 0)
