"""`Model`: a compiled model with a name, its tensors, and inference on them.

A `TensorSpec` says which arrays an input takes. Arrays are checked against it before OpenVINO gets
them, because it wraps or clips some numbers without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from calculators.kit.child_process.library_errors import library_reason
from calculators.tensors.openvino.infer_requests import Array, InferRequests
from calculators.tensors.openvino.model_settings import Dimension
from calculators.tensors.openvino.strings import (
    ELEMENT_TYPE,
    StringInferences,
    StringPort,
    StringPorts,
    whole_ports,
)
from graph_runtime import Code, GraphError
from graph_runtime.errors import did_you_mean

#: The NumPy types that hold OpenVINO's element types. Of bf16, which NumPy does not have, an array
#: holds the bits, as for KServe; of strings, `bytes` objects.
_DTYPES: Final[dict[str, Any]] = {
    "boolean": np.bool_,
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "bf16": np.uint16,
    ELEMENT_TYPE: object,
}

#: The numbers that OpenVINO's CPU plugin can take of types of 64 bits, as it computes in int32 and
#: float32. It wraps other integers around and clips other floats, infinities too, without an error.
NUMBERS_ON_CPU: Final[dict[str, tuple[Any, Any]]] = {
    "i64": (-(2**31), 2**31 - 1),
    "u64": (0, 2**31 - 1),
    "f64": (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)),
}


class TensorError(GraphError):
    """A tensor does not fit the model; the text names it and what is expected."""

    code = Code.INVALID_ARGUMENT


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output of a model.

    Attributes:
        name: its name in the model; an output without a name has that of its node.
        names: all of its names, including ``name``.
        element_type: OpenVINO's name of the type, such as "f32".
        dtype: type of its arrays, in this machine's byte order; for "bf16" uint16, the bits.
        shape: the allowed lengths per axis; None is any number of axes.
        span: the least and the greatest number that the device can take, if it cannot take all of
            the type; None if it can.
    """

    name: str
    names: frozenset[str]
    element_type: str
    dtype: np.dtype[Any]
    shape: tuple[Dimension, ...] | None
    span: tuple[Any, Any] | None = None

    @classmethod
    def of(cls, port: Any, *, is_on_cpu: bool = False) -> TensorSpec:
        """Return the spec of an input or output of a compiled model.

        Args:
            is_on_cpu: OpenVINO's CPU plugin gets the numbers of this input.

        Raises:
            GraphError: its element type has no NumPy equivalent.
        """
        if isinstance(port, StringPort):
            name = min(port.names, default=port.node_name)
            shape = _dimensions(port.shape)
            names = port.names | {name}
            return cls(name, names, ELEMENT_TYPE, np.dtype(object), shape)
        names = port.get_names()
        name = port.get_any_name() if names else port.get_node().get_friendly_name()
        element_type = port.get_element_type().get_type_name()
        if element_type not in _DTYPES:
            raise GraphError(
                f'its tensor "{name}" has the element type {element_type}, which no NumPy array '
                f"holds; convert it to one of {', '.join(_DTYPES)} in the model",
                code=Code.UNIMPLEMENTED,
            )
        return cls(
            name,
            frozenset(names) | {name},
            element_type,
            np.dtype(_DTYPES[element_type]),
            _dimensions(port.get_partial_shape()),
            NUMBERS_ON_CPU.get(element_type) if is_on_cpu else None,
        )

    @property
    def shape_text(self) -> str:
        """``[1,?,1..8]``: ``?`` is any length; ``[...]`` any number of axes."""
        if self.shape is None:
            return "[...]"
        return f"[{','.join(map(str, self.shape))}]"

    def check(self, array: npt.NDArray[Any]) -> None:
        """Check that an array fits.

        Raises:
            TensorError: the array has another element type or shape, or numbers beyond `span`.
        """
        if array.dtype != self.dtype and not (self.dtype == object and array.dtype.kind in "SU"):
            bits = " (the bits of bf16)" if self.element_type == "bf16" else ""
            raise TensorError(
                f'tensor "{self.name}": the element type is {array.dtype}, {self.dtype}{bits} is '
                f"expected"
            )
        if self.shape is not None and (
            len(array.shape) != len(self.shape)
            or not all(
                dimension.allows(length)
                for dimension, length in zip(self.shape, array.shape, strict=True)
            )
        ):
            given = ",".join(map(str, array.shape))
            raise TensorError(
                f'tensor "{self.name}": the shape is [{given}], {self.shape_text} is expected'
            )
        refusal = self.refusal_of_numbers(array)
        if refusal:
            raise TensorError(f'tensor "{self.name}": {refusal}')

    def refusal_of_numbers(self, array: npt.NDArray[Any]) -> str:
        """Return why the device cannot take the numbers of an array of this type; "" if it can."""
        if self.element_type == ELEMENT_TYPE:
            # OpenVINO 2026.4 would answer with strings of the request before.
            return "" if array.size else "one string at least is expected"
        if self.span is None or not array.size:
            return ""
        low, high = self.span
        if array.min() >= low and array.max() <= high:
            return ""
        is_beyond = (array < low) | (array > high)
        if not is_beyond.any():  # but NaN, which is the same in float32
            return ""
        place = int(is_beyond.argmax())
        return (
            f"element {place} is {array.flat[place]}, but the CPU computes {self.dtype} with "
            f"numbers from {low} to {high}"
        )


def _dimensions(shape: Any) -> tuple[Dimension, ...] | None:
    if shape.rank.is_dynamic:
        return None
    return tuple(
        Dimension(each.min_length, None if each.max_length == -1 else each.max_length)
        for each in shape
    )


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
        strings: StringPorts | None = None,
    ) -> Model:
        """``compiled`` is an `openvino.CompiledModel`; ``nireq`` 0: as many as OpenVINO recommends.

        ``strings``: the string ports that were taken apart before it was compiled.

        Raises:
            GraphError: no NumPy array can hold a tensor's element type.
        """
        is_on_cpu = _is_on_cpu(compiled)
        inputs, outputs = compiled.inputs, compiled.outputs
        if strings is not None:
            inputs, outputs = whole_ports(compiled, strings)
        facts = ModelFacts(
            name,
            version,
            tuple(TensorSpec.of(port, is_on_cpu=is_on_cpu) for port in inputs),
            tuple(map(TensorSpec.of, outputs)),
            nireq or compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"),
            _streams(compiled),
            rt_info or {},
        )
        types = [port.get_element_type().get_type_name() for port in compiled.outputs]
        dtypes = [np.dtype(_DTYPES[each]) for each in types]
        requests = InferRequests(compiled, dtypes, facts.nireq)
        return cls(facts, requests if strings is None else StringInferences(requests, strings))

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
        # Fronts check with the request's words and call this themselves, so a plain model checks
        # once (decision 0078).
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
