"""The configuration in the address bar: a copied link opens the same view.

A link is untrusted input. Each field is validated separately; an invalid one is ignored with a message.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from engine.config import FLAT, PARAMETERS, PrivacyConfig, SimulationConfig
from engine.corpus.files import corpus_names
from engine.errors import InvalidConfig
from engine.records import Run
from engine.visible_text import visible

_ALWAYS = ("corpus", "tagger", "noise_multiplier", "data_fraction")
"""Fields that every link has."""
FIELDS = tuple(FLAT)
"""Fields that a link may contain."""
_FIRST = ("noise_multiplier", "features", "tagger")
"""Fields that are read first, since others depend on them: a clip norm of none is valid only without noise, some
taggers need certain features, and only some have dropout."""
_LAST = ("partition", "pretrained")
"""Fields that are read last: a partition has no effect without clients, pieces or a share of the data, and public
weights exist only for some inputs of a tagger."""
_QUOTED = 40
"""Number of characters of an invalid value that a message quotes."""

_JOINER = "\u2060"
"""Word joiner: invisible, and no part of what Streamlit replaces."""
_REPLACED = re.compile(
    r"(?<=:)(?=//)|(?<=www)(?=\.)|(?=@)"  # addresses, which need no brackets
    r"|(?<=:)(?=material/|[\w+-]+:)"  # icons and emoji
    r"|(?<!\S)(?=(?:<->|->|<-|--|>=|<=|~=)(?!\S))",  # arrows and other signs
    re.IGNORECASE,
)
"""Where a joiner prevents that Streamlit replaces text (``StreamlitMarkdown``; GitHub Flavored Markdown, autolinks)."""
_SPACES = re.compile(r"[ \t\n]+")
"""Spaces and line ends, which could begin a paragraph or code; no-break spaces stay."""
_LIST = re.compile(r"^(\d+)([.)])")
"""A number that would begin a list."""


def write(config: SimulationConfig) -> dict[str, str]:
    """Return the fields of a link to ``config``: the main choices, and the values that differ from the defaults."""
    # The default clip norm depends on the noise multiplier.
    default = _values(SimulationConfig(privacy=PrivacyConfig(noise_multiplier=config.privacy.noise_multiplier)))
    return {name: text for name, text in _values(config).items() if name in _ALWAYS or text != default[name]}


@lru_cache(maxsize=16_384)
def link(config: SimulationConfig) -> str:
    """Return the relative address at which Explore shows ``config``."""
    return "./explore?" + urlencode(write(config))


def ledger(*runs: Run) -> str | None:
    """Return the address of Assumptions for the first of the runs with noise, or None if no run has noise."""
    return next((f"./assumptions?run={run.run_id}" for run in runs if run.config.privacy.private), None)


def _values(config: SimulationConfig) -> dict[str, str]:
    return {name: _text(value) for name, value in config.flat().items()}


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
    for name in sorted(fields, key=_order):
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


def _order(name: str) -> tuple[int, str]:
    """Return the sort key of a field of a link."""
    return _FIRST.index(name) if name in _FIRST else len(_FIRST) + (name in _LAST), name


def _with(config: SimulationConfig, name: str, text: str) -> SimulationConfig:
    try:
        value = PARAMETERS[name].values.parse(text)
    except ValueError:
        raise InvalidConfig(f"{name}={_quoted(text)} in the link is not a valid value") from None
    if name == "noise_multiplier":
        return replace(config, privacy=PrivacyConfig(noise_multiplier=value))
    part, own = FLAT[name]
    return replace(config, **{part: replace(getattr(config, part), **{own: value})} if part else {own: value})


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")


def _sentence(error: InvalidConfig) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] if text.startswith("the ") else text


def plain(text: str) -> str:
    """Return Markdown that displays text from outside literally, in one paragraph.

    It adds no links, pictures, formulas or icons, and does not change the direction of other text.
    """
    joined = _REPLACED.sub(_JOINER, visible(_SPACES.sub(" ", text).strip(" ")))
    return _LIST.sub(r"\1\\\2", re.sub(r"([\\`*_{}\[\]()#+!|<>~$:&-])", r"\\\1", joined))
