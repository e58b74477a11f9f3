"""SimulationConfig → a run before its first step: corpus, features, tagger, plan, and the federation that trains."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine import corpus as corpora
from engine import embeddings, setup_status
from engine.config import SimulationConfig, engine_version, run_id
from engine.corpus import AnyCorpus, CorpusHandle
from engine.corpus.sentences import tags_of
from engine.corpus.tag_schemes import from_bioes
from engine.embeddings import EncodedCorpus, contamination
from engine.embeddings.char_ids import with_characters
from engine.embeddings.contamination import Overlap
from engine.embeddings.encoding import in_scheme, subset, tag_sequences, with_tags
from engine.federated.accounting import privacy_spent
from engine.federated.fedavg import ClientData, Federation
from engine.federated.fedsgd import GradientFederation
from engine.federated.plan import plan_of, secrets_of
from engine.records import EntityScores
from engine.scoring import score
from engine.seeds import Secrets, Seeds
from engine.settings import Settings
from engine.taggers import Tagger, build, splits_of
from engine.taggers.decoding import Decoder
from engine.training import compile_cache
from engine.training.backends import backend_of
from engine.training.batches import physical_batches
from engine.training.dpsgd import predict


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientModel:
    """A corpus with the tagger for its tags: a platform's, or that of all clients together. name: of the corpus.
    shared: sentences that public parts of the features were fitted on. holding: what clients train with. decoder: reads
    tags off scores."""

    name: str
    shared: Overlap
    encoded: EncodedCorpus
    tagger: Tagger
    holding: ClientData
    decoder: Decoder

    def scores(self, part: str, every: np.ndarray, check: Callable[[], None]) -> EntityScores:
        """How well the names in the "validation" or "test" part are found with the run's weights as in ``every``; the
        tags are counted as BIO2. check: called again and again; it may raise. Raises TrainingFailed."""
        encoded, split, weights = self.encoded, getattr(self.encoded, part), self.holding.weights(every)
        transitions = self.tagger.views(weights)[-1].get("transitions")
        found = predict(self.holding.backend, self.decoder, weights, transitions, split, encoded.vectors, check)
        names = from_bioes(encoded.tags)
        return score(*(tag_sequences(split, tags, names) for tags in (split.tags, found)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A run before its first step. run_id, corpus_checksum, engine_version: what it is known by. sides: of each
    platform, or one. run: what trains, with the plan and the first weights."""

    run_id: str
    corpus_checksum: str
    engine_version: str
    sides: tuple[ClientModel, ...]
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
    wait_for_parts(config, settings, tell)
    tell("reading the corpus and its word vectors")
    corpus = corpus or corpora.of_run(config, settings)
    shared = [contamination.overlap(part, config.features) for part in corpus.parts]
    own = embeddings.own_in_context(config.language_model, settings)
    encoded = [
        embeddings.encode(
            part,
            config.embeddings,
            config.features,
            lambda share: tell(f"computing vectors in context, once for this corpus: {share:.0%}"),
            own,
        )
        for part in corpus.parts
    ]
    compile_parts(settings, tell)
    tell("preparing the tagger")
    secrets = secrets or secrets_of(config, corpus.checksum)
    identity, seeds = run_id(config, corpus.checksum), Seeds(config.seed)
    plan = plan_of(config, corpus, secrets)
    sides = tuple(build_client_models(config, corpus.parts, shared, encoded, settings.backend))
    weights = _first_weights(sides, seeds)
    kind = GradientFederation if config.federation.schedule == "gradients" else Federation
    run = kind(plan, [side.holding for side in sides], weights, config.training, seeds=seeds, secrets=secrets)
    return Prepared(
        run_id=identity,
        corpus_checksum=corpus.checksum,
        engine_version=engine_version(config),
        sides=sides,
        run=run,
    )


def wait_for_parts(config: SimulationConfig, settings: Settings, tell: Callable[[str], None]) -> None:
    """Wait while parts of set-up are being made that this run, or its tagger, cannot do without."""
    needed = {setup_status.VECTORS, setup_status.TRAINING}
    if config.features in embeddings.IN_CONTEXT:
        needed |= {setup_status.TENSORFLOW, setup_status.LANGUAGE_MODEL}
    if settings.backend == "tensorflow":
        needed.add(setup_status.TENSORFLOW)
    setup_status.wait_for(needed, tell)


def compile_parts(settings: Settings, tell: Callable[[str], None]) -> None:
    """Compile what the fast back end lacks; at once if that is nothing, or another back end computes."""
    if settings.backend == "compiled" and not compile_cache.is_fresh():
        from engine.training.compilation import compile_what_is_missing

        compile_what_is_missing(tell)


def build_client_models(
    config: SimulationConfig,
    parts: Sequence[CorpusHandle],
    shared: Sequence[Overlap],
    encoded: Sequence[EncodedCorpus],
    backend: str,
) -> Iterator[ClientModel]:
    """Of each corpus, in their order; the weights that a platform keeps to itself follow those of the one before it."""
    if config.platforms and splits_of(config.tagger.name)[-1] in (config.federation.shared_parts or ()):
        # Scores belong to tags: who shares them has the types of all, and may find on one platform those of another.
        types = (tag.partition("-")[2] for arrays in encoded for tag in arrays.tags if tag != "O")
        every = tags_of(types)
        encoded = [with_tags(arrays, every) for arrays in encoded]
    first = end = 0
    for part, overlap, arrays, scheme in zip(parts, shared, encoded, config.schemes, strict=True):
        arrays = in_scheme(arrays, scheme)
        tagger = build(config.tagger, arrays.vectors.shape[1], len(arrays.tags), arrays.copied)
        if config.platforms:
            tagger = tagger.sharing(config.federation.shared_parts)
        if tagger.spells:
            arrays = with_characters(arrays, part)
        # Who parts from the others later has all weights for itself, of which some begin in common.
        common, begins = (0, tagger.shared.stop) if config.federation.together < 1 else (tagger.shared.stop, 0)
        start = end or common
        end = start + tagger.size - common
        holding = ClientData(
            split=arrays.train,
            table=arrays.vectors,
            backend=backend_of(tagger, config.training.loss, backend),
            shared=common,
            initial_size=begins,
            private_slice=slice(start, end) if end > start else slice(0, 0),
            first=first,
            layers=tagger.stretches,
        )
        decoder = Decoder(arrays.tags, well_formed=config.tagger.well_formed)
        yield ClientModel(
            name=part.name, shared=overlap, encoded=arrays, tagger=tagger, holding=holding, decoder=decoder
        )
        first += len(arrays.train)


def _first_weights(sides: Sequence[ClientModel], seeds: Seeds) -> np.ndarray:
    """The common ones as a single tagger's would be, then those of each platform, drawn for it; what begins in common
    is drawn once too."""
    taggers = [side.tagger for side in sides]
    common = taggers[0].initial_weights(seeds.stream("initial weights"))[: taggers[0].shared.stop]
    own = [
        tagger.initial_weights(seeds.of(platform=number).stream("initial weights"))[tagger.shared.stop :]
        if tagger.size > tagger.shared.stop
        else np.zeros(0, dtype=np.float32)
        for number, tagger in enumerate(taggers)
    ]
    if sides[0].holding.initial_size:
        return np.concatenate([part for some in own for part in (common, some)])
    return np.concatenate([common, *own])


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
    privacy_spent(run.plan, 1, 0)
