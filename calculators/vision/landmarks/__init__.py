"""Landmarks as packets, and calculators on them."""
