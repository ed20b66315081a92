"""An inference as every front and every graph may know it: named tensors in, named tensors out.

The nouns of KServe's protocol, version 2, without its two wires: `servers.kserve_grpc` and
`servers.kserve_rest` make them from messages and bodies, and the other way round.
"""

from servers.inference.datatype import Datatype
from servers.inference.infer_request import InferRequest, RequestedOutput
from servers.inference.infer_response import InferResponse
from servers.inference.parameter import Parameter, Parameters
from servers.inference.tensor import Tensor

__all__ = [
    "Datatype",
    "InferRequest",
    "InferResponse",
    "Parameter",
    "Parameters",
    "RequestedOutput",
    "Tensor",
]
