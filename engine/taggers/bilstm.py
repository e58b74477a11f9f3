"""BiLSTM-TDDL (dp-fl-ner, section 2): frozen word vectors → bidirectional LSTM → dense softmax at each token.

The gates stand in the order input, forget, cell, output, as in Keras, and the initialisation is Keras's too, since
the paper used it: Glorot uniform kernels, orthogonal recurrent kernels, a forget bias of 1.
"""

from dataclasses import dataclass

import numpy as np

from engine.taggers.layout import Layout

DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class BiLSTM:
    """Sizes of the model: dimensions D of a word vector, hidden_size H per direction, tags K."""

    dimensions: int
    hidden_size: int
    tags: int

    @property
    def layout(self) -> Layout:
        """Per direction a kernel [D, 4H], a recurrent kernel [H, 4H] and a bias [4H]; then the dense layer."""
        gates = 4 * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {}
        for direction in DIRECTIONS:
            shapes[f"{direction}/kernel"] = (self.dimensions, gates)
            shapes[f"{direction}/recurrent"] = (self.hidden_size, gates)
            shapes[f"{direction}/bias"] = (gates,)
        shapes["dense/kernel"] = (2 * self.hidden_size, self.tags)
        shapes["dense/bias"] = (self.tags,)
        return Layout(shapes)

    def initial_weights(self, random: np.random.Generator) -> np.ndarray:
        """Fresh weights, float32 [layout.size]."""
        flat = np.zeros(self.layout.size, dtype=np.float32)
        for name, view in self.layout.views(flat).items():
            part = name.split("/")[1]
            if part == "kernel":
                limit = np.sqrt(6.0 / sum(view.shape))
                view[:] = random.uniform(-limit, limit, view.shape)
            elif part == "recurrent":
                # QR of a Gaussian matrix, signs fixed by the diagonal of R, is uniform over orthogonal matrices.
                q, r = np.linalg.qr(random.standard_normal(view.shape[::-1]))
                view[:] = (q * np.sign(np.diag(r))).T
            elif name != "dense/bias":
                view[self.hidden_size : 2 * self.hidden_size] = 1.0
        return flat
