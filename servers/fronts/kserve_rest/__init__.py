"""KServe's protocol, version 2, over REST: bodies of JSON, followed by binary data.

A front splits a body with `split_body`, parses its head with the parser of all bodies, reads the
value with `read_layout`, fills in the binary data, and sends the body of `encode_response`. Besides
inferences there are Triton's extensions ``generate`` and ``model_repository``, and the metadata of
models.
"""

from servers.fronts.kserve_rest.generate_codec import decode_generate, encode_generated
from servers.fronts.kserve_rest.inference_codec import (
    LENGTH_HEADER,
    RequestLayout,
    RestResponse,
    check_load,
    check_unload,
    decode_index,
    describe_model,
    encode_index,
    encode_response,
    read_layout,
    split_body,
)
from servers.fronts.kserve_rest.json_tensors import BinaryOutputs

__all__ = [
    "LENGTH_HEADER",
    "BinaryOutputs",
    "RequestLayout",
    "RestResponse",
    "check_load",
    "check_unload",
    "decode_generate",
    "decode_index",
    "describe_model",
    "encode_generated",
    "encode_index",
    "encode_response",
    "read_layout",
    "split_body",
]
