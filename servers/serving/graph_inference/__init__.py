"""Graphs served over KServe: tensors become input packets, output packets become tensors.

A `GraphInterface` describes the inputs and outputs of a loaded graph. `infer_once` runs a graph for
one request, a `GraphStream` for many.
"""
