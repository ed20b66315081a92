"""Declarations of what an operator may set: one frozen dataclass per family, flags included."""
