"""Benchmarks. Each is a module to run; its results are in the `.md` file beside it."""
