"""From a config to a checked, frozen plan: registry, subgraphs, node order, executors."""
