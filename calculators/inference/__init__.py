"""An inference as every front and every graph may know it: named tensors in, named tensors out.

The nouns of KServe's protocol, version 2, without its two wires: `servers.fronts.kserve_grpc` and
`servers.fronts.kserve_rest` make them from messages and bodies, and the other way round.
"""

from calculators.inference.datatype import Datatype
from calculators.inference.infer_request import InferRequest, RequestedOutput
from calculators.inference.infer_response import InferResponse
from calculators.inference.parameter import Parameter, Parameters
from calculators.inference.tensor import CustomTensor, Tensor

__all__ = [
    "CustomTensor",
    "Datatype",
    "InferRequest",
    "InferResponse",
    "Parameter",
    "Parameters",
    "RequestedOutput",
    "Tensor",
]
