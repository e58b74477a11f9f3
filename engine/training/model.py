"""A trained tagger as one file without pickles: what is scored, and what is needed to build it again."""

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
_FORMAT = 1
_MOST_TAGS = 10_000
_BEGIN = ("B-", "I-", "E-", "S-")


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A tagger at the end of its run.

    weights: float32 [size], those that were scored (averaged where the run averages). config: of the run. tags: names
    in the order of the scores' columns, BIO2 or BIOES as it learned them. dimensions: of a token's features; copied:
    how many of them a window takes from neighbours. corpus_checksum, engine_version: of the run. epsilon, delta: what
    giving it away costs, ∞ without noise. platform: name of the corpus whose tags it gives, where each of several
    platforms has a tagger.
    """

    run_id: str
    config: SimulationConfig
    weights: np.ndarray
    tags: tuple[str, ...]
    dimensions: int
    copied: int
    corpus_checksum: str
    engine_version: str
    epsilon: float
    delta: float
    platform: str | None = None

    @cached_property
    def tagger(self) -> Tagger:
        """Its layers."""
        found = build(self.config.tagger, self.dimensions, len(self.tags), self.copied)
        return found.sharing(self.config.federation.shared_parts) if self.platform else found

    @cached_property
    def decoder(self) -> Decoder:
        """Reads its tags off its scores."""
        return Decoder(self.tags, well_formed=self.config.tagger.well_formed)

    @property
    def names(self) -> tuple[str, ...]:
        """What each of its tags is in BIO2, as it is scored."""
        return tuple(from_bioes(self.tags))

    def save(self, path: Path, *, half: bool = False) -> None:
        """Write it. half: weights in float16, for publishing. Raises OSError."""
        head = {
            "format": _FORMAT,
            "run_id": self.run_id,
            "config": self.config.to_dict(),
            "tags": self.tags,
            "dimensions": self.dimensions,
            "copied": self.copied,
            "corpus_checksum": self.corpus_checksum,
            "engine_version": self.engine_version,
            "epsilon": None if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "platform": self.platform,
        }
        weights = self.weights.astype(np.float16 if half else np.float32)
        np.savez(path, head=np.array(json.dumps(head)), weights=weights)

    @classmethod
    def load(cls, path: Path) -> "Model":
        """Read what :meth:`save` wrote. Raises StoreError if it is too large, damaged, or does not fit together."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
            with zipfile.ZipFile(path) as file:
                if sum(entry.file_size for entry in file.infolist()) > MAX_BYTES:
                    raise ValueError(f"it unpacks to more than {MAX_BYTES:,} bytes")
            with np.load(path, allow_pickle=False) as arrays:
                head, weights = json.loads(str(arrays["head"])), arrays["weights"]
            return _checked(head, weights)
        except Exception as error:  # numpy evaluates headers: what Python's parser or an allocation raises is among it
            raise StoreError(f"The model {path.name} cannot be read: {error}.") from error


def _checked(head: dict[str, Any], weights: np.ndarray) -> Model:
    if head["format"] != _FORMAT:
        raise ValueError(f"its format is {head['format']!r}, expected {_FORMAT}")
    tags = tuple(str(tag) for tag in head["tags"])
    if not 1 <= len(tags) <= _MOST_TAGS:
        raise ValueError(f"it has {len(tags):,} tags")
    if strange := [tag for tag in tags if tag != "O" and tag[:2] not in _BEGIN]:
        raise ValueError(f"it has the tag {strange[0]!r}, expected BIO2 or BIOES")
    model = Model(
        run_id=str(head["run_id"]),
        config=SimulationConfig.from_dict(head["config"]),
        weights=weights.astype(np.float32),
        tags=tags,
        dimensions=int(head["dimensions"]),
        copied=int(head["copied"]),
        corpus_checksum=str(head["corpus_checksum"]),
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
