"""Command-line options that describe a run, for every command that takes a configuration."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.config import JOIN, FederationConfig, PrivacyConfig, SimulationConfig, TaggerConfig, TrainingConfig
from engine.errors import InvalidConfig
from engine.service import Application
from engine.taggers import KINDS
from engine.validation import one_of

_DEFAULT = SimulationConfig()
_MECHANISMS = {"sentence": "dp-sgd", "client": "secure-sum", "platform": "secure-sum"}
"""Privacy unit → the mechanism that protects it with the least noise and trust; "platform" is the old "client"."""


def configuration(
    corpus: Annotated[
        str | None, typer.Option(help="Name of a corpus, as `corpora` lists it, or a file or folder.")
    ] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            help="In place of --corpus, at least twice: the corpus of a client (silo), which has its own entity types "
            "and shares the layers below them with the other clients."
        ),
    ] = None,
    tagger: Annotated[str, typer.Option(help=f"The model: {', '.join(KINDS)}.")] = _DEFAULT.tagger.name,
    hidden_size: Annotated[
        int, typer.Option(help="LSTM units per direction, filters of a convolution, or units of an MLP.")
    ] = _DEFAULT.tagger.hidden_size,
    window: Annotated[
        int,
        typer.Option("--context-window", "--window", help="Tokens of context on each side for a linear tagger or MLP."),
    ] = _DEFAULT.tagger.window,
    dropout: Annotated[
        float, typer.Option(help="Dropout probability in training, for FedNER's taggers.")
    ] = _DEFAULT.tagger.dropout,
    scheme: Annotated[
        str,
        typer.Option(
            "--tag-scheme",
            "--scheme",
            help="Tag scheme of training: bio2 or bioes. With --platform one for all, or one for each, separated by "
            "commas (bio2,bioes).",
        ),
    ] = _DEFAULT.tagger.scheme,
    well_formed: Annotated[
        bool, typer.Option("--constrained-decoding", "--well-formed", help="Forbid invalid tag sequences in decoding.")
    ] = _DEFAULT.tagger.well_formed,
    embeddings: Annotated[str, typer.Option(help="spaCy package of the word vectors.")] = _DEFAULT.embeddings,
    features: Annotated[
        str,
        typer.Option(
            help="Input features of a token: vectors (word vectors); shapes (and word shapes); contextual (and vectors "
            "of a public language model); tuned (and vectors of that model fine-tuned on public entities); names (and "
            "spaCy's NER tags)."
        ),
    ] = _DEFAULT.features,
    language_model: Annotated[
        str,
        typer.Option(
            help="Language model of contextual features: all-MiniLM-L6-v2; or own, the BERT in the folder "
            "EPSILON_LANGUAGE_MODEL; or its label."
        ),
    ] = _DEFAULT.language_model,
    noise_multiplier: Annotated[
        float, typer.Option(help="σ: noise standard deviation ÷ clip norm. 0: no privacy.")
    ] = _DEFAULT.privacy.noise_multiplier,
    clip_norm: Annotated[
        float | None,
        typer.Option(help="C: maximum L2 norm of one sentence's gradient.  [default: 1.5; none if σ is 0]"),
    ] = None,
    clipping: Annotated[
        str, typer.Option(help="joint (a sentence's whole gradient) or per-layer (each layer to its share of C).")
    ] = _DEFAULT.privacy.clipping,
    batch_size: Annotated[int, typer.Option(help="Expected sentences per step.")] = _DEFAULT.training.batch_size,
    epochs: Annotated[float, typer.Option(help="Expected passes over the data.")] = _DEFAULT.training.epochs,
    learning_rate: Annotated[float, typer.Option(help="Step size.")] = _DEFAULT.training.learning_rate,
    loss: Annotated[
        str, typer.Option(help="Loss of a sentence: mean or sum over its tokens.")
    ] = _DEFAULT.training.loss,
    optimiser: Annotated[str, typer.Option(help="sgd, momentum or adam.")] = _DEFAULT.training.optimiser,
    averaging: Annotated[
        float,
        typer.Option(help="Decay per step of the moving average of weights that is evaluated. 0: no average."),
    ] = _DEFAULT.training.averaging,
    sampling: Annotated[
        str, typer.Option(help="Batch sampling: poisson, or shuffle (as in papers; its ε is far larger).")
    ] = _DEFAULT.privacy.sampling,
    delta: Annotated[
        float, typer.Option(help="δ of (ε, δ)-differential privacy, a probability.")
    ] = _DEFAULT.privacy.delta,
    mechanism: Annotated[
        str,
        typer.Option(
            help="Privacy mechanism: dp-sgd (each client adds noise at each step; protects a sentence), dp-fedavg (the "
            "server adds noise to the sum of updates; protects a client), local (each client adds noise to its "
            "update; protects it from the server too) or secure-sum (distributed noise with secure aggregation: the "
            "server sees only the sum)."
        ),
    ] = _DEFAULT.privacy.mechanism,
    privacy_unit: Annotated[
        str | None,
        typer.Option(
            "--privacy-unit",
            "--private-scope",
            help="In place of --mechanism, the unit that noise protects: sentence (dp-sgd) or client (secure-sum).",
        ),
    ] = None,
    noise_source: Annotated[
        str,
        typer.Option(
            help="Source of the keys for noise and samples: seeded (reproducible; simulation only, since the seed is "
            "public) or system (keys of the operating system, destroyed at the end; for a tagger to release)."
        ),
    ] = _DEFAULT.privacy.noise_source,
    clients: Annotated[int, typer.Option(help="Number of clients that hold the data.")] = _DEFAULT.federation.clients,
    participants: Annotated[
        int | None, typer.Option(help="Clients sampled in each round.  [default: all]")
    ] = _DEFAULT.federation.participants,
    rounds: Annotated[int, typer.Option(help="Communication rounds.")] = _DEFAULT.federation.rounds,
    schedule: Annotated[
        str,
        typer.Option(
            help="averaging (a client trains on all its data each round), incremental (on its next part) or gradients "
            "(a client sends the gradient of each step, and the server updates the shared layers)."
        ),
    ] = _DEFAULT.federation.schedule,
    partition: Annotated[
        str, typer.Option(help="Partition of the data: random, unequal, label-skew, document or natural.")
    ] = _DEFAULT.federation.partition,
    skew: Annotated[
        float,
        typer.Option(help="α of label-skew's Dirichlet distribution; a small α makes clients dissimilar."),
    ] = _DEFAULT.federation.skew,
    weighting: Annotated[
        str | None,
        typer.Option(help="Weight of a client's update: examples or equal.  [default: by the mechanism]"),
    ] = None,
    shared: Annotated[
        str | None,
        typer.Option(
            help="Layers that the clients of --platform share, separated by commas (words,characters,convolution,"
            "lstm,scores, or hidden), or nothing.  [default: all but those that depend on the tags]"
        ),
    ] = None,
    masked: Annotated[
        float,
        typer.Option(help="Entity masking: share of the entities common to several clients that training masks."),
    ] = _DEFAULT.federation.masked,
    together: Annotated[
        float,
        typer.Option(help="Joint fraction: share of the steps that clients train together with schedule gradients."),
    ] = _DEFAULT.federation.together,
    data_fraction: Annotated[
        float, typer.Option(help="Share of the training sentences, above 0 to 1.")
    ] = _DEFAULT.data_fraction,
    seed: Annotated[int, typer.Option(help="Seed of all randomness, except noise from the system.")] = _DEFAULT.seed,
) -> SimulationConfig:
    """Return the configuration that the options of ``train`` and ``submit`` describe. Raises InvalidConfig."""
    if bool(corpus) == bool(platform) or len(platform or ()) == 1:
        raise InvalidConfig("expected either --corpus once, or --platform twice or more")
    corpus_names = {info.name for info in Application.from_environment().corpora.all()}
    clip = {} if clip_norm is None else {"clip_norm": clip_norm}
    return SimulationConfig(
        corpus=JOIN.join(_absolute(name, corpus_names) for name in platform or [corpus or ""]),
        data_fraction=data_fraction,
        tagger=TaggerConfig(
            name=tagger,
            hidden_size=hidden_size,
            window=window,
            scheme=scheme,
            well_formed=well_formed,
            dropout=dropout,
        ),
        embeddings=embeddings,
        features=features,
        language_model=_language_model(language_model),
        training=TrainingConfig(
            optimiser=optimiser,
            learning_rate=learning_rate,
            batch_size=batch_size,
            epochs=epochs,
            loss=loss,
            averaging=averaging,
        ),
        privacy=PrivacyConfig(
            noise_multiplier=noise_multiplier,
            delta=delta,
            sampling=sampling,
            clipping=clipping,
            mechanism=_mechanism(mechanism, privacy_unit),
            noise_source=noise_source,
            **clip,
        ),
        federation=FederationConfig(
            clients=clients,
            participants=participants,
            rounds=rounds,
            schedule=schedule,
            partition=partition,
            skew=skew,
            weighting=weighting,
            shared=shared,
            masked=masked,
            together=together,
        ),
        seed=seed,
    )


def _mechanism(mechanism: str, unit: str | None) -> str:
    """Return the mechanism for a privacy unit. Raises InvalidConfig if ``mechanism`` is set to another one."""
    if unit is None:
        return mechanism
    one_of("privacy_unit", unit, tuple(_MECHANISMS))
    if mechanism not in (_DEFAULT.privacy.mechanism, _MECHANISMS[unit]):
        raise InvalidConfig(f"privacy_unit={unit!r}, but mechanism={mechanism!r}: expected one of the two")
    return _MECHANISMS[unit]


def _absolute(name: str, corpus_names: set[str]) -> str:
    """Return a corpus name, or the absolute path of a file, for workers have another working directory.

    Raises InvalidConfig.
    """
    if JOIN in name:
        raise InvalidConfig(f"{name!r} is no name of a corpus: {JOIN!r} separates the corpora of clients")
    return str(Path(name).resolve()) if name not in corpus_names and Path(name).exists() else name


def _language_model(name: str) -> str:
    """Replace ``own`` by the label of the user's language model. Raises InvalidConfig, VectorsMissing."""
    if name != "own":
        return name
    models = Application.from_environment().corpora.language_models()
    if len(models) < 2:
        raise InvalidConfig(
            "language_model='own', but EPSILON_LANGUAGE_MODEL is not set; expected the folder of a BERT"
        )
    return models[1]


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of :func:`configuration` to a command, which gets the result as its first argument."""

    @functools.wraps(command)
    def with_config(make: Callable[..., SimulationConfig], **values: Any) -> None:
        command(make(), **values)

    return configurable(with_config)


def configurable(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of :func:`configuration` to a command, which gets a function that makes the configuration.

    Options that the command declares itself are left out; it passes them to that function.
    """
    own_parameters = list(inspect.signature(command).parameters.values())[1:]
    own_names = {p.name for p in own_parameters}
    options = [p for p in inspect.signature(configuration).parameters.values() if p.name not in own_names]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        chosen = {p.name: values.pop(p.name) for p in options}
        command(functools.partial(configuration, **chosen), **values)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*options, *own_parameters)]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper
