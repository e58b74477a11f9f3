"""Products with rounded matrices: against NumPy, with each instruction, and against products in float32."""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir
from numba import njit

from engine import instructions
from engine.embeddings import int8_matrix as rounded
from engine.embeddings.int8_matrix import EXACT, add_affine, int8_matrix
from engine.gemm import add_product, packed
from engine.instructions import LARGEST_SIGNED, target_features


@njit
def product(x, matrix, columns):
    out = np.zeros((x.shape[0], columns), np.float32)
    add_affine(x, matrix, out)
    return out


def layer(inputs: int, outputs: int, rows: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and a matrix; as in language models, a few inputs are much larger than the others."""
    random = np.random.default_rng(seed)
    sizes = np.exp(random.normal(0, 0.5, inputs))
    sizes[random.permutation(inputs)[:3]] *= 60
    return (random.normal(size=(rows, inputs)) * sizes).astype(np.float32), random.normal(
        0, 0.05, (inputs, outputs)
    ).astype(np.float32)


def error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize(("inputs", "outputs", "rows"), [(16, 5, 1), (32, 33, 7), (768, 100, 60), (3072, 64, 13)])
def test_product_equals_one_with_whole_numbers(inputs, outputs, rows) -> None:
    x, weights = layer(inputs, outputs, rows)
    found = product(x, int8_matrix(weights, np.abs(x).max(0)), outputs)

    ranges = np.abs(x).max(0)
    factors = np.sqrt(ranges / np.abs(weights).max(1))
    exact = np.argsort(ranges / factors)[-EXACT:]
    small, inner = x / factors, weights * factors[:, None]
    small[:, exact], inner[exact] = 0, 0
    row, column = np.abs(small).max(1, keepdims=True) / 127, np.abs(inner).max(0) / 63
    whole = np.rint(small / row) @ np.rint(inner / column).astype(np.float64)
    expected = whole * row * column + x[:, exact].astype(np.float64) @ weights[exact].astype(np.float64)
    # A number halfway between two whole ones may be rounded to either, by the last digit of its quotient.
    assert error(found, expected) < 1e-3
    assert np.median(np.abs(found - expected)) < 1e-5 * np.abs(expected).max()


def test_product_is_close_to_that_in_float32() -> None:
    x, weights = layer(768, 200)
    exact = x.astype(np.float64) @ weights
    one_scale = np.abs(x).max() / 127
    assert error(np.rint(x / one_scale) * one_scale @ weights, exact) > 0.05
    assert error(product(x, int8_matrix(weights, np.abs(x).max(0)), 200), exact) < 0.01


def test_inputs_may_exceed_their_ranges_and_be_zero() -> None:
    x, weights = layer(64, 16)
    matrix = int8_matrix(weights, np.abs(x).max(0) / 3)
    x[3] = 0
    found = product(x, matrix, 16)
    assert error(found, x.astype(np.float64) @ weights) < 0.03
    assert not found[3].any()
    assert np.isfinite(product(x, int8_matrix(weights, np.zeros(64)), 16)).all()
    assert not product(x, int8_matrix(np.zeros_like(weights), np.abs(x).max(0)), 16).any()


def test_a_row_does_not_depend_on_the_others() -> None:
    x, weights = layer(768, 96, rows=40)
    matrix = int8_matrix(weights, np.abs(x).max(0))
    alone = np.concatenate([product(row[None], matrix, 96) for row in x])
    assert np.array_equal(product(x, matrix, 96), alone)


def test_ranges_are_the_largest_magnitudes() -> None:
    x, weights = layer(64, 8)
    panels, ranges = packed(weights), np.full(64, 0.5, np.float32)
    assert np.array_equal(product(x, (panels, ranges), 8), product(x, panels, 8))
    assert np.array_equal(ranges, np.maximum(np.abs(x).max(0), 0.5))


@pytest.mark.parametrize("depth", [4, 4 * 385, 12_288])
def test_sums_of_the_largest_numbers_are_exact(depth) -> None:
    a = np.full((3, depth), 255, np.uint8)
    b = np.where(np.arange(depth)[:, None] % 3 < np.arange(40) % 4, LARGEST_SIGNED, -LARGEST_SIGNED).astype(np.int8)
    out = np.ones((3, 40), np.int32)
    add_product(a.view(np.int32), packed(np.ascontiguousarray(b.T).view(np.int32).T), out)
    assert np.array_equal(out, 1 + a.astype(np.int64) @ b)


HOST = {name for name, found in target_features(None).items() if found}
INSTRUCTIONS = [(), ("ssse3",), ("avx2",), ("avx512bw",), ("avx512vnni", "avx512vl")]
"""Features of processors, each with other instructions for these sums."""


@pytest.mark.parametrize("size", [8, 16, 32, 64])
@pytest.mark.parametrize("features", [each for each in INSTRUCTIONS if HOST.issuperset(each)])
def test_each_instruction_adds_the_same_products(size, features, monkeypatch) -> None:
    monkeypatch.setattr(instructions, "FEATURES", dict.fromkeys(features, True))
    random = np.random.default_rng(size)
    first = random.integers(0, 256, size).astype(np.uint8)
    second = random.integers(-LARGEST_SIGNED, LARGEST_SIGNED + 1, size).astype(np.int8)
    first[:4], second[:4] = 255, LARGEST_SIGNED
    first[4:8], second[4:8] = 255, -LARGEST_SIGNED
    total = random.integers(-(2**20), 2**20, size // 4).astype(np.int32)
    expected = total + (first.astype(np.int64) * second).reshape(-1, 4).sum(1)
    _run(size // 4, first, second, total)
    assert np.array_equal(total, expected)


def _run(lanes: int, first: np.ndarray, second: np.ndarray, total: np.ndarray) -> None:
    """Compile and call a function that adds the products to ``total``."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    vector = ir.VectorType(ir.IntType(32), lanes)
    module = ir.Module()
    module.triple = llvm.get_process_triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [vector.as_pointer()] * 3), "add")
    builder = ir.IRBuilder(function.append_basic_block())
    one, other, before = (builder.load(pointer, align=4) for pointer in function.args)
    builder.store(instructions.add_products(builder, one, other, before), function.args[2], align=4)
    builder.ret_void()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(engine.get_function_address("add"))
    call(*(array.ctypes.data for array in (first, second, total)))


def test_add_affine_is_for_compiled_code_only() -> None:
    with pytest.raises(NotImplementedError):
        rounded.add_affine(np.zeros((1, 4)), np.zeros((1, 4, 4)), np.zeros((1, 4)))
