"""Benchmarks by name: which data, how they are measured, what is expected."""
