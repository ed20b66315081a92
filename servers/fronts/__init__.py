"""Fronts, each named for the protocol that it speaks."""
