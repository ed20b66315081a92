"""`Model`: a compiled model with a name, its tensors, and inference on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from calculators.openvino.infer_requests import InferRequests
from calculators.openvino.openvino_reason import openvino_reason
from calculators.openvino.tensor_spec import TensorError, TensorSpec
from graph_runtime import Code, GraphError
from graph_runtime.errors import did_you_mean


class Model:
    """A compiled model, the content of the side packet ``SESSION``. Graphs may share one.

    Attributes:
        name, version: as in the request for the model.
        inputs, outputs: the specs of its tensors, in the model's order.
        nireq: number of inferences that may run at the same time.
        streams: number that OpenVINO computes at the same time; 0 if the device does not say.
        rt_info: metadata of the model's file, as JSON values.
    """

    def __init__(
        self,
        compiled: Any,
        name: str,
        version: int = 1,
        nireq: int = 0,
        rt_info: Mapping[str, object] | None = None,
    ) -> None:
        """``compiled`` is an `openvino.CompiledModel`; ``nireq`` 0: as many as OpenVINO recommends.

        Raises:
            GraphError: no NumPy array can hold a tensor's element type.
        """
        self.name = name
        self.version = version
        self.rt_info: Mapping[str, object] = rt_info or {}
        self.inputs: Sequence[TensorSpec] = tuple(map(TensorSpec.of, compiled.inputs))
        self.outputs: Sequence[TensorSpec] = tuple(map(TensorSpec.of, compiled.outputs))
        self.nireq = nireq or compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        self.streams = _streams(compiled)
        self._requests = InferRequests(compiled, [spec.dtype for spec in self.outputs], self.nireq)

    def __repr__(self) -> str:
        return f'<Model "{self.name}" version {self.version}>'

    @property
    def active(self) -> int:
        """The number of inferences that run now."""
        return self._requests.active

    def observe_times(
        self, waited: Callable[[float], object], computed: Callable[[float], object]
    ) -> None:
        """Report the times of each inference that succeeds, in microseconds.

        ``waited`` gets the wait for its turn, ``computed`` the computation, both on the event loop
        of the inference.
        """
        self._requests.observe_times(waited, computed)

    async def infer(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Run the model: all inputs by name, all outputs by name, typed and shaped as in the specs.

        The input arrays must not change before this returns. The outputs are new arrays.

        Raises:
            TensorError: an input is missing or unknown, or does not fit.
            GraphError: the inference failed (INTERNAL).
        """
        arrays = []
        for spec in self.inputs:
            array = inputs.get(spec.name)
            if array is None:
                raise TensorError(f'the model "{self.name}" needs the tensor "{spec.name}"')
            try:
                spec.check(array)
            except TensorError as error:
                raise TensorError(f'the model "{self.name}": {error}') from None
            arrays.append(array)
        if len(inputs) != len(arrays):
            known = [spec.name for spec in self.inputs]
            unknown = next(name for name in inputs if name not in known)
            raise TensorError(
                f'the model "{self.name}" has no input "{unknown}".{did_you_mean(unknown, known)}'
            )
        try:
            outputs = await self._requests.infer(arrays)
        except RuntimeError as error:
            raise GraphError(
                f'the model "{self.name}" failed: {openvino_reason(error)}', code=Code.INTERNAL
            ) from error
        return {spec.name: array for spec, array in zip(self.outputs, outputs, strict=True)}


def _streams(compiled: Any) -> int:
    try:
        return int(compiled.get_property("NUM_STREAMS"))
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return 0
