"""Conversion of tokens to answers: choices, usage, finish reasons, log-probabilities."""
