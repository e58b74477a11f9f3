"""SimulationConfig → a run before its first step: corpus, features, tagger, plan, and the federation that trains."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine import corpus as corpora
from engine import embeddings
from engine.config import SimulationConfig
from engine.corpus.handle import CorpusHandle
from engine.embeddings import EncodedCorpus, apart
from engine.embeddings.apart import Overlap
from engine.embeddings.encoded import subset
from engine.federated.accounting import spent
from engine.federated.federation import Federation
from engine.federated.plan import plan_of, secrets_of
from engine.seeds import Secrets, Seeds
from engine.settings import Settings
from engine.taggers import Tagger, build
from engine.training import compiled_stamp
from engine.training.backends import backend_of
from engine.training.batches import physical_batches


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A run before its first step. shared: sentences that public parts of the features were fitted on. run: what
    trains, with the plan and the first weights."""

    config: SimulationConfig
    corpus: CorpusHandle
    shared: Overlap
    encoded: EncodedCorpus
    tagger: Tagger
    run: Federation


def prepare(
    config: SimulationConfig,
    settings: Settings,
    *,
    corpus: CorpusHandle | None = None,
    secrets: Secrets | None = None,
    tell: Callable[[str], None] = lambda stage: None,
) -> Prepared:
    """Everything that is decided before training.

    corpus: of the configuration, where it was resolved already. secrets: what samples and noise come from, by default
    what the configuration's noise source says. tell: is told what is going on, in words; it may raise to stop. Raises
    InvalidConfig, CorpusError, VectorsMissing, StoreError, TrainingFailed.
    """
    tell("reading the corpus and its word vectors")
    corpus = corpus or corpora.resolve(config.corpus, settings)
    shared = apart.overlap(corpus, config.features)
    encoded = embeddings.encode(
        corpus,
        config.embeddings,
        config.features,
        lambda share: tell(f"computing vectors in context, once for this corpus: {share:.0%}"),
    )
    if settings.backend == "compiled" and not compiled_stamp.is_fresh():
        tell("compiling the training step, once; up to a minute")
        from engine.training.compilation import compile_everything

        compile_everything()
    tell("preparing the tagger")
    secrets = secrets or secrets_of(config, corpus.checksum)
    plan = plan_of(config, corpus, secrets)
    tagger = build(config.tagger, encoded.vectors.shape[1], len(encoded.tags), encoded.copied)
    backend = backend_of(tagger, config.training.loss, settings.backend)
    run = Federation(
        config,
        plan,
        backend,
        encoded.train,
        encoded.vectors,
        tagger.initial_weights(Seeds(config.seed).stream("initial weights")),
        layers=tagger.stretches,
        secrets=secrets,
    )
    return Prepared(config=config, corpus=corpus, shared=shared, encoded=encoded, tagger=tagger, run=run)


def warm_up(settings: Settings) -> None:
    """Compile the default tagger's graphs on a few sentences of the embedded corpus, and encode that corpus.

    Raises VectorsMissing, StoreError.
    """
    prepared = prepare(SimulationConfig(), settings)
    run, encoded = prepared.run, prepared.encoded
    few = subset(encoded.validation, np.arange(8))
    for batch in physical_batches(few, encoded.vectors, np.arange(len(few))):
        run.backend.clipped_gradient(run.weights, batch, 1.0)
        run.backend.scores(run.weights, batch)
    spent(run.plan, 1, 0)
