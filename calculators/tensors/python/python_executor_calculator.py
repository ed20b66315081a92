"""`PythonExecutorCalculator`: a node that runs a handler written in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.tasks.nodes import node_resource
from calculators.tensors.python.instance import HandlerTurn, Outputs
from calculators.tensors.python.pyovms import Tensor
from calculators.tensors.python.python_node import (
    LOOPBACK,
    REQUEST_TAGS,
    RESPONSE_TAGS,
    InstanceLane,
    PythonNode,
)
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, In, Out, SideIn


def input_of(stream: str, value: Any) -> Any:
    """Convert a packet's value for a handler.

    A `Tensor` is passed unchanged. Arrays, ``bytes`` and ``str`` (as UTF-8) become a `Tensor` named
    after the stream; an array of objects, which holds strings, one of datatype BYTES. Any other
    value, such as the payload of an HTTP request, is passed unchanged.

    Raises:
        RequestError: a buffer cannot hold the array's elements.
    """
    try:
        return _input_of(stream, value)
    except TypeError as error:
        raise RequestError(f'the stream "{stream}": {error}') from None


def _input_of(stream: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, str):
        return Tensor(stream, value.encode("utf-8", "replace"))
    if isinstance(value, bytes):
        return Tensor(stream, value)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return Tensor(stream, pack_elements(value.flat), value.shape, "BYTES")
        return Tensor(stream, value)
    return value


def pack_elements(elements: Iterable[bytes | str]) -> bytes:
    """Pack the elements of a BYTES tensor, each after its length in four bytes, little-endian.

    Raises:
        TypeError: an element is neither bytes nor str.
    """
    packed = bytearray()
    for element in elements:
        if isinstance(element, str):
            element = element.encode()
        if not isinstance(element, bytes):
            raise TypeError(f"an element of BYTES is bytes or str, not {type(element).__name__}")
        packed += len(element).to_bytes(4, "little")
        packed += element
    return bytes(packed)


class Execution:
    """The result of ``execute`` for one set of inputs: outputs at once, or step by step.

    Attributes:
        is_generating: there is a generator that has not ended.
    """

    def __init__(self, node: PythonNode) -> None:
        self.is_generating = False
        self._node = node
        self._key = node.new_key()
        self._worker: InstanceLane | None = None

    async def start(self, inputs: Sequence[Any]) -> Outputs:
        """Call ``execute``; returns its result, or the first value that its generator yields.

        Raises:
            RequestError: the handler failed, or returned something that is not an output;
                UNAVAILABLE if its process has ended.
        """
        turn, self._worker = await self._node.execute(self._key, inputs)
        return self._take(turn)

    async def next(self) -> Outputs:
        """Resume the generator; returns the next outputs, empty at its end.

        Raises:
            RequestError: like `start`.
        """
        assert self._worker is not None, "it was started"
        return self._take(await self._node.next(self._key, self._worker))

    def end(self) -> None:
        """Close the generator, if there is one, when the call under way has returned."""
        if self._worker is not None:
            self._node.end(self._key, self._worker)

    def _take(self, turn: HandlerTurn) -> Outputs:
        self.is_generating = turn.is_generating
        return turn.outputs


class PythonExecutorCalculator(Calculator):
    """Calls ``OvmsPythonModel.execute`` of a file with each set of inputs.

    Inputs: any number with any tags, given to ``execute`` as a list in the order of the tags, those
        without a packet left out: `Tensor` as it is; arrays, bytes and str as a `Tensor` named
        after the stream; anything else unchanged. ``HTTP_REQUEST_PAYLOAD``: an `HttpPayload`.
    Outputs: any number with any tags. ``execute`` returns a list of `Tensor`, each sent on the
        stream it is named after, at the input timestamp; a stream without one gets none.
        ``HTTP_RESPONSE_PAYLOAD``: str, bytes, an `HttpAnswer`, or an object that becomes JSON;
        `OutputForm`.
    LOOPBACK, an input and an output that are one back edge: ``execute`` may return a generator.
        Its first value is sent at the input timestamp, each further one a microsecond later. An
        input with a later timestamp waits for its end, an earlier one is refused
        (RESOURCE_EXHAUSTED). Cancelling the run closes the generator.
    Input side packets: PYTHON_NODE_RESOURCES, which a server supplies.
    Options: ``PythonExecutorCalculatorOptions``: ``handler_path``, relative to the graph;
        ``isolation``: PROCESS or THREAD; ``instances``; ``cancel_grace_seconds``.

    A node has one handler object, or as many as ``instances`` says, shared by all runs. Each lives
    in a process of its own (in a thread with ``isolation: THREAD``), which makes its calls one at a
    time. An exception fails the request with the first line of its text; a `RequestError` is passed
    on unchanged. When the process ends for any reason, its current calls fail with UNAVAILABLE, and
    it is restarted.

    A process gets only tensors and HTTP requests, whose ``client`` always seems connected and
    writable there: the node handles cancellation. A thread gets any value that the stream carries.

    ::

        node {
          name: "uppercase"
          calculator: "PythonExecutorCalculator"
          input_side_packet: "PYTHON_NODE_RESOURCES:py"
          input_stream: "INPUT:text"
          output_stream: "OUTPUT:uppercase"
          node_options {
            [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] {
              handler_path: "model.py"
            }
          }
        }

    Source: OpenVINO Model Server ``src/python/python_executor_calculator.cc``.
    """

    again = In[bool](LOOPBACK, optional=True)
    next_turn = Out[bool](LOOPBACK, optional=True)
    resources = SideIn[dict[str, Any]]("PYTHON_NODE_RESOURCES")

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        contract.require(
            inputs.has_tag(LOOPBACK) == outputs.has_tag(LOOPBACK),
            "If LOOPBACK is used, it must be defined on both input and output of the node",
        )
        contract.require(
            all(any(tag != LOOPBACK for tag, _ in types) for types in (inputs, outputs)),
            "PythonExecutorCalculator needs an input and an output besides LOOPBACK.",
        )
        for tag, index in inputs:
            if tag != LOOPBACK:
                inputs[tag, index].set(HttpPayload if tag in REQUEST_TAGS else Any)
        for tag, index in outputs:
            if tag != LOOPBACK:
                outputs[tag, index].set(ResponsePacket if tag in RESPONSE_TAGS else Any)
        contract.require(
            contract.max_in_flight == 1 or not inputs.has_tag(LOOPBACK),
            "A PythonExecutorCalculator with LOOPBACK takes no max_in_flight: its turns follow one "
            "another.",
        )
        # A generator's outputs have timestamps of their own.
        contract.timestamp_offset = None if inputs.has_tag(LOOPBACK) else 0
        if inputs.has_tag(LOOPBACK):
            contract.set_apart(LOOPBACK)

    def open(self, cc: CalculatorContext) -> None:
        self._node: PythonNode = node_resource(cc, self.resources, "Python")
        self._places = {shard.name: place for place, shard in enumerate(cc.output_list)}
        self._loops = cc.is_connected(self.next_turn)
        self._execution: Execution | None = None
        self._client: Any = None
        self._next_time = cc.time

    async def process(self, cc: CalculatorContext) -> None:
        inputs = [
            self._input(tag, shard.name, shard.value)
            for (tag, _), shard in zip(cc.inputs.places, cc.input_list, strict=True)
            if tag != LOOPBACK and not shard.is_empty()
        ]
        if not self._loops:
            self._send(cc, await Execution(self._node).start(inputs), cc.time)
        elif self._execution is None:
            if inputs:
                await self._begin(cc, inputs)
        elif inputs:
            raise RequestError(
                "Node is already processing data. Create new stream for another request.",
                code=Code.RESOURCE_EXHAUSTED,
            )
        else:
            if self._client is not None and not self._client.is_writable:
                # A slow reader gets no more outputs before it has read the earlier ones.
                await self._client.writable()
            self._turn(cc, await self._execution.next())

    def close(self, cc: CalculatorContext) -> None:
        if self._execution is not None:
            self._execution.end()

    async def _begin(self, cc: CalculatorContext, inputs: list[Any]) -> None:
        self._execution = Execution(self._node)
        # A session's next generation continues after the timestamps of the previous one.
        self._next_time = max(cc.time, self._next_time)
        self._turn(cc, await self._execution.start(inputs))

    def _turn(self, cc: CalculatorContext, outputs: Outputs) -> None:
        """Send the outputs of a turn, and request another turn if the generator has more."""
        self._send(cc, outputs, self._next_time)
        if self._execution is not None and self._execution.is_generating:
            self._next_time += 1
            cc.emit(self.next_turn, True, at=self._next_time)
        else:
            self._execution = None
            # The generator has ended; its last packet was sent in the previous turn.
            self._next_time += bool(outputs)

    def _send(self, cc: CalculatorContext, outputs: Outputs, time: int) -> None:
        for stream, value in outputs:
            cc.output_list[self._places[stream]].add(value, time)

    def _input(self, tag: str, stream: str, value: Any) -> Any:
        if isinstance(value, HttpPayload):
            if tag not in REQUEST_TAGS:
                raise RequestError(
                    f'the stream "{stream}" takes tensors, not HTTP requests; a node that answers '
                    f"those takes them under the tag {REQUEST_TAGS[0]}"
                )
            self._client = value.client
        return input_of(stream, value)
