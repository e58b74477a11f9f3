"""The matrix products of the compiled back end, compared with NumPy in float64."""

import math

import llvmlite.binding as llvm
import numpy as np
import pytest

from engine import gemm
from engine.gemm import (
    BLOCKS,
    PANEL_BYTES,
    ROWS,
    SUMMED,
    Blocks,
    add_product,
    add_product_of_columns,
    packed,
    use,
)
from engine.instructions import target_features

WIDE = PANEL_BYTES // 8
KB = 2**10
KINDS = pytest.mark.parametrize("kind", [np.float32, pytest.param(np.float64, marks=pytest.mark.repeats)])
"""Runs use float32, whose code set-up has compiled. The same code is tested in float64 where it changed."""


def exactness(kind: type, depth: int) -> float:
    """Return the possible error of sums of this many products of normal numbers."""
    return 10 * float(np.finfo(kind).eps) * depth


@pytest.fixture
def blocks():
    """Set the block sizes until the end of the test."""
    yield use
    use(BLOCKS)


@KINDS
@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS, 2 * ROWS + 1, 20 * ROWS + 3])
@pytest.mark.parametrize("depth", [1, SUMMED, 2 * SUMMED + 1])
@pytest.mark.parametrize("columns", [1, WIDE - 1, WIDE, 2 * WIDE + 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_product_is_added(kind: type, rows: int, depth: int, columns: int, transposed: bool) -> None:
    random = np.random.default_rng(rows * depth + columns)
    shapes = ((depth, rows) if transposed else (rows, depth), (depth, columns), (rows, columns))
    a, b, before = (random.standard_normal(shape).astype(kind) for shape in shapes)
    a, out = a.T if transposed else a, before.copy()
    add_product(a, packed(b), out)
    exact = before.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(out, exact, rtol=0, atol=exactness(kind, depth))


@KINDS
@pytest.mark.parametrize("columns", [1, 7, 8, 9, WIDE - 1, WIDE, WIDE + 1, WIDE + 9, 5 * WIDE])
@pytest.mark.parametrize("depth", [1, 7, 8, 9, 15, 17])
def test_transposed_matrix_is_packed_as_a_copy(kind: type, columns: int, depth: int) -> None:
    random = np.random.default_rng(0)
    whole = random.standard_normal((2 * columns + 1, depth + 3)).astype(kind)
    for matrix in (np.ascontiguousarray(whole[:columns, :depth]).T, whole[1::2, 2 : depth + 2].T, whole[:columns].T):
        expected = packed(np.ascontiguousarray(matrix))
        assert expected.any()
        np.testing.assert_array_equal(packed(matrix), expected)


@KINDS
@pytest.mark.parametrize("rows", [1, ROWS, ROWS + 5])
def test_width_of_last_panel_does_not_change_results(kind: type, rows: int) -> None:
    random, widest = np.random.default_rng(rows), PANEL_BYTES // np.dtype(kind).itemsize - 1
    a, b = random.standard_normal((rows, SUMMED + 9)).astype(kind), random.standard_normal((SUMMED + 9, widest))
    expected = np.zeros((rows, widest), kind)
    add_product(a, packed(b.astype(kind)), expected)
    np.testing.assert_allclose(expected, a @ b, rtol=1e-3, atol=1e-3)
    for columns in range(1, widest):
        found = np.zeros((rows, columns + 3), kind)
        add_product(a, packed(b[:, :columns].astype(kind)), found[:, 1:-2])
        np.testing.assert_array_equal(found[:, 1:-2], expected[:, :columns])
        assert not found[:, [0, -2, -1]].any()


@KINDS
@pytest.mark.parametrize(("depth", "rows"), [(1, 1), (SUMMED + 7, 31), (2 * SUMMED, 2 * ROWS), (5, 40 * ROWS + 3)])
@pytest.mark.parametrize("columns", [3, WIDE, 5 * WIDE + 9])
def test_product_of_columns_is_bitwise_the_transposed_product(
    blocks, kind: type, depth: int, rows: int, columns: int
) -> None:
    random = np.random.default_rng(0)
    a, b, before = (
        random.standard_normal(each).astype(kind) for each in ((depth, rows), (depth, columns), (rows, columns))
    )
    expected = before.copy()
    add_product(a.T, packed(b), expected)
    assert np.abs(expected - before).max() > 0
    for sizes in (BLOCKS, Blocks(48, 64 * KB), Blocks(1, 1)):
        blocks(sizes)
        found = before.copy()
        for first, stop in ((0, rows // 3), (rows // 3, rows)):
            add_product_of_columns(a, first, stop, packed(b), found)
        np.testing.assert_array_equal(found, expected)
    some = before.copy()
    add_product_of_columns(a, rows // 2, rows, packed(b), some)
    np.testing.assert_array_equal(some[: rows // 2], before[: rows // 2])


def test_single_precision_error_is_bounded() -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((ROWS + 1, 300), (300, 100)))
    out = np.zeros((len(a), 100), np.float32)
    add_product(a, packed(b), out)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(out - exact).max() < 300 * np.finfo(np.float32).eps * 10


@pytest.mark.parametrize(("rows", "depth", "columns"), [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_empty_product_adds_nothing(rows: int, depth: int, columns: int) -> None:
    out = np.ones((rows, columns), np.float32)
    add_product(np.ones((rows, depth), np.float32), packed(np.ones((depth, columns), np.float32)), out)
    np.testing.assert_array_equal(out, np.ones((rows, columns)))


def test_non_finite_number_affects_only_its_row_and_column() -> None:
    a, b = np.ones((ROWS + 2, 5), np.float32), np.ones((5, WIDE + 2), np.float32)
    a[3, 1], b[2, WIDE + 1] = np.nan, np.inf
    out = np.zeros((len(a), b.shape[1]), np.float32)
    add_product(a, packed(b), out)
    bad = np.zeros(out.shape, bool)
    bad[3], bad[:, WIDE + 1] = True, True
    np.testing.assert_array_equal(np.isfinite(out), ~bad)


def test_views_are_read_and_written_within_bounds() -> None:
    random = np.random.default_rng(0)
    whole, out = random.standard_normal((20, 30)).astype(np.float32), np.zeros((20, 60), np.float32)
    b = random.standard_normal((7, 40)).astype(np.float32)
    add_product(whole[2:16, 4:11], packed(b), out[3:17, 5:45])
    expected = np.zeros(out.shape)
    expected[3:17, 5:45] = whole[2:16, 4:11] @ b
    np.testing.assert_allclose(out, expected, rtol=0, atol=exactness(np.float32, 7))
    assert not out[expected == 0].any(), "nothing is written beside it"


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 7, 3), (ROWS + 5, SUMMED + 11, 400), (317, 1000, 100)])
def test_block_sizes_do_not_change_results(blocks, rows: int, depth: int, columns: int, transposed: bool) -> None:
    random = np.random.default_rng(0)
    a = random.standard_normal((depth, rows) if transposed else (rows, depth)).astype(np.float32)
    b, before = (random.standard_normal(shape).astype(np.float32) for shape in ((depth, columns), (rows, columns)))
    panels, found = packed(b), []
    for sizes in (BLOCKS, Blocks(SUMMED, 2**30), Blocks(16, 1), Blocks(48, 64 * KB), Blocks(1, 2**18)):
        blocks(sizes)
        out = before.copy()
        add_product(a.T if transposed else a, panels, out)
        found.append(out)
    assert np.abs(found[0] - before).max() > 0.1
    for other in found[1:]:
        np.testing.assert_array_equal(other.view(np.int32), found[0].view(np.int32))


PANELS = pytest.mark.parametrize("panel", [32, 64, 128])
"""Bytes of a panel with SSE, AVX2 and AVX-512: block sizes are tested for all three on every processor."""


@PANELS
@pytest.mark.parametrize("first", [4 * KB, 16 * KB, 24 * KB, 32 * KB, 48 * KB, 64 * KB, 128 * KB])
def test_blocks_fill_three_quarters_of_the_caches(monkeypatch, panel: int, first: int) -> None:
    monkeypatch.setattr(gemm, "PANEL_BYTES", panel)
    found, row = Blocks.that_fit(first, 1024 * KB), panel + 64
    parts = math.ceil(SUMMED / found.depth)
    assert found.depth == math.ceil(SUMMED / parts), "blocks are equal but for the last one"
    assert found.depth * row <= 3 * first / 4
    assert parts == 1 or math.ceil(SUMMED / (parts - 1)) * row > 3 * first / 4, "one block less would not fit"
    assert found.room == 768 * KB


@PANELS
def test_hyper_threads_share_the_cache(monkeypatch, panel: int) -> None:
    monkeypatch.setattr(gemm, "PANEL_BYTES", panel)
    alone, shared = Blocks.that_fit(32 * KB, 1024 * KB), Blocks.that_fit(16 * KB, 512 * KB)
    assert shared.depth < alone.depth
    assert shared.room == alone.room / 2


def test_zero_cache_gives_valid_blocks() -> None:
    assert Blocks.that_fit(0, 0) == Blocks(1, 0)


def test_target_features_equal_numba() -> None:
    assert target_features(None) == dict(llvm.get_host_cpu_features())
    assert target_features("+avx2,-avx512f") == {"avx2": True, "avx512f": False}
    assert target_features("") == {}, "what NUMBA_CPU_NAME=generic stands for"
