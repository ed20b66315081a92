"""Tests of what a server counts."""
