"""Plain models as clients know them: versions, requests, streams.

`calculators.openvino` loads and runs them.
"""
