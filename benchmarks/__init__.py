"""Benchmarks, one command each: ``python -m benchmarks.step``."""
