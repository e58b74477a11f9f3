"""Computations of the lessons: attacks, mechanisms and their guarantees, fast enough for interactive use."""
