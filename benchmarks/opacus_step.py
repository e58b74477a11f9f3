"""A private step of Opacus and a non-private one of PyTorch, for :mod:`benchmarks.step`, in a separate environment.

The script imports torch and nothing of this repository. It reads one JSON object a line from standard input, with the
name of a step and the sentence lengths of a batch, and answers each with milliseconds. The tagger is the same: 300
dimensions, an LSTM with 100 units in each direction, and a linear layer. PyTorch uses packed sequences. Opacus uses
padded ones, as from its DataLoader, and packed ones, which DPLSTM also supports.
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
    """Tagger from word vectors to tag scores; with packed sequences only real tokens have scores."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.lstm = kind(DIMENSIONS, HIDDEN, batch_first=True, bidirectional=True)
        self.linear = torch.nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor, packed: bool) -> torch.Tensor:
        """Return tag scores [B, T, K] of word vectors [B, T, D]."""
        if not packed:
            return self.linear(self.lstm(vectors)[0])
        sequence = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        outputs = self.lstm(sequence)[0]
        assert isinstance(outputs, PackedSequence)
        padded, _ = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
        return self.linear(padded)


def main() -> None:
    """Answer requests until the input ends."""
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
        request = json.loads(line)
        name, lengths = request["name"], torch.tensor(request["lengths"])
        longest = int(lengths.max())
        mask = torch.arange(longest) < lengths[:, None]
        vectors = torch.randn(len(lengths), longest, DIMENSIONS) * mask[..., None]
        tags = torch.randint(0, TAGS, (len(lengths), longest))
        tagger, updates = (plain, ordinary) if name == "pytorch_ms" else (model, optimiser)
        start = time.perf_counter()
        updates.zero_grad()
        scores = tagger(vectors, lengths, name != "opacus_padded_ms")
        losses = torch.nn.functional.cross_entropy(scores.transpose(1, 2), tags, reduction="none")
        ((losses * mask).sum(1) / lengths).mean().backward()
        updates.step()
        sys.stdout.write(f"{1000 * (time.perf_counter() - start)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
