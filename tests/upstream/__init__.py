"""Faults of libraries that graphrt works around, each shown without graphrt.

A test that fails here means that a fault is mended: what works around it can go.
"""
