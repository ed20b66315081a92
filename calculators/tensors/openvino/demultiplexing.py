"""Tensors taken apart along their first axis, and put together again, as in OVMS's DAG pipelines.

Between the two calculators a part of the graph runs once for each slice, at times of the loop's
own, as between MediaPipe's BeginLoop and EndLoop calculators (`calculators.core.loops`). Those take
one list apart; here several tensors are taken apart together.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.tensors.openvino.model import TensorError
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    In,
    Options,
    Out,
    Timestamp,
)
from protos import messages

#: The tag of tensors; the index of an input is that of its output.
TENSOR: Final = "TENSOR"

#: The most slices of one tensor, as in OpenVINO Model Server.
MOST_SLICES: Final = 10_000

_Array = npt.NDArray[Any]


class DemultiplyTensorsCalculator(Calculator):
    """Sends the slices of tensors along their first axis one by one, without that axis.

    Inside the loop time is the loop's own: 0, 1, 2 ..., one tick per slice.

    Inputs: TENSOR:i (numpy.ndarray): at least one, of two axes at least. At each timestamp the
        first axes of all have one length, from 1 to 10,000.
    Outputs:
        TENSOR:i: the slices of each input, at loop time.
        BATCH_END (Timestamp): at the last slice's tick, the timestamp of the tensors.
    Options (graphrt.DemultiplyTensorsOptions): demultiply_count: the length that the first axes
        must have; -1, the default, is any.

    ::

        node {
          calculator: "DemultiplyTensorsCalculator"
          input_stream: "TENSOR:faces"
          output_stream: "TENSOR:face"
          output_stream: "BATCH_END:faces_end"
          node_options {
            [type.googleapis.com/graphrt.DemultiplyTensorsOptions] { demultiply_count: 3 }
          }
        }
    """

    tensors = In[np.ndarray](TENSOR, multiple=True)
    slices = Out[np.ndarray](TENSOR, multiple=True)
    batch_end = Out[Timestamp]("BATCH_END")
    options = Options(messages.DemultiplyTensorsOptions)

    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        _check_pairs(contract)
        count = contract.options(messages.DemultiplyTensorsOptions).demultiply_count
        contract.require(
            count == -1 or 1 <= count <= MOST_SLICES,
            f"demultiply_count is {count}; a number from 1 to {MOST_SLICES}, or -1 for any, is "
            f"needed",
        )

    def open(self, cc: CalculatorContext) -> None:
        self._clock = 0

    def process(self, cc: CalculatorContext) -> None:
        arrays = [(shard.name, shard.value) for shard in cc.inputs.all_of(TENSOR)]
        count = self._count(arrays)
        outputs = cc.outputs.all_of(TENSOR)
        for place in range(count):
            for (_, array), output in zip(arrays, outputs, strict=True):
                output.add(array[place], self._clock)
            self._clock += 1
        cc.outputs["BATCH_END"].add(cc.input_timestamp, self._clock - 1)

    def _count(self, arrays: list[tuple[str, _Array]]) -> int:
        """Return the length of the first axes.

        Raises:
            TensorError: it is not allowed, or they differ.
        """
        expected = self.options.demultiply_count
        for name, array in arrays:
            if array.ndim < 2:
                raise TensorError(
                    f'"{name}" has the shape {list(array.shape)}; two axes at least are needed to '
                    f"take a tensor apart along the first"
                )
            length = array.shape[0]
            if not 1 <= length <= MOST_SLICES or expected not in (-1, length):
                wanted = f"1 to {MOST_SLICES}" if expected == -1 else str(expected)
                raise TensorError(
                    f'"{name}" has the shape {list(array.shape)}; the length of its first axis, '
                    f"along which it is taken apart, must be {wanted}"
                )
        lengths: set[int] = {array.shape[0] for _, array in arrays}
        if len(lengths) > 1:
            shapes = ", ".join(f'"{name}" {list(array.shape)}' for name, array in arrays)
            raise TensorError(
                f"tensors that are taken apart together differ in the length of their first axis: "
                f"{shapes}"
            )
        return lengths.pop()


class GatherTensorsCalculator(Calculator):
    """Puts the packets of a loop together into one tensor, which has a first axis more.

    Inputs:
        TENSOR:i (numpy.ndarray): at least one, at the loop's time; all tensors of an input
            have one shape and element type.
        BATCH_END (Timestamp): from DemultiplyTensorsCalculator.
    Outputs: TENSOR:i: one tensor per input, in the order of the loop, at the timestamp that
        BATCH_END carries.
    Options: none.

    ::

        node {
          calculator: "GatherTensorsCalculator"
          input_stream: "TENSOR:emotion"
          input_stream: "BATCH_END:faces_end"
          output_stream: "TENSOR:emotions"
        }
    """

    slices = In[np.ndarray](TENSOR, multiple=True)
    batch_end = In[Timestamp]("BATCH_END")
    tensors = Out[np.ndarray](TENSOR, multiple=True)

    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        _check_pairs(contract)

    def open(self, cc: CalculatorContext) -> None:
        self._gathered: list[list[_Array]] = [[] for _ in cc.inputs.all_of(TENSOR)]

    def process(self, cc: CalculatorContext) -> None:
        for shard, gathered in zip(cc.inputs.all_of(TENSOR), self._gathered, strict=True):
            array: _Array = shard.value
            if gathered and (array.shape, array.dtype) != (gathered[0].shape, gathered[0].dtype):
                raise TensorError(
                    f'the tensors of "{shard.name}" cannot be put together: one is {array.dtype} '
                    f"of the shape {list(array.shape)}, the first is {gathered[0].dtype} of the "
                    f"shape {list(gathered[0].shape)}"
                )
            gathered.append(array)
        end = cc.inputs["BATCH_END"]
        if end.is_empty():
            return
        for output, gathered in zip(cc.outputs.all_of(TENSOR), self._gathered, strict=True):
            output.add(np.stack(gathered), end.value)
            gathered.clear()


def _check_pairs(contract: CalculatorContract) -> None:
    """Declare that there are as many tensors out as in.

    Raises:
        GraphConfigError: their numbers differ.
    """
    given, made = contract.inputs.num_entries(TENSOR), contract.outputs.num_entries(TENSOR)
    contract.require(
        given == made > 0,
        f"there are {given} {TENSOR} inputs and {made} {TENSOR} outputs; each input needs its "
        f"output",
    )
