"""What people see where the engine and the address bar have raw names: the one table of them. No streamlit."""

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
    "tuned": "Model tuned on public names",
    "names": "Public name finder",
}
"""The later ones have all that stands above them."""
OPTIMISERS = {"sgd": "SGD", "momentum": "SGD with momentum", "adam": "Adam"}
SAMPLINGS = {"poisson": "Poisson sampling", "shuffle": "shuffled batches"}
CLIPPINGS = {"joint": "clipped as a whole", "per-layer": "clipped layer by layer"}
LOSSES = {"mean": "averaged over tokens", "sum": "summed over tokens"}
SCHEMES = {"bio2": "BIO2", "bioes": "BIOES"}
_MECHANISMS = {
    "dp-sgd": "DP-SGD",
    "dp-fedavg": "DP-FedAvg",
    "local": "noise by each client",
    "secure-sum": "secure sum",
}
_NOISE_SOURCES = {"seeded": "noise from the seed", "system": "noise from the system"}
_SCHEDULES = {
    "averaging": "all data each round",
    "incremental": "a piece of the data a round",
    "gradients": "gradients at each step",
}
_PARTS = {"lstm": "LSTM", "hidden": "hidden layer", "scores": "scores of the tags"}
"""Of a tagger, where they are not called as in a configuration."""
_PARTITIONS = {
    "random": "split at random",
    "unequal": "split unequally",
    "label-skew": "split by entity type",
    "document": "split by document",
    "natural": "split by section",
}
_WEIGHTINGS = {"examples": "weighted by sentences", "equal": "clients weighted equally"}
_SYNTHETIC = "Letters and notes (synthetic)"


def corpus(name: str) -> str:
    """Title of a corpus, with its split, or those of all platforms; of one's own it is the name it was given."""
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
    "weighting": lambda name: "usual weights" if name is None else _WEIGHTINGS.get(name, str(name)),
    "scheme": lambda names: scheme(names),
    "well_formed": lambda yes: "only well-formed tags" if yes else "any tags",
    "data_fraction": lambda share: f"{100 * share:g} % of the data",
    "clip_norm": lambda norm: "not clipped" if norm is None else f"{norm:g}",
    "participants": lambda number: "all" if number is None else f"{number:,}",
    "delta": delta_text,
    "dropout": lambda rate: f"{100 * rate:g} %",
    "shared": lambda parts: shared(parts),
    "masked": lambda share: f"{100 * share:g} % of common names masked",
    "together": lambda share: f"together for {100 * share:g} % of the steps",
}
_HEADINGS = {
    "corpus": "corpus",
    "tagger": "model",
    "noise_multiplier": "σ",
    "data_fraction": "share of the data",
    "embeddings": "word vectors",
    "language_model": "language model",
    "hidden_size": "units",
    "window": "neighbours",
    "scheme": "tag scheme",
    "well_formed": "tags read off",
    "averaging": "averaged weights",
    "batch_size": "batch size",
    "delta": "δ",
    "noise_source": "noise comes from",
    "participants": "clients a round",
    "skew": "skew α",
}
_SAY_THEMSELVES = (
    *("features", "optimiser", "sampling", "clipping", "mechanism", "noise_source", "schedule", "partition"),
    *("weighting", "well_formed", "data_fraction"),
)
"""Fields whose values need no heading to be understood."""


def scheme(names: str) -> str:
    """Of a tagger's tags, or of each platform's."""
    return ", ".join(SCHEMES.get(name, name) for name in names.split(","))


def shared(parts: str | None) -> str:
    """What platforms share of a tagger."""
    if parts is None:
        return "all below their tags"
    if parts == NOTHING:
        return "nothing: each alone"
    return ", ".join(_PARTS.get(part.strip(), part.strip()) for part in parts.split(","))


def heading(field: str) -> str:
    """A field of a configuration, as it heads a column."""
    return _HEADINGS.get(field, field.replace("_", " "))


def value(field: str, found: Any) -> str:
    """A field's value in words."""
    if field in _VALUES:
        return _VALUES[field](found)
    return f"{found:g}" if isinstance(found, float) else str(found)


def model(config: SimulationConfig) -> str:
    """The tagger and its noise."""
    return f"{TAGGERS.get(config.tagger.name, config.tagger.name)}, σ = {config.privacy.noise_multiplier:g}"


def setting(config: SimulationConfig, *, with_corpus: bool = True) -> str:
    """A configuration in a few words, whatever its seed: model, noise, corpus, and what else is not the default."""
    usual = SimulationConfig(privacy=PrivacyConfig(noise_multiplier=config.privacy.noise_multiplier)).flat()
    named = ("corpus", "tagger", "noise_multiplier", "seed")
    changed = {name: found for name, found in config.flat().items() if name not in named and found != usual[name]}
    of_corpus = [corpus(config.corpus)] if with_corpus else []
    return " · ".join([model(config), *of_corpus, *(_phrase(*one) for one in changed.items())])


def _phrase(field: str, found: Any) -> str:
    """A field with its value, to stand among others: "batch size 512", "5 clients", "Adam"."""
    said = value(field, found)
    if field in _SAY_THEMSELVES or said == "not clipped":
        return said
    name = heading(field)
    if name in ("clients", "rounds", "epochs", "units", "neighbours"):
        return f"{said} {name if found != 1 else name.removesuffix('s')}"
    return f"{name} {said}"
