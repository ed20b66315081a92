"""Inference as fronts and graphs share it: named tensors in, named tensors out.

The nouns of KServe's protocol, version 2, without its two wire formats: the fronts convert them
from and to messages and bodies.
"""

from calculators.tensors.inference.datatype import Datatype
from calculators.tensors.inference.infer_request import InferRequest, RequestedOutput
from calculators.tensors.inference.infer_response import InferResponse
from calculators.tensors.inference.parameter import Parameter, Parameters
from calculators.tensors.inference.tensor import CustomTensor, Tensor

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
