"""The innermost instruction of a matrix product in LLVM IR: a product added to a sum, in each lane of a vector.

For floating-point numbers it is a fused multiply-add. For whole numbers, a lane holds four bytes, and their four
products are added to a sum of 32 bits. Those of the first factor are unsigned, those of the second signed, as in the
instructions of x86 processors. Sums of whole numbers are exact, so results do not depend on the processor.
"""

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config
from numba.core import cgutils

LARGEST_SIGNED = 63
"""Largest magnitude of a signed byte.

Processors without VNNI add pairs of products in 16 bits: 2 · 255 · 63 fits, 2 · 255 · 127 does not.
"""
_VNNI = {64: ("avx512vnni",), 32: ("avx512vnni", "avx512vl"), 16: ("avx512vnni", "avx512vl")}
"""Features of a processor that adds four products in one instruction, by bytes of a vector."""
_PAIRS = {
    64: ("avx512bw", "avx512.pmaddubs.w.512", "avx512.pmaddw.d.512"),
    32: ("avx2", "avx2.pmadd.ub.sw", "avx2.pmadd.wd"),
    16: ("ssse3", "ssse3.pmadd.ub.sw.128", "sse2.pmadd.wd"),
}
"""Feature of the processor and instructions that add pairs: of products of bytes, then of numbers of 16 bits."""


def target_features(override: str | None) -> dict[str, bool]:
    """Return the features that Numba compiles for: ``override`` as in ``NUMBA_CPU_FEATURES``, or else the host's."""
    if override is None:
        return dict(llvm.get_host_cpu_features())
    return {name[1:]: name[0] == "+" for name in override.split(",") if name}


FEATURES = target_features(config.CPU_FEATURES)  # type: ignore[attr-defined]


def add_products(builder: Any, first: Any, second: Any, total: Any) -> Any:
    """Emit the addition of the products of two vectors to a third one of the same type; return the sum.

    Args:
        builder: Builder of LLVM IR.
        first: Vector of floating-point numbers, or of 32 bits with four unsigned bytes each.
        second: Vector of the same type; its bytes are signed, at most ``LARGEST_SIGNED`` in magnitude.
        total: Vector to add to.
    """
    vector = total.type
    if not isinstance(vector.element, ir.IntType):
        name = f"llvm.fma.v{vector.count}f{32 if isinstance(vector.element, ir.FloatType) else 64}"
        return builder.call(_declared(builder, name, vector, [vector] * 3), [first, second, total])
    size = 4 * vector.count
    if size in _VNNI and all(FEATURES.get(feature) for feature in _VNNI[size]):
        name = f"llvm.x86.avx512.vpdpbusd.{8 * size}"
        return builder.call(_declared(builder, name, vector, [vector] * 3), [total, first, second])
    if size in _PAIRS and FEATURES.get(_PAIRS[size][0]):
        return builder.add(total, _added_pairs(builder, first, second, size))
    return _one_by_one(builder, first, second, total)


def _declared(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def _added_pairs(builder: Any, first: Any, second: Any, size: int) -> Any:
    """Emit the sums of four products of bytes each, by instructions for pairs."""
    _, of_bytes, of_sums = _PAIRS[size]
    whole = ir.VectorType(ir.IntType(8), size)
    half = ir.VectorType(ir.IntType(16), size // 2)
    factors = [builder.bitcast(each, whole) for each in (first, second)]
    pairs = builder.call(_declared(builder, f"llvm.x86.{of_bytes}", half, [whole] * 2), factors)
    ones = ir.Constant(half, [1] * half.count)
    return builder.call(_declared(builder, f"llvm.x86.{of_sums}", first.type, [half] * 2), [pairs, ones])


def _one_by_one(builder: Any, first: Any, second: Any, total: Any) -> Any:
    """Emit the same for any processor: one of the four bytes of all lanes at a time."""

    def every(number: int) -> Any:
        return ir.Constant(total.type, [number] * total.type.count)

    for place in range(4):
        unsigned = builder.and_(builder.lshr(first, every(8 * place)), every(255))
        signed = builder.ashr(builder.shl(second, every(24 - 8 * place)), every(24))
        total = builder.add(total, builder.mul(unsigned, signed))
    return total
