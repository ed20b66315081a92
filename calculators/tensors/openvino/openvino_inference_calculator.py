"""OpenVINOInferenceCalculator: tensors through a model."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from calculators.tensors.openvino.model import Model
from calculators.tensors.openvino.stream_tensors import (
    StreamTensors,
    tensors_of_inputs,
    tensors_of_outputs,
)
from calculators.tensors.openvino.tensor_spec import TensorError
from calculators.tensors.openvino.tensor_tags import OPTIONS, declare_tensors
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options


class OpenVINOInferenceCalculator(Calculator):
    """Runs a model on the tensors of each timestamp, while the event loop goes on.

    Inferences of several graphs, or of a node with ``max_in_flight``, overlap as far as the model
    has infer requests. All inputs need a packet at each timestamp.

    Inputs and outputs, any number of each, distinguished by their tags:
        tags that begin with OVTENSORS, TENSORS or TFTENSORS (list of numpy.ndarray): tensors in
            the order of the order list.
        any other tag, or none (numpy.ndarray): one tensor.
    An array has the model's element type and a shape that the model allows; nothing is converted.
    Input side packets: SESSION: from OpenVINOModelServerSessionCalculator.
    Options (mediapipe.OpenVINOInferenceCalculatorOptions):
        tag_to_input_tensor_names, tag_to_output_tensor_names: the model's tensor of each tag. A
            tag without an entry is itself the name. The only stream carries the only tensor.
        input_order_list, output_order_list: the model's tensors in the order of the lists. Without
            one, an output list has all outputs in the model's order.

    ::

        node {
          calculator: "OpenVINOInferenceCalculator"
          input_side_packet: "SESSION:session"
          input_stream: "OVTENSOR1:left"
          input_stream: "OVTENSOR2:right"
          output_stream: "OVTENSOR:sum"
          node_options {
            [type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] {
              tag_to_input_tensor_names { key: "OVTENSOR1" value: "a" }
              tag_to_input_tensor_names { key: "OVTENSOR2" value: "b" }
              tag_to_output_tensor_names { key: "OVTENSOR" value: "sum" }
            }
          }
        }

    Source: OpenVINO Model Server ``mediapipe_calculators/ovms/openvinoinferencecalculator.cc``.
    """

    options = Options(OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.input_side_packets["SESSION"].set(Model)
        declare_tensors(contract, "input")
        declare_tensors(contract, "output")
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._model: Model = cc.input_side_packets["SESSION"].value
        self._inputs = tensors_of_inputs(
            cc.inputs.tags(),
            options.tag_to_input_tensor_names,
            options.input_order_list,
            self._model,
        )
        self._outputs = tensors_of_outputs(
            cc.outputs.tags(),
            options.tag_to_output_tensor_names,
            options.output_order_list,
            self._model,
        )
        for shard, output in zip(cc.input_list, cc.output_list, strict=False):
            if not shard.header.is_empty():
                output.set_header(shard.header)

    async def process(self, cc: CalculatorContext) -> None:
        time = cc.time
        tensors: dict[str, npt.NDArray[Any]] = {}
        for stream in self._inputs:
            tensors |= _tensors_at(cc, stream)
        found = await self._model.infer(tensors)
        for stream in self._outputs:
            arrays = [found[name] for name in stream.names]
            cc.outputs[stream.tag, 0].add(arrays if stream.is_list else arrays[0], time)


def _tensors_at(cc: CalculatorContext, stream: StreamTensors) -> dict[str, npt.NDArray[Any]]:
    """The tensors of one input, by the model's names."""
    shard = cc.inputs[stream.tag, 0]
    if shard.is_empty():
        raise TensorError(
            f'input stream "{shard.name}" has no packet at this timestamp; inference needs one '
            f"from every input"
        )
    arrays = shard.value if stream.is_list else [shard.value]
    if len(arrays) != len(stream.names):
        raise TensorError(
            f'input stream "{shard.name}" has a list of {len(arrays)} tensors; '
            f"{len(stream.names)} are expected: {', '.join(stream.names)}"
        )
    for name, array in zip(stream.names, arrays, strict=True):
        if not hasattr(array, "dtype"):
            raise TensorError(
                f'input stream "{shard.name}": tensor "{name}" is a {type(array).__name__}, a '
                f"NumPy array is expected"
            )
    return dict(zip(stream.names, arrays, strict=True))
