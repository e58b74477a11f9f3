"""Titles that pages show instead of the raw names in the engine and the address bar. Does not use Streamlit."""

from collections.abc import Callable, Mapping
from typing import Any

from engine.config import JOIN, NOTHING, SYNTHETIC, PrivacyConfig, SimulationConfig
from engine.corpus import OWN
from engine.corpus.catalogue import NAMED
from engine.corpus.files import base_name_and_split
from engine.reports.numbers import delta_text
from engine.taggers import KINDS

TAGGERS = {name: kind.title for name, kind in KINDS.items()}
FEATURES = {
    "vectors": "Word vectors",
    "shapes": "Word vectors and spelling",
    "contextual": "Public language model",
    "tuned": "Public model fine-tuned for NER",
    "names": "Public NER tagger",
}
"""Each choice includes those above it."""
OPTIMISERS = {"sgd": "SGD", "momentum": "SGD with momentum", "adam": "Adam"}
SAMPLINGS = {"poisson": "Poisson sampling", "shuffle": "shuffled batches"}
CLIPPINGS = {"joint": "joint clipping", "per-layer": "per-layer clipping"}
LOSSES = {"mean": "averaged over tokens", "sum": "summed over tokens"}
SCHEMES = {"bio2": "BIO2", "bioes": "BIOES"}
_MECHANISMS = {
    "dp-sgd": "DP-SGD",
    "dp-fedavg": "DP-FedAvg",
    "local": "noise added by each client",
    "secure-sum": "secure aggregation",
}
_NOISE_SOURCES = {"seeded": "seeded noise", "system": "system noise"}
_SCHEDULES = {
    "averaging": "all local data each round",
    "incremental": "one part of the local data each round",
    "gradients": "gradients at each step",
}
_PARTS = {"lstm": "LSTM", "hidden": "hidden layer", "scores": "tag scores"}
"""Titles of a model's layers, if they differ from the names in a configuration."""
_PARTITIONS = {
    "random": "split at random into equal parts",
    "unequal": "split at random into unequal parts",
    "label-skew": "split by entity type",
    "document": "split by document",
    "natural": "split by section",
}
_WEIGHTINGS = {"examples": "clients weighted by sentences", "equal": "clients weighted equally"}
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


def _of(titles: Mapping[str, str]) -> Callable[[Any], str]:
    return lambda name: titles.get(name, str(name))


_VALUES: dict[str, Callable[[Any], str]] = {
    "corpus": corpus,
    "tagger": _of(TAGGERS),
    "features": _of(FEATURES),
    "optimiser": _of(OPTIMISERS),
    "sampling": _of(SAMPLINGS),
    "clipping": _of(CLIPPINGS),
    "loss": _of(LOSSES),
    "mechanism": _of(_MECHANISMS),
    "noise_source": _of(_NOISE_SOURCES),
    "schedule": _of(_SCHEDULES),
    "partition": _of(_PARTITIONS),
    "weighting": lambda name: "default weights" if name is None else _WEIGHTINGS.get(name, str(name)),
    "scheme": lambda names: scheme(names),
    "well_formed": lambda yes: "constrained decoding" if yes else "unconstrained decoding",
    "data_fraction": lambda share: f"{100 * share:g} % of the data",
    "clip_norm": lambda norm: "not clipped" if norm is None else f"{norm:g}",
    "participants": lambda number: "all" if number is None else f"{number:,}",
    "delta": delta_text,
    "dropout": lambda rate: f"{100 * rate:g} %",
    "shared": lambda parts: shared(parts),
    "masked": lambda share: f"{100 * share:g} % of shared entities",
    "together": lambda share: f"{100 * share:g} % of the steps",
}
_HEADINGS = {
    "corpus": "corpus",
    "tagger": "model",
    "noise_multiplier": "σ",
    "data_fraction": "share of the data",
    "embeddings": "word vectors",
    "language_model": "language model",
    "hidden_size": "hidden size",
    "window": "context window",
    "scheme": "tag scheme",
    "well_formed": "decoding",
    "averaging": "weight averaging decay",
    "batch_size": "batch size",
    "delta": "δ",
    "noise_source": "noise source",
    "participants": "participants per round",
    "skew": "skew α",
    "shared": "shared layers",
    "masked": "entity masking",
    "together": "joint training",
}
_SELF_EXPLANATORY = (
    *("features", "optimiser", "sampling", "clipping", "mechanism", "noise_source", "schedule", "partition"),
    *("weighting", "well_formed", "data_fraction"),
)
"""Fields whose values need no heading to be understood."""


def scheme(names: str) -> str:
    """Return the title of a tag scheme, or of the schemes of all silos."""
    return ", ".join(SCHEMES.get(name, name) for name in names.split(","))


def shared(parts: str | None) -> str:
    """Return the title of the layers that silos share."""
    if parts is None:
        return "all tag-independent layers"
    if parts == NOTHING:
        return "none (separate training)"
    return ", ".join(_PARTS.get(part.strip(), part.strip()) for part in parts.split(","))


def heading(field: str) -> str:
    """Return the column heading of a field of a configuration."""
    return _HEADINGS.get(field, field.replace("_", " "))


def value(field: str, found: Any) -> str:
    """Return a field's value as text."""
    if field in _VALUES:
        return _VALUES[field](found)
    return f"{found:g}" if isinstance(found, float) else str(found)


def model(config: SimulationConfig) -> str:
    """Return the model and its noise multiplier as text."""
    return f"{TAGGERS.get(config.tagger.name, config.tagger.name)}, σ = {config.privacy.noise_multiplier:g}"


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
    if field in _SELF_EXPLANATORY or text == "not clipped":
        return text
    name = heading(field)
    if name in ("clients", "rounds", "epochs"):
        return f"{text} {name if found != 1 else name.removesuffix('s')}"
    return f"{name} {text}"
