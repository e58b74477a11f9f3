"""Computation of the contextual features of the embedded corpus, with the recommended settings."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from engine.config import FEATURE_SETS, MINILM, SYNTHETIC
from engine.config.encoder_registry import MPNET, has_mpnet
from engine.embeddings import prepared
from engine.embeddings.vectors import find
from engine.errors import EpsilonError
from engine.setup import Failed

PACKAGE = "en_core_web_md"
"""The word vectors of the recommended settings."""


def chosen() -> tuple[str, str]:
    """Return the feature set and the language model of the recommended settings in this environment."""
    return ("layer-names", MPNET) if has_mpnet() else ("names", MINILM)


def installed() -> bool:
    """Return whether the features are there."""
    try:
        return all(path.is_file() for path in _files().values())
    except EpsilonError:  # no word vectors
        return False


def install(progress: Callable[[str], None]) -> None:
    """Compute the features, and remove those of earlier versions.

    Args:
        progress: Callback with the progress in words.

    Raises:
        Failed: If a package or a model is missing, or the computation fails.
    """
    from engine.corpus.handle import CorpusHandle
    from engine.embeddings import encode, own_in_context
    from engine.settings import Settings

    kind, model = chosen()
    try:
        with tempfile.TemporaryDirectory() as home:
            settings = Settings(home=Path(home), data_dir=None, store_url="sqlite://")
            corpus, own = CorpusHandle(SYNTHETIC, settings), own_in_context(model, settings)
            table = encode(corpus, PACKAGE, kind, lambda share: progress(f"{share:.0%}"), own).vectors
            files = _files()
            for part in FEATURE_SETS[kind].parts:
                if part.in_context:
                    prepared.write(files[part.name], table[:, FEATURE_SETS[kind].columns(part, model)])
    except EpsilonError as error:
        raise Failed(
            f"The features of the built-in corpus could not be computed ({error}). The first run on it computes them. "
            "The next installation tries again."
        ) from error
    for path in prepared.FOLDER.glob("*.npz"):
        if path not in files.values():
            path.unlink()


def _files() -> dict[str, Path]:
    """Return the file of each part in context. Raises VectorsMissing."""
    from engine.corpus import synthetic

    kind, model = chosen()
    package, names = find(PACKAGE), [part.name for part in FEATURE_SETS[kind].parts if part.in_context]
    return {name: prepared.path_of(synthetic.CHECKSUM, name, package, model) for name in names}
