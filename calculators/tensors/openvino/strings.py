"""String tensors of models, as bytes with the places where each string begins and ends.

OpenVINO 2026.4's own access to strings from Python reads memory that was never written when all of
them are empty, and divides by zero when there are none. So a model is compiled with its string
tensors taken apart (``StringTensorPack`` and ``StringTensorUnpack``), and arrays of strings are
taken apart here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from calculators.tensors.openvino.infer_requests import Array, InferRequests
from graph_runtime import Code, GraphError

ELEMENT_TYPE: Final = "string"

#: The parts of an input: begins, ends and bytes; and of an output: the shape too, since OpenVINO
#: 2026.4 leaves the parts of the request before where a request's tensor has no strings.
_PARTS_IN: Final = 3
_PARTS_OUT: Final = 4
#: Strings, or bytes of them, from which on they are taken apart or joined in a thread.
_MANY: Final = 10_000
_LONG: Final = 1 << 20


class StringPort(NamedTuple):
    """A string input or output of a model before it was taken apart."""

    names: frozenset[str]
    node_name: str
    shape: Any


class StringPorts(NamedTuple):
    """The string inputs and outputs by their places in the model; None for the others."""

    inputs: Sequence[StringPort | None]
    outputs: Sequence[StringPort | None]


def split_strings(network: Any) -> tuple[Any, StringPorts | None]:
    """Return a model with the parts of each string port of ``network``, and the string ports.

    The same model and None if it has none. ``network`` is an `openvino.Model`, and is changed.
    """
    ports = StringPorts(
        [_string_port(port) for port in network.inputs],
        [_string_port(port) for port in network.outputs],
    )
    if not any((*ports.inputs, *ports.outputs)):
        return network, None
    import openvino  # here: processes without such a model do not load it
    from openvino import opset15 as op

    parameters: list[Any] = []
    for parameter, port in zip(network.get_parameters(), ports.inputs, strict=True):
        if port is None:
            parameters.append(parameter)
            continue
        parts = [
            op.parameter(port.shape, np.int32),
            op.parameter(port.shape, np.int32),
            op.parameter(openvino.PartialShape([-1]), np.uint8),
        ]
        parameter.output(0).replace(op.string_tensor_pack(*parts).output(0))
        parameters += parts
    results: list[Any] = []
    for result, port in zip(network.get_results(), ports.outputs, strict=True):
        if port is None:
            results.append(result)
            continue
        strings = result.input_value(0)
        parts = [*op.string_tensor_unpack(strings).outputs(), op.shape_of(strings).output(0)]
        results += [op.result(part) for part in parts]
    sinks, variables = network.get_sinks(), network.get_variables()
    made = openvino.Model(results, sinks, parameters, variables, network.get_friendly_name())
    return made, ports


def _string_port(port: Any) -> StringPort | None:
    if port.get_element_type().get_type_name() != ELEMENT_TYPE:
        return None
    names = frozenset(port.get_names())
    return StringPort(names, port.get_node().get_friendly_name(), port.get_partial_shape())


def whole_ports(compiled: Any, strings: StringPorts) -> tuple[list[Any], list[Any]]:
    """Return the inputs and outputs of a compiled model, with string ports instead of parts."""
    return (
        list(_whole(compiled.inputs, strings.inputs, _PARTS_IN)),
        list(_whole(compiled.outputs, strings.outputs, _PARTS_OUT)),
    )


def _whole(ports: Sequence[Any], strings: Sequence[StringPort | None], parts: int) -> Iterable[Any]:
    left = iter(ports)
    for string in strings:
        first = next(left)
        if string is not None:
            for _ in range(parts - 1):
                next(left)
        yield string or first


class StringInferences:
    """The inferences of a model whose strings were taken apart; see `Inferences`."""

    def __init__(self, requests: InferRequests, ports: StringPorts) -> None:
        self._requests = requests
        self._ports = ports

    @property
    def active(self) -> int:
        return self._requests.active

    def observe_times(
        self, waited: Callable[[float], object], computed: Callable[[float], object]
    ) -> None:
        self._requests.observe_times(waited, computed)

    async def infer(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the model; arrays of strings are arrays of `bytes` objects, inputs of `str` too."""
        texts = [a for a, port in zip(inputs, self._ports.inputs, strict=True) if port is not None]
        count = sum(array.size for array in texts)
        size = 0 if count >= _MANY else sum(len(text) for array in texts for text in array.flat)
        parts = await _done(count, size, lambda: self._apart(inputs))
        outputs = iter(await self._requests.infer(parts))
        found = [
            next(outputs) if port is None else tuple(next(outputs) for _ in range(_PARTS_OUT))
            for port in self._ports.outputs
        ]
        joined = [each for each in found if isinstance(each, tuple)]
        return await _done(
            sum(begins.size for begins, *_ in joined),
            sum(text.size for _, _, text, _ in joined),
            lambda: [_joined(*each) if isinstance(each, tuple) else each for each in found],
        )

    def _apart(self, arrays: Sequence[Array]) -> list[Array]:
        parts: list[Array] = []
        for array, port in zip(arrays, self._ports.inputs, strict=True):
            parts += [array] if port is None else _taken_apart(array)
        return parts


async def _done(count: int, size: int, work: Callable[[], list[Array]]) -> list[Array]:
    return work() if count < _MANY and size < _LONG else await asyncio.to_thread(work)


def _taken_apart(array: Array) -> list[Array]:
    """Return begins, ends and bytes of an array of strings.

    Raises:
        GraphError: they have 2 GiB or more together (RESOURCE_EXHAUSTED).
    """
    strings = [each.encode() if isinstance(each, str) else bytes(each) for each in array.flat]
    places = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(each) for each in strings], out=places[1:])
    if places[-1] >= 2**31:
        raise GraphError("the strings have more than 2 GiB", code=Code.RESOURCE_EXHAUSTED)
    begins, ends = places[:-1].astype(np.int32), places[1:].astype(np.int32)
    joined = np.frombuffer(b"".join(strings), np.uint8)
    return [begins.reshape(array.shape), ends.reshape(array.shape), joined]


def _joined(begins: Array, ends: Array, joined: Array, shape: Array) -> Array:
    """Return an array of `bytes` objects."""
    if not shape.all():
        return np.empty(tuple(shape), object)
    text = joined.tobytes()
    strings = np.empty(begins.size, object)
    for place, (begin, end) in enumerate(zip(begins.flat, ends.flat, strict=True)):
        strings[place] = text[begin:end]
    return strings.reshape(begins.shape)
