"""Titles that pages show instead of the raw names in the engine and the address bar. Does not use Streamlit."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from engine.config import JOIN, NOTHING, OWN, PARAMETERS, SYNTHETIC, PrivacyConfig, SimulationConfig
from engine.corpus.catalogue import NAMED
from engine.corpus.files import base_name_and_split
from engine.reports.numbers import delta_text
from engine.taggers import KINDS

TAGGERS = {name: kind.title for name, kind in KINDS.items()}
_PARTS = {"lstm": "LSTM", "hidden": "hidden layer", "scores": "tag scores"}
"""Titles of a model's layers, if they differ from the names in a configuration."""
_SYNTHETIC = "Letters and notes (synthetic)"


def corpus(name: str) -> str:
    """Return the title of a corpus with its split, or the titles of all silos; an uploaded corpus has its name."""
    if JOIN in name:
        return JOIN.join(map(corpus, name.split(JOIN)))
    if name == SYNTHETIC:
        return _SYNTHETIC
    base, split = base_name_and_split(name)
    if split is not None:
        return f"{corpus(base)}, split {split}"
    return NAMED[name].title if name in NAMED else name.rsplit("/", 1)[-1].removeprefix(OWN)


_TEXTS: dict[str, Callable[[Any], str]] = {
    "corpus": corpus,
    "scheme": lambda names: scheme(names),
    "participants": lambda number: "all" if number is None else f"{number:,}",
    "delta": delta_text,
    "shared": lambda parts: shared(parts),
}
"""Texts of values that no title in the field's declaration can express."""


def scheme(names: str) -> str:
    """Return the title of a tag scheme, or of the schemes of all silos."""
    return ", ".join(PARAMETERS["scheme"].title(name) for name in names.split(","))


def shared(parts: str | None) -> str:
    """Return the title of the layers that silos share."""
    if parts is None:
        return "all tag-independent layers"
    if parts == NOTHING:
        return "none (separate training)"
    return ", ".join(_PARTS.get(part.strip(), part.strip()) for part in parts.split(","))


def heading(field: str) -> str:
    """Return the column heading of a field of a configuration."""
    return PARAMETERS[field].heading


def value(field: str, found: Any) -> str:
    """Return a field's value as text."""
    return _TEXTS[field](found) if field in _TEXTS else PARAMETERS[field].title(found)


def model(config: SimulationConfig) -> str:
    """Return the model and its noise multiplier as text."""
    return f"{TAGGERS.get(config.tagger.name, config.tagger.name)}, σ = {config.privacy.noise_multiplier:g}"


@lru_cache(maxsize=8192)
def setting(config: SimulationConfig, *, with_corpus: bool = True) -> str:
    """Return a configuration as text: model, noise, corpus, and all values but the seed that are not the default."""
    usual = SimulationConfig(privacy=PrivacyConfig(noise_multiplier=config.privacy.noise_multiplier)).flat()
    named = ("corpus", "tagger", "noise_multiplier", "seed")
    changed = {name: found for name, found in config.flat().items() if name not in named and found != usual[name]}
    of_corpus = [corpus(config.corpus)] if with_corpus else []
    return " · ".join([model(config), *of_corpus, *(_phrase(*one) for one in changed.items())])


def _phrase(field: str, found: Any) -> str:
    """Return a field with its value as a phrase: "batch size 512", "5 clients", "Adam"."""
    text = value(field, found)
    if PARAMETERS[field].self_explanatory or text == "not clipped":
        return text
    name = heading(field)
    if name in ("clients", "rounds", "epochs"):
        return f"{text} {name if found != 1 else name.removesuffix('s')}"
    return f"{name} {text}"
