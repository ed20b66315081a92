"""Decoding of token ids to text, incrementally, at the cost of a table lookup."""
