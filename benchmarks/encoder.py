"""Time of a language model's vectors: ``python -m benchmarks.encoder [--sentences N] [--json] [--save]``.

Measured are sentences of CoNLL-2003's training part, drawn at random: MiniLM's layers 4 and 6, compiled and in
TensorFlow, and MPNet's layer 6, compiled, in float32 and in whole numbers of 8 and 7 bits. Printed is also the cosine
of both vectors of a word, after the mean is subtracted. If the packages ``onnx`` and ``onnxruntime`` are installed,
which no list of this repository contains, MPNet is measured with them too. The ways take turns on the same batches. The
results are seconds of wall clock and of processor time for 300,000 words, about the size of the whole corpus, with the
load of the machine.
"""

import argparse
import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.report import finish, markdown
from engine import corpus
from engine.config.encoder_registry import ENCODERS, MPNET
from engine.embeddings import minilm, transformer
from engine.embeddings.contextual import encoder_of
from engine.embeddings.custom_model import Shape, find
from engine.embeddings.features import LAYERS, statistics_of
from engine.embeddings.transformer import Encoder, distance_bias
from engine.embeddings.word_pieces import Pieces, batches, word_pieces
from engine.settings import Settings

WORDS, TURNS, PADDED_PIECES = 300_000, 3, 4096

Way = Callable[[], object]


def compiled(encoder: Encoder, pieces: Sequence[Pieces], words: int) -> Way:
    """Return the computation of this repository."""
    return lambda: transformer.token_vectors(encoder, pieces, np.zeros(words, np.int32))


def tensorflow(pieces: Sequence[Pieces]) -> Way:
    """Return MiniLM's computation in TensorFlow with padding, as one graph."""
    import tensorflow as tf

    from benchmarks.train_public_adapter import TensorFlowEncoder, padded

    encoder = TensorFlowEncoder(minilm.Weights())
    kinds = [tf.TensorSpec((None, None), kind) for kind in (tf.int32, tf.float32, tf.int32)]
    run = tf.function(lambda ids, mask, cases: encoder.layers(ids, mask, cases)[-1], input_signature=kinds)

    def compute() -> None:
        for batch in batches(pieces, PADDED_PIECES):
            ids, _, mask = padded(batch)
            run(ids, mask, np.zeros_like(ids))

    return compute


def onnx_runtime(values: Mapping[str, Any], shape: Shape, last: int, pieces: Sequence[Pieces]) -> Way:
    """Return a layer's computation by ONNX Runtime with padding, in all cores."""
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(_graph(onnx, values, shape, last).SerializeToString())
    near = distance_bias(values.get(transformer.DISTANCE_BIAS), shape.heads, 512)
    first, middle = shape.first_position, near.shape[1] // 2

    def compute() -> None:
        for batch in batches(pieces, PADDED_PIECES // 8):
            width = max(len(each.ids) for each in batch)
            ids, away = np.zeros((len(batch), width), np.int64), np.full((len(batch), 1, 1, width), -1e9, np.float32)
            for row, each in enumerate(batch):
                ids[row, : len(each.ids)], away[row, ..., : len(each.ids)] = each.ids, 0
            places = np.arange(width)
            rows = values["embeddings.word_embeddings.weight"][ids]
            rows = rows + values["embeddings.position_embeddings.weight"][first : first + width]
            session.run(None, {"rows": rows, "bias": away + near[:, middle + places - places[:, None]]})

    return compute


def _graph(onnx: Any, values: Mapping[str, Any], shape: Shape, last: int) -> Any:
    """Return an MPNet up to a layer in ONNX, from the sums of embeddings [B, T, size] and the attention's bias."""
    helper = onnx.helper
    nodes: list[Any] = []
    stored: dict[str, Any] = {}

    def constant(name: str, value: np.ndarray) -> str:
        stored[name] = onnx.numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def node(kind: str, *inputs: str, **more: Any) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"node{len(nodes)}"], **more))
        return f"node{len(nodes) - 1}"

    def affine(inputs: str, name: str) -> str:
        product = node("MatMul", inputs, constant(f"{name}.weight", values[f"{name}.weight"].T))
        return node("Add", product, constant(f"{name}.bias", values[f"{name}.bias"]))

    def normal(inputs: str, name: str) -> str:
        weights = (constant(f"{name}.{each}", values[f"{name}.{each}"]) for each in ("weight", "bias"))
        return node("LayerNormalization", inputs, *weights, axis=-1, epsilon=shape.epsilon)

    split = constant("split", np.array([0, 0, shape.heads, shape.size // shape.heads]))
    joined = constant("joined", np.array([0, 0, shape.size]))
    scale = constant("scale", np.array((shape.size / shape.heads) ** -0.5, np.float32))
    here = normal("rows", "embeddings.LayerNorm")
    for number in range(last):
        name = f"encoder.layer.{number}."
        orders = {"query": [0, 2, 1, 3], "key": [0, 2, 3, 1], "value": [0, 2, 1, 3]}
        query, key, value = (
            node("Transpose", node("Reshape", affine(here, f"{name}attention.self.{kind}"), split), perm=order)
            for kind, order in orders.items()
        )
        scores = node("Add", node("Mul", node("MatMul", query, key), scale), "bias")
        mixed = node("Transpose", node("MatMul", node("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        mixed = affine(node("Reshape", mixed, joined), f"{name}attention.output.dense")
        middle = normal(node("Add", here, mixed), f"{name}attention.output.LayerNorm")
        inner = node("Gelu", affine(middle, f"{name}intermediate.dense"))
        here = normal(node("Add", middle, affine(inner, f"{name}output.dense")), f"{name}output.LayerNorm")
    nodes.append(helper.make_node("Identity", [here], ["vectors"]))
    kind = onnx.TensorProto.FLOAT
    given = [
        helper.make_tensor_value_info("rows", kind, ["B", "T", shape.size]),
        helper.make_tensor_value_info("bias", kind, ["B", "H", "T", "T"]),
    ]
    made = [helper.make_tensor_value_info("vectors", kind, None)]
    graph = helper.make_graph(nodes, "encoder", given, made, list(stored.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def cosines_of(exact: np.ndarray, rounded: np.ndarray) -> np.ndarray:
    """Return the cosine of two vectors of each word, [words, 1, size], after the mean of the first is subtracted."""
    mean = exact.mean(0, keepdims=True)
    one, other = (each - mean for each in (exact, rounded))
    lengths = np.linalg.norm(one, axis=2) * np.linalg.norm(other, axis=2)
    found: np.ndarray = (one * other).sum(2) / lengths
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=2000, help="number of sentences")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", action="store_true", help="save the result")
    options, settings = parser.parse_args(), Settings.from_environment()
    every = corpus.resolve("conll2003", settings).load().train
    chosen = np.random.default_rng(0).permutation(len(every))[: options.sentences]
    sentences = [every[number].tokens for number in chosen]
    words, mpnet, last = sum(map(len, sentences)), find(MPNET, settings), ENCODERS[MPNET].layer
    values, own, usual = minilm.Weights(mpnet), word_pieces(sentences, mpnet), word_pieces(sentences)
    exact, rounded = Encoder(values, mpnet.shape, [last]), encoder_of(mpnet, (last,), statistics_of(MPNET))
    ways = {
        "MiniLM, compiled": compiled(Encoder(minilm.Weights(), minilm.SHAPE, LAYERS), usual, words),
        "MiniLM, TensorFlow": tensorflow(usual),
        f"MPNet to layer {last}, float32": compiled(exact, own, words),
        f"MPNet to layer {last}, int8": compiled(rounded, own, words),
    }
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        ways[f"MPNet to layer {last}, ONNX Runtime"] = onnx_runtime(values, mpnet.shape, last, own)
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(TURNS + 1):
        for name, way in ways.items():
            wall, used = time.perf_counter(), time.process_time()
            way()
            if turn:
                took[name].append((time.perf_counter() - wall, time.process_time() - used))
    scale = WORDS / words
    rows = {name: [round(scale * min(column)) for column in zip(*times, strict=True)] for name, times in took.items()}
    cosines = cosines_of(
        *(transformer.token_vectors(each, own, np.zeros(words, np.int32)) for each in (exact, rounded))
    )
    low = round(float(np.quantile(cosines, 0.01)), 4)
    cosine = {"cosine_mean": round(float(cosines.mean()), 4), "cosine_lowest_percent": low}
    load = [round(average, 1) for average in os.getloadavg()]
    table = markdown(
        ("way", "s for 300,000 words", "s of processor time"), [(name, *seconds) for name, seconds in rows.items()]
    )
    text = (
        f"{words:,} words measured; load of the machine {load[0]} to {load[-1]}.\n\n{table}\n\nCosine of float32 and "
        f"int8: mean {cosine['cosine_mean']}, above {low} for 99 % of the words."
    )
    finish("encoder", {"words": words, "load": load} | rows | cosine, text, as_json=options.json, save=options.save)


if __name__ == "__main__":
    main()
