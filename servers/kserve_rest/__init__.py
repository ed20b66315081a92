"""KServe's protocol, version 2, as JSON with binary data behind it: bodies and what they say.

A front takes a body apart with `split_body`, parses its head with the parser of all bodies, gives
both to `decode_request`, and sends what `encode_response` makes.
"""

from servers.kserve_rest.binary_outputs import BinaryOutputs
from servers.kserve_rest.request_codec import RestRequest, decode_request
from servers.kserve_rest.response_codec import RestResponse, encode_response
from servers.kserve_rest.split_body import split_body

__all__ = [
    "BinaryOutputs",
    "RestRequest",
    "RestResponse",
    "decode_request",
    "encode_response",
    "split_body",
]
