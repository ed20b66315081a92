"""`PyTensorOvTensorConverterCalculator`: tensors of Python nodes for inference nodes, and back."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python.pyovms import DTYPES, Tensor
from graph_runtime import Calculator, CalculatorContext, CalculatorContract
from protos import messages

OPTIONS_TYPE = messages.PyTensorOvTensorConverterCalculatorOptions
ARRAY: Final = "OVTENSOR"
TENSOR: Final = "OVMS_PY_TENSOR"


class PyTensorOvTensorConverterCalculator(Calculator):
    """Makes an array of a `Tensor`, or a `Tensor` of an array; neither copies the data.

    Inputs and outputs, one of each: OVMS_PY_TENSOR, a `Tensor`, and OVTENSOR, a NumPy array.
    Options: ``tag_to_output_tensor_names``: the value for the key "OVMS_PY_TENSOR" is the name of
        the `Tensor`; needed in that direction.

    The array has the tensor's declared type and shape. Tensors of BYTES and other datatypes that
    are not numbers have no array (INVALID_ARGUMENT).

    ::

        node {
          calculator: "PyTensorOvTensorConverterCalculator"
          input_stream: "OVTENSOR:scores"
          output_stream: "OVMS_PY_TENSOR:scores_py"
          node_options {
            [type.googleapis.com/mediapipe.PyTensorOvTensorConverterCalculatorOptions] {
              tag_to_output_tensor_names { key: "OVMS_PY_TENSOR" value: "scores_py" }
            }
          }
        }

    Source: OpenVINO Model Server ``src/python/pytensor_ovtensor_converter_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = list(contract.inputs), list(contract.outputs)
        contract.require(
            (inputs, outputs) in (([(ARRAY, 0)], [(TENSOR, 0)]), ([(TENSOR, 0)], [(ARRAY, 0)])),
            f"PyTensorOvTensorConverterCalculator has one input and one output: {ARRAY} and "
            f"{TENSOR}, or {TENSOR} and {ARRAY}.",
        )
        makes_tensors = contract.outputs.has_tag(TENSOR)
        contract.require(
            not makes_tensors or TENSOR in _names(contract),
            f"PyTensorOvTensorConverterCalculator needs the name of its tensors: "
            f'tag_to_output_tensor_names {{ key: "{TENSOR}" value: "the_name" }}.',
        )
        array, tensor = np.ndarray, Tensor
        contract.inputs[inputs[0]].set(array if makes_tensors else tensor)
        contract.outputs[outputs[0]].set(tensor if makes_tensors else array)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._makes_tensors = cc.outputs.has_tag(TENSOR)
        self._name = _names(cc).get(TENSOR, "")

    def process(self, cc: CalculatorContext) -> None:
        if not cc.input_list[0].is_empty():
            value = cc.input_list[0].value
            made = tensor_of(self._name, value) if self._makes_tensors else array_of(value)
            cc.output_list[0].add(made, cc.time)


def tensor_of(name: str, array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor with an array's data, not copied.

    Raises:
        RequestError: the array does not hold numbers of a type that tensors have.
    """
    if array.dtype not in DTYPES.values():
        raise RequestError(
            f'no tensor "{name}" can be made of an array of {array.dtype}; it must be one of '
            f"{', '.join(dtype.name for dtype in DTYPES.values())}"
        )
    return Tensor(name, array)


def array_of(tensor: Tensor) -> np.ndarray[Any, Any]:
    """An array with the tensor's data, of its declared type and shape.

    Raises:
        RequestError: the datatype is not one of numbers, or the data has another size than type and
            shape require.
    """
    dtype = DTYPES.get(tensor.datatype)
    if dtype is None:
        raise RequestError(
            f'the tensor "{tensor.name}" of datatype {tensor.datatype} cannot become an array; '
            f"it must be one of {', '.join(DTYPES)}"
        )
    data = np.asarray(tensor)
    if data.dtype == dtype and data.shape == tensor.shape:
        return data
    if min(tensor.shape, default=0) < 0 or math.prod(tensor.shape) * dtype.itemsize != tensor.size:
        raise RequestError(
            f'the tensor "{tensor.name}" has {tensor.size} bytes, which is not what '
            f"{tensor.datatype} of shape {list(tensor.shape)} takes"
        )
    raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return raw.view(dtype).reshape(tensor.shape)


def _names(asked: CalculatorContract | CalculatorContext) -> dict[str, str]:
    return dict(asked.options(OPTIONS_TYPE).tag_to_output_tensor_names)
