"""Matrix products of the sizes of a step, on one core, with the processor's widest vectors.

The recurrence multiplies a few rows by the same matrix at every time step. A BLAS packs that matrix at each call, which
takes longer than the product; here :func:`packed` packs it once. The inner loop is the usual one (Goto and van de Geijn
2008, "Anatomy of high-performance matrix multiplication"): a tile of the result stays in registers during the loop over
columns of ``a`` and rows of ``b``. It is written in LLVM IR, since a loop in Python would keep the tile in memory.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.hardware import processor
from engine.instructions import FEATURES, add_products

_VECTOR_BYTES = 64 if FEATURES.get("avx512f") else 32 if FEATURES.get("avx2") else 16
# A tile, a row of b and one number of a fill the registers: 32 with AVX-512, otherwise 16.
ROWS, _ACROSS = (12, 2) if FEATURES.get("avx512f") else (6, 2)
PANEL_BYTES = _ACROSS * _VECTOR_BYTES
"""Width of a panel of a packed matrix, in bytes."""
_LINE_BYTES = 64
SUMMED = 384
"""Rows of a matrix's last, narrow panel that are summed before the sum is added to the result.

The number affects the results of runs, since sums are rounded there. The sums of other panels continue from memory
unchanged, so the depth of blocks, which is at most this, does not affect results.
"""
_SIDE = 8
"""Side of the square of numbers that is transposed in registers."""
_LED = 4
"""Rows of ``a`` for each pointer."""
_INDEX = ir.IntType(64)


@dataclass(frozen=True)
class Blocks:
    """Sizes of the blocks that are processed at a time.

    Attributes:
        depth: Rows of a panel in the loop of a tile.
        room: Bytes for the rows of ``a`` and of the result that are multiplied by all panels before the next rows.
    """

    depth: int
    room: int

    @classmethod
    def that_fit(cls, first: int, second: int) -> "Blocks":
        """Return the blocks for the caches of a thread.

        The rows of a panel stay in the first-level cache during the loop over rows of ``a``, whose columns may each lie
        in a separate cache line. A quarter of each cache remains for other data: the tile and the other panels.

        Args:
            first: Bytes of the first-level data cache.
            second: Bytes of the second-level cache.
        """
        deepest = max(1, 3 * first // 4 // (PANEL_BYTES + _LINE_BYTES))
        parts = -(-SUMMED // deepest)
        return cls(-(-SUMMED // parts), 3 * second // 4)


def use(blocks: Blocks) -> None:
    """Use these blocks from the next product on, in all threads. The results do not depend on them."""
    _blocks[:] = [blocks.depth, blocks.room]


# Compiled code is cached on disk and may run on a machine with other caches, so it reads the sizes at run time.
_blocks = (ctypes.c_int64 * 2)()
llvm.add_symbol("epsilon_blocks", ctypes.addressof(_blocks))
BLOCKS = Blocks.that_fit(processor().first_cache, processor().second_cache)
"""Blocks for this machine."""
use(BLOCKS)


@intrinsic
def _block(typing_context: Any, number: Any) -> Any:
    """Return the depth (0) or the room (1) of the blocks in use."""
    kind = ir.ArrayType(_INDEX, 2)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sizes = context.get_c_value(builder, kind, "epsilon_blocks")
        return builder.load(builder.gep(sizes, [_INDEX(0), arguments[0]]))

    return types.intp(types.intp), codegen


@njit(cache=True, nogil=True)
def packed(matrix):  # type: ignore[no-untyped-def]
    """Return a matrix [K, O] as panels of W columns, [P, K, W]; the last panel is padded with zeros."""
    depth, columns = matrix.shape
    wide = PANEL_BYTES // matrix.itemsize
    whole = columns // wide
    panels = np.empty(((columns + wide - 1) // wide, depth, wide), matrix.dtype)
    rest = panels[whole:]
    if matrix.strides[0] == matrix.itemsize and depth >= _SIDE:
        for p in range(whole):
            _transpose(matrix, p * wide, wide, panels[p])
        for panel in rest:
            panel[:] = 0
            _transpose(matrix, whole * wide, columns - whole * wide, panel)
        return panels
    for k in range(depth):  # row after row, as they lie in memory: panel after panel takes twice as long
        for p in range(whole):
            line, part = panels[p, k], matrix[k, p * wide : (p + 1) * wide]
            for j in range(wide):
                line[j] = part[j]
        for panel in rest:
            line, part = panel[k], matrix[k, whole * wide :]
            line[:] = 0
            for j in range(part.size):
                line[j] = part[j]
    return panels


@njit(cache=True, nogil=True)
def _transpose(matrix, first, columns, panel):  # type: ignore[no-untyped-def]
    """Assign panel[:, : columns] = matrix[:, first : + columns].

    The columns of ``matrix`` are contiguous and have at least 8 rows.
    """
    depth = matrix.shape[0]
    if columns >= _SIDE:
        for across in range(0, columns, _SIDE):
            for down in range(0, depth, _SIDE):  # the last squares reach back over those before
                k, j = min(down, depth - _SIDE), min(across, columns - _SIDE)
                _copy_square(matrix, k, first + j, panel, j)  # type: ignore[call-arg]
    else:
        for k in range(depth):
            for j in range(columns):
                panel[k, j] = matrix[k, first + j]


@intrinsic
def _copy_square(typing_context: Any, matrix: Any, k: Any, column: Any, panel: Any, j: Any) -> Any:
    """Assign panel[k : + 8, j : + 8] = matrix[k : + 8, column : + 8], where the columns of ``matrix`` are contiguous.

    Eight columns are read as vectors. They exchange halves, quarters and eighths, each time half of all numbers, until
    they are rows. Copying one number at a time takes three times as long. Bounds are not checked.
    """
    whole = types.intp
    signature = types.void(matrix, whole, whole, panel, whole)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = (_Strided(context, builder, signature.args[at], arguments[at]) for at in (0, 3))
        bytes_each = context.get_abi_sizeof(source.number)
        wide = ir.VectorType(source.number, _SIDE).as_pointer()

        def lanes(numbers: list[int]) -> Any:
            return ir.Constant(ir.VectorType(ir.IntType(32), _SIDE), numbers)

        def places(array: _Strided, row: Any, column: Any, along: int) -> list[Any]:
            first, step = array.address(builder, row, column), array.steps[along]
            each = (builder.add(first, builder.mul(step, _INDEX(number))) for number in range(_SIDE))
            return [builder.inttoptr(place, wide) for place in each]

        rows = [builder.load(place, align=bytes_each) for place in places(source, arguments[1], arguments[2], 1)]
        for bit in (1, 2, 4):
            upper = lanes([lane ^ bit | _SIDE if lane & bit else lane for lane in range(_SIDE)])
            lower = lanes([lane | _SIDE if lane & bit else lane | bit for lane in range(_SIDE)])
            for one, other in ((number, number | bit) for number in range(_SIDE) if not number & bit):
                both = rows[one], rows[other]
                rows[one], rows[other] = builder.shuffle_vector(*both, upper), builder.shuffle_vector(*both, lower)
        for row, place in zip(rows, places(target, arguments[1], arguments[4], 0), strict=True):
            builder.store(row, place, align=bytes_each)
        return context.get_dummy_value()

    return signature, codegen


@njit(cache=True, nogil=True)
def add_product(a, panels, out):  # type: ignore[no-untyped-def]
    """Add a · b to out [M, O]: a [M, K] may be transposed, b [K, O] is packed, the rows of ``out`` are contiguous."""
    height = _height(a.shape[1], out)
    for begin in range(0, a.shape[1], SUMMED):
        deep = min(SUMMED, a.shape[1] - begin)
        for top in range(0, a.shape[0], height):
            _add_rows(a, top, begin, panels, begin, deep, out, top, min(height, a.shape[0] - top))


@njit(cache=True, nogil=True)
def add_product_of_columns(a, first, stop, panels, out):  # type: ignore[no-untyped-def]
    """Add aᵀ · b to the rows ``first`` … ``stop`` − 1 of out [M, O], with ``a`` [K, M].

    The result equals that of :func:`add_product` with ``a.T`` to the last digit. It is for a matrix with such long rows
    that each lies in a separate page, more than the processor's TLB holds. The part to process is first copied to a
    contiguous array.
    """
    height = _height(a.shape[0], out)
    beside = np.empty((min(SUMMED, a.shape[0]), min(height, stop - first)), a.dtype)
    for begin in range(0, a.shape[0], SUMMED):
        deep = min(SUMMED, a.shape[0] - begin)
        for top in range(first, stop, height):
            rows = min(height, stop - top)
            for k in range(deep):
                line, part = beside[k], a[begin + k, top : top + rows]
                for i in range(rows):
                    line[i] = part[i]
            _add_rows(beside.T, 0, 0, panels, begin, deep, out, top, rows)


@njit(cache=True, nogil=True)
def _height(depth, out):  # type: ignore[no-untyped-def]
    """Return the number of rows of the result that are processed at a time."""
    row_bytes = (min(SUMMED, depth) + out.shape[1]) * out.itemsize
    return max(1, _block(1) // (row_bytes * ROWS)) * ROWS  # type: ignore[call-arg]


@njit(cache=True, nogil=True)
def _add_rows(a, row, column, panels, line, deep, out, top, rows):  # type: ignore[no-untyped-def]
    """Add a[row : + rows, column : + deep] · b[line : + deep] to out[top : + rows], with b packed."""
    wide = panels.shape[2]
    whole = out.shape[1] // wide
    depth = _block(0)  # type: ignore[call-arg, var-annotated]
    for start in range(0, deep, depth):
        some = min(depth, deep - start)
        for p in range(whole):
            for i in range(0, rows, ROWS):
                few = min(ROWS, rows - i)
                at = line + start
                _add_tile(a, row + i, column + start, some, panels, p, at, out, top + i, p * wide, few, 2 * _ACROSS)
    if whole < panels.shape[0]:
        _add_edge(a, row, column, panels, line, deep, out, top, rows)


@njit(cache=True, nogil=True)
def _add_edge(a, row, column, panels, line, deep, out, top, rows):  # type: ignore[no-untyped-def]
    """Add the product with the last panel, which is wider than the rest of the result, through a separate tile.

    If a tile has all ROWS, half vectors of padding are skipped.
    """
    p, wide = panels.shape[0] - 1, panels.shape[2]
    columns = out.shape[1] - p * wide
    narrow = (2 * _ACROSS * columns + wide - 1) // wide
    edge = np.empty((ROWS, wide), out.dtype)
    for first in range(0, rows, ROWS):
        few = min(ROWS, rows - first)
        halves = narrow if few == ROWS else 2 * _ACROSS
        edge[:] = 0
        _add_tile(a, row + first, column, deep, panels, p, line, edge, 0, 0, few, halves)  # type: ignore[call-arg]
        for i in range(few):
            for j in range(columns):
                out[top + first + i, p * wide + j] += edge[i, j]


@intrinsic
def _add_tile(
    typing_context: Any,
    a: Any,
    row: Any,
    column: Any,
    depth: Any,
    panels: Any,
    panel: Any,
    line: Any,
    out: Any,
    out_row: Any,
    out_column: Any,
    rows: Any,
    halves: Any,
) -> Any:
    """Add a[row : + rows, column : + depth] · panels[panel, line : + depth] to out[out_row : + rows, out_column : + W].

    Only the first ``halves`` half vectors of a panel's columns are computed: all of them, or fewer if ``rows`` is ROWS.
    Loops for fewer of both would add a minute of compilation to set-up. 1 ≤ rows ≤ ROWS and depth ≥ 1; all indices must
    be inside the arrays, since bounds are not checked.
    """
    whole = types.intp
    signature = types.void(a, whole, whole, whole, panels, whole, whole, out, whole, whole, whole, whole)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        a, panels, out = (_Strided(context, builder, kinds[number], arguments[number]) for number in (0, 4, 7))
        first, depth = a.address(builder, *arguments[1:3]), arguments[3]
        line = panels.address(builder, *arguments[5:7])
        target = out.address(builder, *arguments[8:10])
        rows, halves = arguments[10:]
        done = builder.append_basic_block("done")
        choice = builder.switch(builder.add(rows, builder.mul(halves, _INDEX(ROWS))), done)
        for half in range(1, 2 * _ACROSS + 1):
            across = [out.lanes] * (half // 2) + [out.lanes // 2] * (half % 2)
            for count in range(1 if half == 2 * _ACROSS else ROWS, ROWS + 1):
                block = builder.append_basic_block(f"rows{count}halves{half}")
                choice.add_case(_INDEX(count + half * ROWS), block)
                builder.position_at_end(block)
                _multiply(builder, count, across, a, first, depth, line, out, target)
                builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return signature, codegen


class _Strided:
    """An array in LLVM IR: its address and the strides in bytes."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        array = context.make_array(kind)(context, builder, value)
        self.number = context.get_data_type(kind.dtype)
        self.lanes = _VECTOR_BYTES // context.get_abi_sizeof(self.number)
        self.start = builder.ptrtoint(array.data, _INDEX)
        self.steps = cgutils.unpack_tuple(builder, array.strides)
        # The stride of a contiguous axis is a constant, which needs no instruction in the inner loop.
        if kind.layout in "CF":
            self.steps[-1 if kind.layout == "C" else 0] = _INDEX(context.get_abi_sizeof(self.number))

    def address(self, builder: Any, *index: Any) -> Any:
        """Return the address of the element with this index; missing axes count as 0."""
        place = self.start
        for number, step in zip(index, self.steps, strict=False):
            place = builder.add(place, builder.mul(number, step))
        return place


def _multiply(
    builder: Any,
    rows: int,
    across: list[int],
    a: _Strided,
    first: Any,
    depth: Any,
    line: Any,
    out: _Strided,
    target: Any,
) -> None:
    """Emit the loop over the depth for one number of rows and for adjacent vectors of ``across`` numbers."""
    single, bytes_each = out.number.as_pointer(), _VECTOR_BYTES // out.lanes
    vectors = [ir.VectorType(out.number, lanes) for lanes in across]
    beyond = [sum(across[:part]) * bytes_each for part in range(len(across))]

    def at(place: Any, pointer: Any) -> Any:
        return builder.inttoptr(place, pointer)

    def opaque(number: Any) -> Any:
        return builder.asm(ir.FunctionType(_INDEX, [_INDEX]), "", "=r,0", [number], False)

    def spread(number: Any, vector: Any) -> Any:
        nothing = ir.Constant(vector, ir.Undefined)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
        return builder.shuffle_vector(builder.insert_element(nothing, number, ir.IntType(32)(0)), nothing, zeros)

    targets = [
        (builder.add(builder.add(target, builder.mul(out.steps[0], _INDEX(row))), _INDEX(bytes_before)), vector)
        for row in range(rows)
        for vector, bytes_before in zip(vectors, beyond, strict=True)
    ]
    # If the rows of a are not adjacent, every fourth row has a pointer, and the load instruction adds one or several
    # strides to it. A pointer for each row would need too many registers, or an addition for each number.
    starts = [opaque(builder.add(first, builder.mul(a.steps[0], _INDEX(row)))) for row in range(0, rows, _LED)]
    beside = [builder.mul(a.steps[0], _INDEX(row)) for row in range(_LED - 1)]
    beside.append(opaque(builder.mul(a.steps[0], _INDEX(_LED - 1))))
    before = [builder.load(at(place, vector.as_pointer()), align=bytes_each) for place, vector in targets]
    entry, loop, end = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("end")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(_INDEX)
    leads = [builder.phi(_INDEX) for _ in starts]
    sums = [builder.phi(vector) for _, vector in targets]
    here = builder.add(line, builder.mul(k, _INDEX(PANEL_BYTES)))
    factors = [
        builder.load(at(builder.add(here, _INDEX(bytes_before)), vector.as_pointer()), align=bytes_each)
        for vector, bytes_before in zip(vectors, beyond, strict=True)
    ]
    after = []
    for row in range(rows):
        number = builder.load(at(builder.add(leads[row // _LED], beside[row % _LED]), single))
        after += [
            add_products(builder, spread(number, vector), factor, total)
            for vector, factor, total in zip(vectors, factors, sums[row * len(across) :], strict=False)
        ]
    following = builder.add(k, _INDEX(1))
    moved = [builder.add(lead, a.steps[1]) for lead in leads]
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, end)
    k.add_incoming(_INDEX(0), entry)
    k.add_incoming(following, loop)
    for phi, old, new in zip([*leads, *sums], [*starts, *before], [*moved, *after], strict=True):
        phi.add_incoming(old, entry)
        phi.add_incoming(new, loop)
    builder.position_at_end(end)
    for (place, vector), new in zip(targets, after, strict=True):
        builder.store(new, at(place, vector.as_pointer()), align=bytes_each)
