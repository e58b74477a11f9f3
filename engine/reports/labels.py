"""Display labels for the names in configurations."""

from typing import Any

from engine.config import JOIN, PARAMETERS, SYNTHETIC
from engine.corpus.catalogue import ENTRIES
from engine.corpus.files import OWN, base_name_and_split

_TITLES = {entry.name: entry.title for entry in ENTRIES}


def corpus_title(name: str) -> str:
    """Return the title of a corpus for use within a sentence; an uploaded corpus has its name, a file its path."""
    if JOIN in name:
        return JOIN.join(map(corpus_title, name.split(JOIN)))
    if name == SYNTHETIC:
        from engine.corpus import synthetic

        return synthetic.TITLE
    base, split = base_name_and_split(name)
    if split is not None:
        return f"{corpus_title(base)}, split {split}"
    return _TITLES.get(name, name.removeprefix(OWN))


def field_text(name: str, value: Any) -> str:
    """Return a field of a configuration with its value: "learning rate 0.1", "linear, CRF"."""
    parameter = PARAMETERS[name]
    text = parameter.title(value)
    return text if name == "tagger" or parameter.self_explanatory else f"{parameter.heading} {text}"
