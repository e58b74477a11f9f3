"""The configuration in the address bar: a copied link opens the same view.

A link is untrusted input. Each field is validated separately; an invalid one is ignored with a message.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from engine.config import SimulationConfig
from engine.corpus.files import corpus_names
from engine.errors import InvalidConfig
from engine.records import Run

_WHOLE: dict[str, Callable[[str], Any]] = {
    "corpus": str,
    "data_fraction": float,
    "embeddings": str,
    "features": str,
    "language_model": str,
    "seed": int,
}
_PARTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "noise_multiplier": ("privacy", float),
    "clip_norm": ("privacy", lambda text: None if text == "none" else float(text)),
    "delta": ("privacy", float),
    "sampling": ("privacy", str),
    "optimiser": ("training", str),
    "learning_rate": ("training", float),
    "batch_size": ("training", int),
    "epochs": ("training", float),
    "loss": ("training", str),
    "averaging": ("training", float),
    "clipping": ("privacy", str),
    "mechanism": ("privacy", str),
    "noise_source": ("privacy", str),
    "clients": ("federation", int),
    "participants": ("federation", lambda text: None if text == "none" else int(text)),
    "rounds": ("federation", int),
    "schedule": ("federation", str),
    "partition": ("federation", str),
    "skew": ("federation", float),
    "weighting": ("federation", lambda text: None if text == "none" else text),
    "shared": ("federation", lambda text: None if text == "none" else text),
    "masked": ("federation", float),
    "together": ("federation", float),
    "hidden_size": ("tagger", int),
    "window": ("tagger", int),
    "dropout": ("tagger", float),
    "scheme": ("tagger", str),
    "well_formed": ("tagger", lambda text: _yes_or_no(text)),
}
FIELDS = ("corpus", "tagger", "noise_multiplier", "data_fraction", *(_WHOLE | _PARTS))
"""Fields that a link may contain; the first four are in every link."""
_FIRST = ("noise_multiplier", "features", "tagger")
"""Fields that are read first, since others depend on them: a clip norm of none is valid only without noise, some
taggers need certain features, and only some have dropout."""
_QUOTED = 40
"""Number of characters of an invalid value that a message quotes."""


def write(config: SimulationConfig) -> dict[str, str]:
    """Return the fields of a link to ``config``: the main choices, and the values that differ from the defaults."""
    default = _values(SimulationConfig(privacy=replace(config.privacy, **_untouched(config))))
    return {
        name: text
        for name, text in _values(config).items()
        if name in ("corpus", "tagger", "noise_multiplier", "data_fraction") or text != default[name]
    }


@lru_cache(maxsize=16_384)
def link(config: SimulationConfig) -> str:
    """Return the relative address at which Explore shows ``config``."""
    return "./?" + urlencode(write(config))


def ledger(*runs: Run) -> str | None:
    """Return the address of Assumptions for the first of the runs with noise, or None if no run has noise."""
    return next((f"./assumptions?run={run.run_id}" for run in runs if run.config.privacy.private), None)


def _untouched(config: SimulationConfig) -> dict[str, Any]:
    """Return the default privacy fields for this noise multiplier, since the default clip norm depends on it."""
    default = type(config.privacy)(noise_multiplier=config.privacy.noise_multiplier)
    names = ("clip_norm", "delta", "sampling", "clipping", "mechanism", "noise_source")
    return {name: getattr(default, name) for name in names}


def _values(config: SimulationConfig) -> dict[str, str]:
    values = {"tagger": config.tagger.name} | {name: _text(getattr(config, name)) for name in _WHOLE}
    return values | {name: _text(getattr(getattr(config, part), name)) for name, (part, _) in _PARTS.items()}


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)


def read(fields: Mapping[str, str], corpora: Collection[str]) -> tuple[SimulationConfig, list[str]]:
    """Return the configuration of a link, and a message for each field that was ignored.

    Args:
        fields: The parameters of the link.
        corpora: Names in the catalogue; a link must not make the server read any other path.
    """
    config, problems = SimulationConfig(), []
    for name in sorted(fields, key=lambda field: (_FIRST.index(field) if field in _FIRST else len(_FIRST), field)):
        text = fields[name]
        try:
            if name not in FIELDS:
                raise InvalidConfig(f"the link has the unknown field {_quoted(name)}")
            if name == "corpus" and not corpus_names(text).issubset(corpora):
                raise InvalidConfig(f"corpus={_quoted(text)} is not in the catalogue of this dashboard")
            config = _with(config, name, text)
        except InvalidConfig as error:
            problems.append(f"{_sentence(error)}; this field was ignored.")
    return config, problems


def _with(config: SimulationConfig, name: str, text: str) -> SimulationConfig:
    if name == "tagger":
        return replace(config, tagger=replace(config.tagger, name=text))
    part, convert = _PARTS.get(name) or ("", _WHOLE[name])
    try:
        value = convert(text)
    except ValueError:
        raise InvalidConfig(f"{name}={_quoted(text)} in the link is not a valid value") from None
    if not part:
        return replace(config, **{name: value})
    if name == "noise_multiplier":
        return replace(config, privacy=type(config.privacy)(noise_multiplier=value))
    return replace(config, **{part: replace(getattr(config, part), **{name: value})})


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")


def _sentence(error: InvalidConfig) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] if text.startswith("the ") else text


def plain(text: str) -> str:
    """Escape Markdown, so that text from a link or a file name adds no links, images or formulas."""
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~$:&-])", r"\\\1", text)
