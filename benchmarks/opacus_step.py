"""A private step of Opacus and an ordinary one of PyTorch, for :mod:`benchmarks.step`, in an environment of its own.

Imports torch and nothing of ours. Reads from standard input, a JSON object a line, which step is meant and the lengths
of a batch's sentences; answers each with milliseconds. The same tagger: 300 dimensions, an LSTM of 100 units a
direction, a linear layer. PyTorch packs; Opacus padded, as its own DataLoader gives it, and packed, which DPLSTM knows
too.
"""

import json
import sys
import time

import torch
from opacus import GradSampleModule
from opacus.layers import DPLSTM
from opacus.optimizers import DPOptimizer
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

DIMENSIONS, HIDDEN, TAGS = 300, 100, 9


class Tagger(torch.nn.Module):
    """Word vectors → tag scores; packed sequences give scores of real tokens only."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.lstm = kind(DIMENSIONS, HIDDEN, batch_first=True, bidirectional=True)
        self.linear = torch.nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor, packed: bool) -> torch.Tensor:
        """[B, T, D] → [B, T, K]."""
        if not packed:
            return self.linear(self.lstm(vectors)[0])
        sequence = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        outputs = self.lstm(sequence)[0]
        assert isinstance(outputs, PackedSequence)
        padded, _ = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
        return self.linear(padded)


def main() -> None:
    """Answer until the input ends."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = GradSampleModule(Tagger(DPLSTM))
    size = 32
    optimiser = DPOptimizer(
        torch.optim.SGD(model.parameters(), 0.15),
        noise_multiplier=1.0,
        max_grad_norm=1.5,
        expected_batch_size=size,
    )
    plain = Tagger(torch.nn.LSTM)
    ordinary = torch.optim.SGD(plain.parameters(), 0.15)
    for line in sys.stdin:
        asked = json.loads(line)
        name, lengths = asked["name"], torch.tensor(asked["lengths"])
        longest = int(lengths.max())
        mask = torch.arange(longest) < lengths[:, None]
        vectors = torch.randn(len(lengths), longest, DIMENSIONS) * mask[..., None]
        tags = torch.randint(0, TAGS, (len(lengths), longest))
        own, moves = (plain, ordinary) if name == "pytorch_ms" else (model, optimiser)
        start = time.perf_counter()
        moves.zero_grad()
        scores = own(vectors, lengths, name != "opacus_padded_ms")
        losses = torch.nn.functional.cross_entropy(scores.transpose(1, 2), tags, reduction="none")
        ((losses * mask).sum(1) / lengths).mean().backward()
        moves.step()
        sys.stdout.write(f"{1000 * (time.perf_counter() - start)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
