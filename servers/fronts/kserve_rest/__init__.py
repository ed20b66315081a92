"""KServe's protocol, version 2, as JSON with binary data behind it: bodies and what they say.

A front takes a body apart with `split_body`, parses its head with the parser of all bodies, reads
it with `read_layout`, fills in the rest, and sends what `encode_response` makes. Beside inferences
there are Triton's extensions ``generate`` and ``model_repository``, and the metadata of models.
"""

from servers.fronts.kserve_rest.binary_outputs import BinaryOutputs
from servers.fronts.kserve_rest.generate_codec import decode_generate, encode_generated
from servers.fronts.kserve_rest.metadata import describe_model
from servers.fronts.kserve_rest.repository import (
    check_load,
    check_unload,
    decode_index,
    encode_index,
)
from servers.fronts.kserve_rest.request_layout import RequestLayout, read_layout
from servers.fronts.kserve_rest.response_codec import RestResponse, encode_response
from servers.fronts.kserve_rest.split_body import LENGTH_HEADER, split_body

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
