"""Plain models for clients: versions, requests, streams.

`calculators.openvino` loads and runs the models.
"""
