"""Declarations of options for operators: one frozen dataclass per family, flags included."""
