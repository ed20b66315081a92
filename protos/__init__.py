"""The wire contracts: ``.proto`` text, its descriptor set, and the pool they live in."""
