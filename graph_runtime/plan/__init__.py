"""Checks of a config and the frozen plan they make: registry, subgraphs, node order, executors."""
