"""Command-line options that describe a run, for every command that takes a configuration."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.config import ENCODERS, JOIN, PARAMETERS, PROPOSED, Parameter, SimulationConfig
from engine.errors import InvalidConfig
from engine.service import Application
from engine.validation import one_of

_DEFAULTS = SimulationConfig().flat() | {"clip_norm": None} | PROPOSED
"""Defaults of the options. That of the clip norm depends on the noise multiplier."""
_MECHANISMS = {"sentence": "dp-sgd", "client": "secure-sum", "platform": "secure-sum"}
"""Privacy unit → the mechanism that protects it with the least noise and trust; "platform" is the old "client"."""


def configuration(
    corpus: Annotated[str | None, typer.Option(help=PARAMETERS["corpus"].option_help)] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            help="In place of --corpus, at least twice: the corpus of a client (silo), which has its own entity types "
            "and shares the layers below them with the other clients."
        ),
    ] = None,
    privacy_unit: Annotated[
        str | None,
        typer.Option(
            "--privacy-unit",
            "--private-scope",
            help="In place of --mechanism, the unit that noise protects: sentence (dp-sgd) or client (secure-sum).",
        ),
    ] = None,
    **fields: Any,
) -> SimulationConfig:
    """Return the configuration that the options of ``train`` and ``submit`` describe.

    Args:
        corpus: The corpus, unless there are several.
        platform: The corpora of several clients.
        privacy_unit: The protected unit, which determines the mechanism.
        **fields: All other fields of a flat configuration; None is the default.

    Raises:
        InvalidConfig: If a value is not valid.
    """
    if bool(corpus) == bool(platform) or len(platform or ()) == 1:
        raise InvalidConfig("expected either --corpus once, or --platform twice or more")
    corpus_names = {info.name for info in Application.from_environment().corpora.all()}
    values = {name: value for name, value in fields.items() if value is not None} | {
        "corpus": JOIN.join(_absolute(name, corpus_names) for name in platform or [corpus or ""]),
        "language_model": _language_model(fields["language_model"]),
        "mechanism": _mechanism(fields["mechanism"], privacy_unit),
    }
    return SimulationConfig.from_flat(values)


def _option(name: str, parameter: Parameter) -> inspect.Parameter:
    """Return the option of a field."""
    kind: Any = parameter.values.python
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=_DEFAULTS[name],
        annotation=Annotated[
            kind | None if parameter.values.optional else kind,
            typer.Option(*parameter.option_names, help=parameter.option_help),
        ],
    )


_OWN = [
    option
    for option in inspect.signature(configuration).parameters.values()
    if option.kind is not inspect.Parameter.VAR_KEYWORD
]
_OPTIONS = (*_OWN, *(_option(name, parameter) for name, parameter in PARAMETERS.items() if name != "corpus"))
"""Options of all fields, and those that take the place of a field."""


def _mechanism(mechanism: str, unit: str | None) -> str:
    """Return the mechanism for a privacy unit. Raises InvalidConfig if ``mechanism`` is set to another one."""
    if unit is None:
        return mechanism
    one_of("privacy_unit", unit, tuple(_MECHANISMS))
    if mechanism not in (_DEFAULTS["mechanism"], _MECHANISMS[unit]):
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
    if models[-1] in ENCODERS:
        raise InvalidConfig(
            "language_model='own', but EPSILON_LANGUAGE_MODEL is not set; expected the folder of a BERT or MPNet"
        )
    return models[-1]


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
    options = [p for p in _OPTIONS if p.name not in own_names]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        chosen = {p.name: values.pop(p.name) for p in options}
        command(functools.partial(configuration, **chosen), **values)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*options, *own_parameters)]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper
