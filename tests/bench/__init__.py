"""Benchmarks whose figures follow from code: models and simulations."""
