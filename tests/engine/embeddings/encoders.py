"""An independent forward pass of encoders, for tests: each head and piece by itself, in float64."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from engine.embeddings import minilm
from engine.embeddings.custom_model import OwnModel, Shape
from engine.errors import VectorsMissing
from tests.browser.chromium import in_ci


def minilm_weights() -> dict[str, np.ndarray]:
    """Return MiniLM's weights; skip the test without them, and fail in CI."""
    try:
        return minilm.weights()
    except VectorsMissing as error:
        (pytest.fail if in_ci() else pytest.skip)(str(error))


def weights_of(own: OwnModel) -> Mapping[str, np.ndarray]:
    """Return the weights of another model."""
    return minilm.weights(own)


def mpnet_bucket(distance: int) -> int:
    """Return the row of MPNet's table for the position of a piece minus that of the reading one.

    Raffel et al. 2020, section 2.1, as MPNet's published code computes it: 32 rows, 16 for each direction.
    """
    row = 16 if distance > 0 else 0
    distance = abs(distance)
    if distance < 8:
        return row + distance
    return row + min(15, 8 + int(math.log(distance / 8) / math.log(16) * 8 + 1e-9))


def reference_layers(weights: Mapping[str, np.ndarray], ids: np.ndarray, shape: Shape) -> list[np.ndarray]:
    """Return the layers' vectors of one sequence [T], computed per head and token in float64.

    Vaswani et al. 2017, section 3, with normalisation after each sum, as in Devlin et al. 2019. For MPNet (Song et al.
    2020), positions begin at 2, there are no token types, and the distance of two pieces adds to their score.
    """
    w = {name: value.astype(np.float64) for name, value in weights.items() if "word_emb" not in name}
    w["ids"] = weights["embeddings.word_embeddings.weight"][ids].astype(np.float64)
    size, mpnet = shape.size // shape.heads, shape.kind == "mpnet"

    def normal(x, name):
        return (x - x.mean()) / math.sqrt(x.var() + shape.epsilon) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def affine(x, name):
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def near(t, s, head):
        return w["encoder.relative_attention_bias.weight"][mpnet_bucket(s - t), head] if mpnet else 0.0

    hidden = []
    for position, embedded in enumerate(w["ids"]):
        embedded = embedded + w["embeddings.position_embeddings.weight"][position + (2 if mpnet else 0)]
        if not mpnet:
            embedded = embedded + w["embeddings.token_type_embeddings.weight"][0]
        hidden.append(normal(embedded, "embeddings.LayerNorm"))
    found = [np.array(hidden)]
    for number in range(shape.layers):
        name = f"encoder.layer.{number}"
        query, key, value = (
            [affine(x, f"{name}.attention.self.{kind}") for x in hidden] for kind in ("query", "key", "value")
        )
        after = []
        for t in range(len(ids)):
            mixed = []
            for head in range(shape.heads):
                own = slice(head * size, (head + 1) * size)
                scores = np.array(
                    [query[t][own] @ k[own] / math.sqrt(size) + near(t, s, head) for s, k in enumerate(key)]
                )
                shares = np.exp(scores - scores.max())
                shares /= shares.sum()
                mixed.append(sum(share * v[own] for share, v in zip(shares, value, strict=True)))
            middle = normal(
                hidden[t] + affine(np.concatenate(mixed), f"{name}.attention.output.dense"),
                f"{name}.attention.output.LayerNorm",
            )
            wide = affine(middle, f"{name}.intermediate.dense")
            wide = np.array([x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in wide])
            after.append(normal(middle + affine(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm"))
        hidden = after
        found.append(np.array(hidden))
    return found
