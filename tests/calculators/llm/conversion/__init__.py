"""Tests of `calculators.llm.conversion`."""
