"""The options of the command line that describe a run, for every verb that takes one."""

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
_SCOPES = {"sentence": "dp-sgd", "platform": "secure-sum"}
"""Whom noise protects → the mechanism that does it with the least noise and trusts nobody with more than it must."""


def configuration(
    corpus: Annotated[str | None, typer.Option(help="A name that `corpora` lists, or a file, or a folder.")] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            help="In place of --corpus, twice or more: the corpus of a platform, which has its own entity types and "
            "shares the layers below them with the others."
        ),
    ] = None,
    tagger: Annotated[str, typer.Option(help=f"The model: {', '.join(KINDS)}.")] = _DEFAULT.tagger.name,
    hidden_size: Annotated[
        int, typer.Option(help="LSTM units per direction, filters of a convolution, or units of an MLP.")
    ] = _DEFAULT.tagger.hidden_size,
    window: Annotated[
        int, typer.Option(help="Neighbours to each side that a linear tagger or an MLP reads too.")
    ] = _DEFAULT.tagger.window,
    dropout: Annotated[
        float, typer.Option(help="Chance of each value to be left out in training, of FedNER's taggers.")
    ] = _DEFAULT.tagger.dropout,
    scheme: Annotated[
        str,
        typer.Option(
            help="Of the tags that are learned: bio2, or bioes, which marks where names end too; of platforms one for "
            "all, or one for each with commas between (bio2,bioes)."
        ),
    ] = _DEFAULT.tagger.scheme,
    well_formed: Annotated[
        bool, typer.Option("--well-formed", help="Forbid ill-formed sequences when tags are read off the scores.")
    ] = _DEFAULT.tagger.well_formed,
    embeddings: Annotated[str, typer.Option(help="spaCy package of the word vectors.")] = _DEFAULT.embeddings,
    features: Annotated[
        str,
        typer.Option(
            help="What the tagger sees of a token: vectors (of its word), shapes (its spelling too), contextual "
            "(vectors of a public language model too), tuned (those of the model tuned on public names too) or names "
            "(what spaCy's public name finder says too)."
        ),
    ] = _DEFAULT.features,
    language_model: Annotated[
        str,
        typer.Option(
            help="Behind contextual features: all-MiniLM-L6-v2, or own, the BERT in the folder that "
            "EPSILON_LANGUAGE_MODEL names, or its label."
        ),
    ] = _DEFAULT.language_model,
    noise_multiplier: Annotated[
        float, typer.Option(help="σ: noise standard deviation ÷ clip norm; 0 is no privacy.")
    ] = _DEFAULT.privacy.noise_multiplier,
    clip_norm: Annotated[
        float | None,
        typer.Option(help="C: largest L2 norm of one sentence's gradient.  [default: 1.5; none if σ is 0]"),
    ] = None,
    clipping: Annotated[
        str, typer.Option(help="joint (a sentence's whole gradient) or per-layer (each layer by itself, to its share).")
    ] = _DEFAULT.privacy.clipping,
    batch_size: Annotated[int, typer.Option(help="Expected sentences per step.")] = _DEFAULT.training.batch_size,
    epochs: Annotated[float, typer.Option(help="Expected passes over the data.")] = _DEFAULT.training.epochs,
    learning_rate: Annotated[float, typer.Option(help="Step size.")] = _DEFAULT.training.learning_rate,
    loss: Annotated[
        str, typer.Option(help="Of a sentence: the mean or the sum over its tokens.")
    ] = _DEFAULT.training.loss,
    optimiser: Annotated[str, typer.Option(help="sgd, momentum or adam.")] = _DEFAULT.training.optimiser,
    averaging: Annotated[
        float,
        typer.Option(help="Score a moving average of the weights, with this decay a step; 0: the weights themselves."),
    ] = _DEFAULT.training.averaging,
    sampling: Annotated[
        str, typer.Option(help="How batches are drawn: poisson, or shuffle (as papers do; its ε is far larger).")
    ] = _DEFAULT.privacy.sampling,
    delta: Annotated[
        float, typer.Option(help="δ of (ε, δ)-differential privacy, a probability.")
    ] = _DEFAULT.privacy.delta,
    mechanism: Annotated[
        str,
        typer.Option(
            help="Where noise is added: dp-sgd (by each client at each of its steps; protects a sentence), dp-fedavg "
            "(by the server, to the sum of updates; protects a client), local (by each client, to its update; "
            "protects a client from the server too) or secure-sum (by all clients of a round together, whose updates "
            "the server sees the sum of alone)."
        ),
    ] = _DEFAULT.privacy.mechanism,
    private_scope: Annotated[
        str | None,
        typer.Option(help="In place of --mechanism, whom noise protects: sentence (dp-sgd) or platform (secure-sum)."),
    ] = None,
    noise_source: Annotated[
        str,
        typer.Option(
            help="Where the keys of noise and samples come from: seeded (the run can be computed again; for "
            "simulation, since the seed is printed) or system (the operating system; destroyed at the end, for a "
            "tagger that is given away)."
        ),
    ] = _DEFAULT.privacy.noise_source,
    clients: Annotated[int, typer.Option(help="Parties that the data is split over.")] = _DEFAULT.federation.clients,
    participants: Annotated[
        int | None, typer.Option(help="Clients drawn in each round.  [default: all]")
    ] = _DEFAULT.federation.participants,
    rounds: Annotated[int, typer.Option(help="Communication rounds.")] = _DEFAULT.federation.rounds,
    schedule: Annotated[
        str,
        typer.Option(
            help="averaging (a client trains on all it has each round), incremental (on its next piece) or gradients "
            "(it sends the gradient of each step, and the server moves what is shared)."
        ),
    ] = _DEFAULT.federation.schedule,
    partition: Annotated[
        str, typer.Option(help="Who holds what: random, unequal, label-skew, document or natural.")
    ] = _DEFAULT.federation.partition,
    skew: Annotated[
        float,
        typer.Option(help="How alike clients are with label-skew: α of a Dirichlet distribution, small is unlike."),
    ] = _DEFAULT.federation.skew,
    weighting: Annotated[
        str | None,
        typer.Option(help="What a client's update counts for: examples or equal.  [default: what the mechanism wants]"),
    ] = None,
    shared: Annotated[
        str | None,
        typer.Option(
            help="What platforms share of their tagger: names of its parts with commas between (words,characters,"
            "convolution,lstm,scores, or hidden), or nothing.  [default: all but what depends on the tags]"
        ),
    ] = None,
    masked: Annotated[
        float,
        typer.Option(help="Share of the names that several platforms train on whose words are masked in training."),
    ] = _DEFAULT.federation.masked,
    together: Annotated[
        float,
        typer.Option(help="Share of the steps after which platforms that send gradients go on alone; 1 is never."),
    ] = _DEFAULT.federation.together,
    data_fraction: Annotated[
        float, typer.Option(help="Share of the training sentences, above 0 to 1.")
    ] = _DEFAULT.data_fraction,
    seed: Annotated[
        int, typer.Option(help="What all that is random follows from, but for noise from the system.")
    ] = _DEFAULT.seed,
) -> SimulationConfig:
    """What the options of ``simulate`` and ``submit`` describe."""
    if bool(corpus) == bool(platform) or len(platform or ()) == 1:
        raise InvalidConfig("expected either --corpus once, or --platform twice or more")
    known = {info.name for info in Application.from_environment().corpora.all()}
    clip = {} if clip_norm is None else {"clip_norm": clip_norm}
    return SimulationConfig(
        corpus=JOIN.join(_from_anywhere(name, known) for name in platform or [corpus or ""]),
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
            mechanism=_scoped(mechanism, private_scope),
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


def _scoped(mechanism: str, scope: str | None) -> str:
    """The mechanism of whom noise shall protect. Raises InvalidConfig where another one was asked for."""
    if scope is None:
        return mechanism
    one_of("private_scope", scope, tuple(_SCOPES))
    if mechanism not in (_DEFAULT.privacy.mechanism, _SCOPES[scope]):
        raise InvalidConfig(f"private_scope={scope!r}, but mechanism={mechanism!r}: expected one of the two")
    return _SCOPES[scope]


def _from_anywhere(name: str, known: set[str]) -> str:
    """A corpus as a worker finds it, whose working directory is another. Raises InvalidConfig."""
    if JOIN in name:
        raise InvalidConfig(f"{name!r} is no name of a corpus: {JOIN!r} stands between the platforms' corpora")
    return str(Path(name).resolve()) if name not in known and Path(name).exists() else name


def _language_model(name: str) -> str:
    """The label of the user's own, where that is asked for as such. Raises InvalidConfig, VectorsMissing."""
    if name != "own":
        return name
    models = Application.from_environment().corpora.language_models()
    if len(models) < 2:
        raise InvalidConfig("language_model='own', but EPSILON_LANGUAGE_MODEL names no folder, expected that of a BERT")
    return models[1]


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :func:`configuration` and hand it the result as first argument."""

    @functools.wraps(command)
    def made(make: Callable[..., SimulationConfig], **values: Any) -> None:
        command(make(), **values)

    return configurable(made)


def configurable(command: Callable[..., None]) -> Callable[..., None]:
    """The same, but what it gets is what makes the configuration, given the options that the command itself has."""
    own = list(inspect.signature(command).parameters.values())[1:]
    mine = {p.name for p in own}
    options = [p for p in inspect.signature(configuration).parameters.values() if p.name not in mine]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        chosen = {p.name: values.pop(p.name) for p in options}
        command(functools.partial(configuration, **chosen), **values)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*options, *own)]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper
