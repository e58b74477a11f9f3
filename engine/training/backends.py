"""Selection of the library that computes a tagger's steps; only that library is imported."""

from functools import lru_cache

from engine.taggers import Tagger
from engine.training.dpsgd import Backend


@lru_cache(maxsize=4)
def backend_of(tagger: Tagger, loss: str, name: str) -> Backend:
    """Return the back end of a tagger; it is cached, so that its graphs are reused by later runs of a worker.

    Args:
        tagger: the tagger.
        loss: loss of a sentence, the "mean" over its tokens or their "sum".
        name: "compiled" or "tensorflow".

    Raises:
        InvalidConfig: for a layer that the back end does not support.
    """
    if name == "compiled":
        from engine.training.compiled.backend import CompiledBackend

        return CompiledBackend(tagger, mean=loss == "mean")
    from engine.training.tensorflow_backend import TensorFlowBackend

    return TensorFlowBackend(tagger, mean=loss == "mean")
