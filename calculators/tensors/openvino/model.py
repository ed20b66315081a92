"""`Model`: a compiled model with a name, its tensors, and inference on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from calculators.kit.child_process.library_errors import library_reason
from calculators.tensors.openvino.infer_requests import Array, InferRequests
from calculators.tensors.openvino.tensor_spec import TensorError, TensorSpec
from graph_runtime import Code, GraphError
from graph_runtime.errors import did_you_mean


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """All that is known of a compiled model without running it.

    Attributes:
        name, version: as in the request for the model.
        inputs, outputs: the specs of its tensors, in the model's order.
        nireq: number of inferences that may run at the same time.
        streams: number that OpenVINO computes at the same time; 0 if the device does not say.
        rt_info: metadata of the model's file, as JSON values.
    """

    name: str
    version: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    nireq: int
    streams: int
    rt_info: Mapping[str, object]


class Inferences(Protocol):
    """The inferences of one model, wherever it is; see `InferRequests`."""

    @property
    def active(self) -> int: ...

    def observe_times(
        self, waited: Callable[[float], object], computed: Callable[[float], object]
    ) -> None: ...

    async def infer(self, inputs: Sequence[Array]) -> list[Array]: ...


class Model:
    """A compiled model, the content of the side packet ``SESSION``. Graphs may share one.

    Attributes:
        facts: the `ModelFacts`; each of them is an attribute of the model too.
    """

    def __init__(self, facts: ModelFacts, inferences: Inferences) -> None:
        self.facts = facts
        self.name = facts.name
        self.version = facts.version
        self.rt_info = facts.rt_info
        self.inputs: Sequence[TensorSpec] = facts.inputs
        self.outputs: Sequence[TensorSpec] = facts.outputs
        self.nireq = facts.nireq
        self.streams = facts.streams
        self._requests = inferences

    @classmethod
    def of(
        cls,
        compiled: Any,
        name: str,
        version: int = 1,
        nireq: int = 0,
        rt_info: Mapping[str, object] | None = None,
    ) -> Model:
        """``compiled`` is an `openvino.CompiledModel`; ``nireq`` 0: as many as OpenVINO recommends.

        Raises:
            GraphError: no NumPy array can hold a tensor's element type.
        """
        is_on_cpu = _is_on_cpu(compiled)
        facts = ModelFacts(
            name,
            version,
            tuple(TensorSpec.of(port, is_on_cpu=is_on_cpu) for port in compiled.inputs),
            tuple(map(TensorSpec.of, compiled.outputs)),
            nireq or compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"),
            _streams(compiled),
            rt_info or {},
        )
        dtypes = [spec.dtype for spec in facts.outputs]
        return cls(facts, InferRequests(compiled, dtypes, facts.nireq))

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
        outputs = await self.infer_checked(arrays)
        return {spec.name: array for spec, array in zip(self.outputs, outputs, strict=True)}

    async def infer_checked(self, arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Run the model on arrays that fit; both lists are in the model's order.

        For callers that have checked the arrays themselves; otherwise as `infer`.

        Raises:
            GraphError: the inference failed (INTERNAL).
        """
        try:
            return await self._requests.infer(arrays)
        except RuntimeError as error:
            raise GraphError(
                f'the model "{self.name}" failed: {library_reason(error)}', code=Code.INTERNAL
            ) from error


def _is_on_cpu(compiled: Any) -> bool:
    try:
        devices = compiled.get_property("EXECUTION_DEVICES")
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return False
    return any(str(device).split(".")[0] == "CPU" for device in devices)


def _streams(compiled: Any) -> int:
    try:
        return int(compiled.get_property("NUM_STREAMS"))
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return 0
