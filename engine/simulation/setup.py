"""Preparation of a run before its first step: corpus, features, tagger, plan and federation."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine import corpus as corpora
from engine import embeddings, setup_status
from engine.config import SYNTHETIC, SimulationConfig, engine_version, run_id
from engine.config.encoder_registry import E5, MPNET
from engine.config.head_registry import PublicHead
from engine.corpus import AnyCorpus, CorpusHandle
from engine.corpus.tag_schemes import from_bioes, tags_of
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
from engine.simulation import pretrained_head
from engine.taggers import Tagger, build
from engine.taggers.decoding import Decoder
from engine.training import compile_cache
from engine.training.backends import backend_of
from engine.training.batches import physical_batches
from engine.training.dpsgd import predict

_PARTS = {MPNET: setup_status.MPNET, E5: setup_status.E5}
"""Part of the installation by language model; that of MiniLM is the one of all features in context."""
_RATE_SECONDS = 2.0
"""Seconds of computation after which the time left is estimated."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientModel:
    """A corpus with the tagger for its tags, of one client (silo) or of all clients together.

    Attributes:
        name: name of the corpus.
        shared: overlap with the data that public features were fitted on.
        declared: whether the entity types of the corpus are public or declared.
        encoded: the encoded corpus.
        tagger: the tagger.
        holding: training data and back end of the client.
        decoder: decodes tags from scores.
    """

    name: str
    shared: Overlap
    declared: bool
    encoded: EncodedCorpus
    tagger: Tagger
    holding: ClientData
    decoder: Decoder

    def scores(self, part: str, every: np.ndarray, check: Callable[[], None]) -> EntityScores:
        """Score the predicted entities of a part, with tags in BIO2.

        Args:
            part: "validation" or "test".
            every: weights of the run, float32 [size].
            check: called between batches; it may raise.

        Raises:
            TrainingFailed: if a score is not finite.
        """
        encoded, split, weights = self.encoded, getattr(self.encoded, part), self.holding.weights(every)
        transitions = self.tagger.views(weights)[-1].get("transitions")
        predicted = predict(self.holding.backend, self.decoder, weights, transitions, split, encoded.vectors, check)
        names = from_bioes(encoded.tags)
        return score(*(tag_sequences(split, tags, names) for tags in (split.tags, predicted)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A run before its first step.

    Attributes:
        run_id: its identity.
        corpus_checksum: checksum of its corpus.
        engine_version: version of the engine.
        sides: the model of each client (silo), or a single one.
        run: the federation, with plan and initial weights.
    """

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
    """Prepare a run up to its first step.

    Args:
        config: the configuration of the run.
        settings: where corpora, vectors and results are.
        corpus: the corpus of the configuration, if it is already resolved.
        secrets: keys of sampling and noise, by default those of the configuration's noise source.
        tell: receives a description of the stage; it may raise to stop.

    Raises:
        InvalidConfig: for a configuration that is not valid.
        CorpusError: if a corpus is missing or invalid.
        VectorsMissing: if word vectors are not installed.
        StoreError: if stored data cannot be read or written.
        TrainingFailed: if the training diverges.
    """
    wait_for_parts(config, settings, tell)
    tell("reading the corpus and its word vectors")
    corpus = corpus or corpora.of_run(config, settings)
    shared = [contamination.overlap(part, contamination.kind_of(config)) for part in corpus.parts]
    model = embeddings.own_in_context(config.language_model, settings)
    encoded = [
        embeddings.encode(
            part,
            config.embeddings,
            config.features,
            FeatureProgress(tell),
            model,
        )
        for part in corpus.parts
    ]
    compile_parts(settings, tell)
    tell("preparing the tagger")
    secrets = secrets or secrets_of(config, corpus.checksum)
    identity, version, seeds = run_id(config, corpus.checksum), engine_version(config), Seeds(config.seed)
    plan = plan_of(config, corpus, secrets)
    sides = tuple(build_client_models(config, corpus.parts, shared, encoded, settings.backend))
    weights = _first_weights(sides, config.public_head, seeds)
    federation = GradientFederation if config.federation.schedule == "gradients" else Federation
    run = federation(plan, [side.holding for side in sides], weights, config.training, seeds=seeds, secrets=secrets)
    return Prepared(
        run_id=identity,
        corpus_checksum=corpus.checksum,
        engine_version=version,
        sides=sides,
        run=run,
    )


class FeatureProgress:
    """Describes the progress of features: the share done and, after some seconds, the time left.

    Args:
        tell: receives the description; it may raise to stop.
        clock: returns the time in seconds.
    """

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._first: tuple[float, float] | None = None

    def __call__(self, share: float) -> None:
        """Describe that this share is done, 0 to 1. The rate counts from the first work done, not from the start."""
        text, now = f"computing contextual features, once for this corpus: {share:.0%}", self._clock()
        if share and self._first is None:
            self._first = now, share
        since, before = self._first or (now, share)
        if now - since >= _RATE_SECONDS and share > before:
            left = (now - since) / (share - before) * (1 - share)
            text += f", about {left:.0f} s left" if left < 90 else f", about {left / 60:.0f} min left"
        self._tell(text)


def wait_for_parts(config: SimulationConfig, settings: Settings, tell: Callable[[str], None]) -> None:
    """Wait for the installation of the components that a run requires.

    Args:
        config: the configuration of the run.
        settings: the back end.
        tell: receives a description of the stage; it may raise to stop.
    """
    required = {setup_status.VECTORS, setup_status.TRAINING}
    if config.feature_set.in_context:
        required.add(setup_status.LANGUAGE_MODEL)
    if config.language_model in _PARTS:
        required.add(_PARTS[config.language_model])
        if config.language_model == MPNET and config.corpus == SYNTHETIC:
            required.add(setup_status.FEATURES)
    if settings.backend == "tensorflow":
        required.add(setup_status.TENSORFLOW)
    setup_status.wait_for(required, tell)


def compile_parts(settings: Settings, tell: Callable[[str], None]) -> None:
    """Compile missing functions of the compiled back end; return immediately if there are none."""
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
    """Yield the model of each corpus, in order; the private heads of the clients follow each other in the weights.

    Args:
        config: the configuration of the run.
        parts: the corpora.
        shared: sentences of each corpus that public features were fitted on.
        encoded: each corpus encoded.
        backend: "compiled" or "tensorflow".
    """
    if config.platforms and config.shares_scores:
        # Clients that share the scores of tags have all entity types and may predict those of another client.
        types = (tag.partition("-")[2] for arrays in encoded for tag in arrays.tags if tag != "O")
        all_tags = tags_of(types)
        encoded = [with_tags(arrays, all_tags) for arrays in encoded]
    first = end = 0
    for part, overlap, arrays, scheme in zip(parts, shared, encoded, config.schemes, strict=True):
        arrays = in_scheme(arrays, scheme)
        tagger = build(config.tagger, arrays.vectors.shape[1], len(arrays.tags), arrays.copied)
        if config.platforms:
            tagger = tagger.sharing(config.federation.shared_parts)
        if tagger.spells:
            arrays = with_characters(arrays, part)
        # A client that later trains alone has its own copy of all weights; the shared weights are initially equal.
        common, initial_size = (0, tagger.shared.stop) if config.federation.together < 1 else (tagger.shared.stop, 0)
        start = end or common
        end = start + tagger.size - common
        holding = ClientData(
            split=arrays.train,
            table=arrays.vectors,
            backend=backend_of(tagger, config.training.loss, backend),
            shared=common,
            initial_size=initial_size,
            private_slice=slice(start, end) if end > start else slice(0, 0),
            first=first,
            layers=tagger.stretches,
        )
        decoder = Decoder(arrays.tags, well_formed=config.tagger.well_formed)
        yield ClientModel(
            name=part.name,
            shared=overlap,
            declared=part.declared,
            encoded=arrays,
            tagger=tagger,
            holding=holding,
            decoder=decoder,
        )
        first += len(arrays.train)


def _first_weights(sides: Sequence[ClientModel], head: PublicHead | None, seeds: Seeds) -> np.ndarray:
    """Return the initial weights: the shared layers as in a single tagger, then the private head of each client.

    Weights with a common initialisation are drawn once as well. Those of a public head are not drawn.
    """
    if head:
        pretrained_head.require_common_types(
            head, {tag.partition("-")[2] for side in sides for tag in side.encoded.tags if tag != "O"}
        )

    def first(side: ClientModel, streams: Seeds) -> np.ndarray:
        if head:
            return pretrained_head.initial_weights(side.tagger, side.encoded.tags, head)
        return side.tagger.initial_weights(streams.stream("initial weights"))

    common = first(sides[0], seeds)[: sides[0].tagger.shared.stop]
    private = [
        first(side, seeds.of(platform=number))[side.tagger.shared.stop :]
        if side.tagger.size > side.tagger.shared.stop
        else np.zeros(0, dtype=np.float32)
        for number, side in enumerate(sides)
    ]
    if sides[0].holding.initial_size:
        return np.concatenate([part for weights in private for part in (common, weights)])
    return np.concatenate([common, *private])


def warm_up(settings: Settings) -> None:
    """Compile the default tagger on a few sentences of the built-in corpus, and encode that corpus.

    Raises:
        VectorsMissing: if word vectors are not installed.
        StoreError: if stored data cannot be written.
    """
    prepared = prepare(SimulationConfig(), settings)
    run, (side,) = prepared.run, prepared.sides
    few, backend = subset(side.encoded.validation, np.arange(8)), side.holding.backend
    for batch in physical_batches(few, side.encoded.vectors, np.arange(len(few))):
        backend.clipped_gradient(run.weights, batch, 1.0)
        backend.scores(run.weights, batch)
    privacy_spent(run.plan, 1, 0)
