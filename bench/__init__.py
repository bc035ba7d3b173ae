"""Side-by-side benchmarks: one module each, run as python -m bench.NAME."""
