"""Rows of a feature table for a batch.

Contextual features are stored as bfloat16, in half the memory (:func:`engine.embeddings.features.narrow`). The lookup
widens them to float32 by a shift.
"""

import numpy as np
from numba import njit, prange


def rows_of(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the rows (int [n]) of a table [rows, D], float32 or uint16 from ``narrow``, as float32 [n, D]."""
    if table.dtype != np.uint16:
        return np.asarray(table[rows])
    bits = np.empty((len(rows), table.shape[1]), np.uint32)
    _gather(np.asarray(table), rows.astype(np.int64), bits)
    return bits.view(np.float32)


@njit(cache=True, nogil=True, parallel=True)
def _gather(table, rows, bits):  # type: ignore[no-untyped-def]
    for n in prange(rows.size):
        row = rows[n]
        for j in range(bits.shape[1]):
            bits[n, j] = np.uint32(table[row, j]) << np.uint32(16)


def compile_gathering() -> None:
    """Compile for read-only tables, as they are read from disk, and cache the result on disk."""
    table = np.zeros((2, 3), np.uint16)
    table.flags.writeable = False
    rows_of(table, np.zeros(1, np.int64))
