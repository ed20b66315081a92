"""Plain models for clients: versions, requests, streams.

`calculators.tensors.openvino` loads and runs the models.
"""
