"""FedNER's tagger and its baselines (Ge et al. 2020, sections 3.1 and 4.2), built from common layers.

The inputs are static word vectors and, for some, character features and contextual vectors, concatenated. Then follow a
convolution over neighbouring words, bidirectional LSTMs, and a CRF. The paper's ``hidden_size`` is 200 (filters, and
LSTM units per direction; half of it for a character embedding). Its dropout is 0.2, before the first layer over words
and before the scores. Where the cited paper of a baseline has more (character LSTMs, stacked transitions), these follow
the paper's own description in section 4.2.
"""

from functools import partial

from engine.taggers.base import Sizes, TaggerKind
from engine.taggers.char_vocab import NUMBER
from engine.taggers.layers import CHARACTERS, CRF, BidirectionalLSTM, CharacterPool, Dense, Dropout, Tanh, Window
from engine.taggers.tagger import Input, Node, Tagger

WORDS, CONTEXT = "words", "context"


def _build(sizes: Sizes, spelt: bool, context: bool, reaches: tuple[int, ...], lstms: int) -> Tagger:
    """Build the tagger.

    Args:
        sizes: Sizes of its layers.
        spelt: Whether characters are read.
        context: Whether contextual vectors are read.
        reaches: Neighbours on each side of each convolution.
        lstms: Number of stacked LSTMs.
    """
    size, width, reads, nodes = sizes.hidden_size, sizes.copied, [WORDS], []
    inputs = [Input(WORDS, 0, sizes.copied)]
    if context:
        inputs.append(Input(CONTEXT, sizes.copied, sizes.dimensions))
        reads.append(CONTEXT)
        width = sizes.dimensions
    if spelt:
        nodes.append(Node("characters of words", CharacterPool(NUMBER, max(1, size // 2), size), (CHARACTERS,)))
        reads.append("characters of words")
        width += size

    def add_dropout(name: str) -> None:
        nonlocal reads
        if sizes.dropout:
            nodes.append(Node(name, Dropout(width, sizes.dropout), tuple(reads)))
            reads = [name]

    add_dropout("words but for some")
    below, reads = tuple(reads), reads if not reaches else []
    for reach in reaches:
        name, seen = f"convolution of {2 * reach + 1}", Window(width, width, reach)
        nodes += [
            Node(f"neighbours to {reach}", seen, below),
            Node(f"{name}, plain", Dense(seen.outputs, size), (f"neighbours to {reach}",), part="convolution"),
            Node(name, Tanh(size), (f"{name}, plain",)),
        ]
        reads.append(name)
    width = size * len(reaches) if reaches else width
    for number in range(lstms):
        name = f"LSTM {number + 1}"
        nodes.append(Node(name, BidirectionalLSTM(width, size), tuple(reads)))
        reads, width = [name], 2 * size
    add_dropout("context but for some")
    nodes.append(Node("scores", Dense(width, sizes.tags), tuple(reads), part="scores"))
    return Tagger(sizes.dimensions, tuple(nodes), CRF(sizes.tags), inputs=tuple(inputs))


def _kind(
    name: str,
    title: str,
    note: str,
    *,
    spelt: bool = False,
    context: bool = False,
    reaches: tuple[int, ...] = (),
    lstms: int = 0,
    short: str = "",
) -> TaggerKind:
    return TaggerKind(
        name=name,
        title=title,
        short=short or title,
        note=note,
        fields=("hidden_size", "dropout"),
        chain=True,
        family=name,
        paper="fedner",
        in_context=context,
        build=partial(_build, spelt=spelt, context=context, reaches=reaches, lstms=lstms),
    )


KINDS = (
    _kind("cnn-crf", "CNN-CRF", "A convolution over neighbouring words, then a CRF.", reaches=(1,)),
    _kind("lstm-crf", "LSTM-CRF", "A bidirectional LSTM over words, then a CRF.", lstms=1),
    _kind(
        "gram-cnn",
        "GRAM-CNN",
        "Words and their characters, convolutions over one, three and five words, then a CRF.",
        spelt=True,
        reaches=(0, 1, 2),
    ),
    _kind(
        "cnn-lstm-crf",
        "CNN-LSTM-CRF",
        "Words and their characters, a bidirectional LSTM, then a CRF.",
        spelt=True,
        lstms=1,
    ),
    _kind("s-lstm-crf", "S-LSTM-CRF", "Two stacked LSTMs over words, then a CRF.", lstms=2),
    _kind(
        "cnn-clstm-crf",
        "CNN-CLSTM-CRF",
        "Words and their characters, a convolution and an LSTM over words, then a CRF.",
        spelt=True,
        reaches=(1,),
        lstms=1,
    ),
    _kind(
        "lm-ner",
        "LM-NER (replaces ELMoNER)",
        "CNN-CLSTM-CRF with vectors of a public language model: FedNER's tagger, with MiniLM or your own model instead "
        "of ELMo.",
        short="LM-NER",
        spelt=True,
        context=True,
        reaches=(1,),
        lstms=1,
    ),
)
