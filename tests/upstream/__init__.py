"""Faults of libraries that graphrt works around, each shown without graphrt.

A test that fails here shows that a fault is fixed: its workaround can be removed.
"""
