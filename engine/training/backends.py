"""Which library computes a tagger's steps. Only the one that computes is imported."""

from functools import lru_cache

from engine.taggers import Tagger
from engine.training.dpsgd import Backend


@lru_cache(maxsize=4)
def backend_of(tagger: Tagger, loss: str, name: str) -> Backend:
    """The back end ("compiled" or "tensorflow") of a tagger; its graphs stay warm between the runs of a worker. loss:
    of a sentence, the "mean" over its tokens or their "sum". Raises InvalidConfig where it does not know a layer."""
    if name == "compiled":
        from engine.training.compiled.backend import CompiledBackend

        return CompiledBackend(tagger, mean=loss == "mean")
    from engine.training.tensorflow_backend import TensorFlowBackend

    return TensorFlowBackend(tagger, mean=loss == "mean")
