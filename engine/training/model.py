"""A trained tagger as one file without pickles: its weights and the information that rebuilds it.

Only the weights are computed from the training sentences, under ε. All else in the file is public or fixed in advance:
settings, declared tags, and ε, which follows from the settings and the public number of sentences. The file therefore
has neither the identity of its run nor the checksum of its corpus, since both depend on each sentence without noise.
"""

import json
import math
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from engine.config import SimulationConfig
from engine.corpus.tag_schemes import from_bioes
from engine.errors import StoreError
from engine.taggers import Tagger, build
from engine.taggers.decoding import Decoder

MAX_BYTES = 400_000_000
_FORMAT = 2
_WITH_IDENTITY = 1
"""Format up to version 0.6.0, which has the identity of the run and the corpus checksum too."""
_HEAD_BLOCK = 512
"""The head is padded to a multiple of so many characters."""
_EPSILON_DIGITS = 24
"""Most characters of ε in the head. The padding counts as many for any ε, whose number of digits thus has no effect."""
_MOST_TAGS = 10_000
_BEGIN = ("B-", "I-", "E-", "S-")


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A tagger at the end of its run.

    Attributes:
        run_id: id of the run; None in a file on its own, which does not hold it.
        config: configuration of the run.
        weights: the scored weights (averaged where the run averages), float32 [size].
        tags: names of the tags in the order of the scores' columns, in BIO2 or BIOES as trained.
        dimensions: features of a token.
        copied: number of these features that a context window copies from neighbours.
        engine_version: version of the engine.
        epsilon: ε of releasing the model, ∞ without noise.
        delta: δ of that ε.
        platform: name of the corpus whose tags it predicts, if each client (silo) has a model.
    """

    run_id: str | None
    config: SimulationConfig
    weights: np.ndarray
    tags: tuple[str, ...]
    dimensions: int
    copied: int
    engine_version: str
    epsilon: float
    delta: float
    platform: str | None = None

    @cached_property
    def tagger(self) -> Tagger:
        """The tagger with its layers."""
        tagger = build(self.config.tagger, self.dimensions, len(self.tags), self.copied)
        return tagger.sharing(self.config.federation.shared_parts) if self.platform else tagger

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder of tags from scores."""
        return Decoder(self.tags, well_formed=self.config.tagger.well_formed)

    @property
    def names(self) -> tuple[str, ...]:
        """The BIO2 name of each tag, which scoring uses."""
        return tuple(from_bioes(self.tags))

    def save(self, path: Path, *, half: bool = False) -> None:
        """Write the model to a file, with weights in float16 if ``half`` (for publishing). Raises OSError."""
        head = {
            "format": _FORMAT,
            "config": self.config.to_dict(),
            "tags": self.tags,
            "dimensions": self.dimensions,
            "copied": self.copied,
            "engine_version": self.engine_version,
            "epsilon": None if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "platform": self.platform,
        }
        weights = self.weights.astype(np.float16 if half else np.float32)
        text = json.dumps(head)
        length = len(json.dumps(head | {"epsilon": 0})) + _EPSILON_DIGITS
        np.savez(path, head=np.array(text.ljust(math.ceil(length / _HEAD_BLOCK) * _HEAD_BLOCK)), weights=weights)

    @classmethod
    def load(cls, path: Path) -> "Model":
        """Read a file from :meth:`save`. Raises StoreError if it is too large, damaged or inconsistent."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
            with zipfile.ZipFile(path) as file:
                if sum(entry.file_size for entry in file.infolist()) > MAX_BYTES:
                    raise ValueError(f"it unpacks to more than {MAX_BYTES:,} bytes")
            with np.load(path, allow_pickle=False) as arrays:
                head, weights = json.loads(str(arrays["head"])), arrays["weights"]
            return _checked(head, weights)
        except Exception as error:  # numpy evaluates headers, so parser and allocation errors are possible too
            raise StoreError(f"The model {path.name} cannot be read: {error}.") from error


def _checked(head: dict[str, Any], weights: np.ndarray) -> Model:
    if head["format"] not in (_WITH_IDENTITY, _FORMAT):
        raise ValueError(f"its format is {head['format']!r}, expected {_WITH_IDENTITY} or {_FORMAT}")
    tags = tuple(str(tag) for tag in head["tags"])
    if not 1 <= len(tags) <= _MOST_TAGS:
        raise ValueError(f"it has {len(tags):,} tags")
    if strange := [tag for tag in tags if tag != "O" and tag[:2] not in _BEGIN]:
        raise ValueError(f"it has the tag {strange[0]!r}, expected BIO2 or BIOES")
    model = Model(
        run_id=str(head["run_id"]) if head["format"] == _WITH_IDENTITY else None,
        config=SimulationConfig.from_dict(head["config"]),
        weights=weights.astype(np.float32),
        tags=tags,
        dimensions=int(head["dimensions"]),
        copied=int(head["copied"]),
        engine_version=str(head["engine_version"]),
        epsilon=math.inf if head["epsilon"] is None else float(head["epsilon"]),
        delta=float(head["delta"]),
        platform=None if head.get("platform") is None else str(head["platform"]),
    )
    if model.weights.shape != (model.tagger.size,):
        raise ValueError(f"it has {weights.size:,} weights, expected {model.tagger.size:,}")
    if not np.isfinite(model.weights).all():
        raise ValueError("some of its weights are not finite")
    return model
