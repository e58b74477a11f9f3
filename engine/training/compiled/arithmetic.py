"""Scalar functions of the layers, compiled. Everything works in float32 and, for tests, in float64."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numba import njit, prange, types
from numba.extending import overload

from engine.gemm import PANEL_BYTES, ROWS, add_product, packed

ARITHMETIC = {"contract", "nsz", "arcp"}
"""Fast-math flags that preserve NaN and ∞, since a gradient that is not finite must be detected."""
PARTS = 8
"""Number of parts of a batch, each with every eighth sentence; also the largest number of cores in use."""
_FEW = 4
"""Tiles of rows that an affine map processes at a time."""
_WORTH_SHARING = 2**24
"""Fewest multiplications of a product that is split between cores: some tenths of a millisecond on one core."""


@njit(cache=True, fastmath=ARITHMETIC, error_model="numpy")
def _rational_tanh(x):  # type: ignore[no-untyped-def]
    """Return tanh in float32 within 4e-7, without a call, so that loops over it vectorise; NaN stays NaN.

    It is the minimax rational function of degree 13 over 6 that Eigen uses (MathFunctionsImpl.h), cut at ±7.9.
    """
    y = np.float32(7.905311) if x > np.float32(7.905311) else x
    y = np.float32(-7.905311) if y < np.float32(-7.905311) else y
    s = y * y
    up = np.float32(-2.76076847742355e-16)
    up = up * s + np.float32(2.00018790482477e-13)
    up = up * s + np.float32(-8.60467152213735e-11)
    up = up * s + np.float32(5.12229709037114e-08)
    up = up * s + np.float32(1.48572235717979e-05)
    up = up * s + np.float32(6.37261928875436e-04)
    up = up * s + np.float32(4.89352455891786e-03)
    down = np.float32(1.19825839466702e-06)
    down = down * s + np.float32(1.18534705686654e-04)
    down = down * s + np.float32(2.26843463243900e-03)
    down = down * s + np.float32(4.89352518554385e-03)
    return y * up / down


def tanh(x: float) -> float:
    """Return tanh of a number: exact in float64, fast in float32."""
    return math.tanh(x)


@overload(tanh, jit_options={"fastmath": ARITHMETIC})
def _choose_tanh(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return lambda x: _rational_tanh(x)
    return lambda x: math.tanh(x)


@njit(cache=True, fastmath=ARITHMETIC)
def squash(x, half):  # type: ignore[no-untyped-def]
    """Return the logistic function of x; ``half`` is ½ in the dtype of x, so that no value is widened."""
    return half + half * tanh(half * x)


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def affine(inputs, kernel, bias, out):  # type: ignore[no-untyped-def]
    """Compute out = inputs · kernel + bias, [N, I] · [I, O] + [O].

    It processes a few rows at a time, which are still in the first-level cache when the product is added.
    """
    panels = packed(kernel)
    for first in range(0, out.shape[0], _FEW * ROWS):
        stop = min(first + _FEW * ROWS, out.shape[0])
        for row in range(first, stop):
            for j in range(out.shape[1]):
                out[row, j] = bias[j]
        add_product(inputs[first:stop], panels, out[first:stop])


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def product(a, b):  # type: ignore[no-untyped-def]
    """Return a · b, [M, K] · [K, O]; either may be transposed."""
    out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    add_product(a, packed(b), out)
    return out


@njit(cache=True, nogil=True, parallel=True)
def add_shared(a, panels, out):  # type: ignore[no-untyped-def]
    """Compute :func:`add_product` with its rows split between the cores if the product is large enough.

    The result is the same to the last digit, since each row is summed separately. Do not call it within a parallel
    loop.
    """
    rows = out.shape[0]
    shares = min(PARTS, rows // ROWS) if rows * out.shape[1] * a.shape[1] >= _WORTH_SHARING else 1
    each = (rows + shares - 1) // shares if shares > 1 else rows
    each = (each + ROWS - 1) // ROWS * ROWS
    for share in prange(shares):
        first, stop = share * each, min(rows, (share + 1) * each)
        if first < stop:
            add_product(a[first:stop], panels, out[first:stop])


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def affine_shared(inputs, kernel, bias, out):  # type: ignore[no-untyped-def]
    """Compute :func:`affine` with its rows split between the cores."""
    for row in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[row, j] = bias[j]
    add_shared(inputs, packed(kernel), out)


def columns_of_product(
    multiply: Callable[..., np.ndarray], kernels: Sequence[np.ndarray], slope: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """Return some columns of ``multiply(*kernels, slope)``, which is [N, I].

    They are the same to the last digit, since whole panels are computed, each as wide as in the full product.

    Args:
        multiply: The product.
        kernels: Kernels, [I, O] each.
        slope: dL/doutputs.
        wanted: Columns, int [m], ascending.
    """
    inputs, wide = len(kernels[0]), PANEL_BYTES // slope.itemsize
    if len(wanted) == inputs:
        return multiply(*kernels, slope)
    columns = (np.unique(wanted // wide)[:, None] * wide + np.arange(wide)).ravel()
    columns = columns[columns < inputs]
    found = multiply(*(kernel[columns] for kernel in kernels), slope)
    return np.take(found, np.searchsorted(columns, wanted), axis=1)


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def square_by_tokens(inside, slopes):  # type: ignore[no-untyped-def]
    """Return Σ_{t,s} (a_t · a_s + 1)(dz_t · dz_s) from a·aᵀ [L, L] and dz [L, O].

    This is the squared norm of an affine map's gradient, including the bias, from two small Gram matrices ("ghost
    norm", Li et al. 2022, section 4).
    """
    outside = product(slopes, slopes.T)
    total = 0.0
    for t in range(inside.shape[0]):
        for s in range(inside.shape[0]):
            total += (inside[t, s] + 1.0) * outside[t, s]
    return total


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def square_by_weights(inputs, slopes):  # type: ignore[no-untyped-def]
    """Return the squared norm of Σ_t a_t ⊗ dz_t from the whole gradient; inputs [L, I], slopes [L, O].

    Its time is linear in L.
    """
    gradient = product(inputs.T, slopes)
    total = 0.0
    for i in range(gradient.shape[0]):
        for j in range(gradient.shape[1]):
            total += gradient[i, j] * gradient[i, j]
    return total


@njit(cache=True, nogil=True, fastmath=ARITHMETIC)
def square_of_bias(slopes):  # type: ignore[no-untyped-def]
    """Return the squared norm of Σ_t dz_t; slopes [L, O]."""
    summed = np.zeros(slopes.shape[1], slopes.dtype)
    for t in range(slopes.shape[0]):
        for j in range(slopes.shape[1]):
            summed[j] += slopes[t, j]
    total = 0.0
    for j in range(summed.size):
        total += summed[j] * summed[j]
    return total
