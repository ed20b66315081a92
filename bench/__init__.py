"""Benchmarks. Each is a module to run, and writes the table that is committed beside it."""
