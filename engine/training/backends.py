"""Selection of the library that computes a tagger's steps; only that library is imported."""

import importlib.util
from functools import lru_cache

from engine.errors import InvalidConfig
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
        InvalidConfig: for a layer that the back end does not support, or if the back end is not installed.
    """
    if name == "compiled":
        from engine.training.compiled.backend import CompiledBackend

        return CompiledBackend(tagger, mean=loss == "mean")
    require_tensorflow("EPSILON_BACKEND=tensorflow")
    from engine.training.tensorflow_backend import TensorFlowBackend

    return TensorFlowBackend(tagger, mean=loss == "mean")


def require_tensorflow(what: str) -> None:
    """Check that TensorFlow is installed, which small installations such as the container image omit.

    Args:
        what: The variable or command that needs it, for the error.

    Raises:
        InvalidConfig: if it is not installed.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise InvalidConfig(
            f"{what} needs TensorFlow, which is not installed: run `make setup`, or build the container image with "
            "--build-arg PARTS= (docs/deploy.md)"
        )
