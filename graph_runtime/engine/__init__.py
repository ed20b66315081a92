"""A run of a plan: the scheduler that does no I/O, and the drivers that make its calls."""
