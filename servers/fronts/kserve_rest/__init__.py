"""KServe's protocol, version 2, over REST: bodies of JSON, followed by binary data.

A front splits a body with `split_body`, parses its head with the parser of all bodies, reads the
value with `read_layout`, fills in the binary data, and sends the body of `encode_response`. Besides
inferences there are Triton's extensions ``generate`` and ``model_repository``, and the metadata of
models.
"""
