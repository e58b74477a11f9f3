"""Speed against peers, one command each: ``python -m benchmarks.step``."""
