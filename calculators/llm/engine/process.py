"""The engine process: ``python -m calculators.llm.engine.process DESCRIPTOR PARENT``.

`SharedRequests`: requests of several workers in one engine.

Each worker numbers its requests from 0. In the engine the number of the worker's link is in the
upper bits.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Final

import msgspec
from msgspec.structs import replace

from calculators.kit.child_process.lean_openvino import (
    leave_out_converter,
    leave_out_tokenizers,
    load_failure,
)
from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from calculators.kit.memory import collect_seldom
from calculators.llm.engine.core import SECONDS_PER_STREAM, SIGN_SECONDS, EngineCore
from calculators.llm.engine.messages import (
    VERSION,
    Add,
    CancelGeneration,
    EngineLoad,
    NewTokens,
    Step,
    to_engine_decoder,
)

#: Bits of a worker's own number: it counts for decades.
_BITS: Final = 40
_OWN: Final = (1 << _BITS) - 1


class SharedRequests:
    """Translates the numbers of requests, and knows the open requests of each link."""

    def __init__(self) -> None:
        #: The unfinished sequences of each open request, by its number in the engine.
        self._open: dict[int, dict[int, int]] = {}

    def inward(self, link: int, message: Add | CancelGeneration) -> Add | CancelGeneration:
        """Return a worker's message with the numbers that the engine has."""
        number = link << _BITS | message.request_id
        if isinstance(message, CancelGeneration):
            self._open.get(link, {}).pop(number, None)
            return CancelGeneration(number)
        self._open.setdefault(link, {})[number] = message.settings.num_return_sequences
        return replace(message, request_id=number, group=link << _BITS | message.group)

    def outward(self, step: Step) -> Iterator[tuple[int, Step]]:
        """Yield the part of each link, with the numbers that its worker knows."""
        parts: dict[int, Step] = {}
        for tokens in step.tokens:
            # The engine's numbers carry the worker's link, so that an answer goes back on the
            # connection by which its request came (decision 0071).
            link = tokens.request_id >> _BITS
            if tokens.finish_reason is not None:
                self._count_end(link, tokens.request_id)
            parts.setdefault(link, Step([], [])).tokens.append(_own_tokens(tokens))
        for failed in step.failed:
            link = failed.request_id >> _BITS
            self._open.get(link, {}).pop(failed.request_id, None)
            own = replace(failed, request_id=failed.request_id & _OWN)
            parts.setdefault(link, Step([], [])).failed.append(own)
        yield from parts.items()

    def end(self, link: int) -> list[CancelGeneration]:
        """Return what cancels the open requests of a link that has ended."""
        return [CancelGeneration(number) for number in self._open.pop(link, {})]

    def _count_end(self, link: int, number: int) -> None:
        requests = self._open.get(link, {})
        left = requests.get(number, 0) - 1
        if left > 0:
            requests[number] = left
        else:
            requests.pop(number, None)


def _own_tokens(tokens: NewTokens) -> NewTokens:
    return replace(tokens, request_id=tokens.request_id & _OWN)


def main(descriptor: int, parent: int) -> int:
    """Load, then step until the parent stops the process or is gone; return the exit code."""
    connection = ParentConnection(descriptor)
    try:
        die_with_parent(parent)
        # Imports make objects that stay. Collecting among them cost the server 0.06 of 0.76 s of
        # its own imports (decision 0074).
        collect_seldom()
        # `import openvino` brings its model converter: two thirds of the import's time and 15 MB
        # (decision 0074).
        leave_out_converter()
        # openvino_genai imports the converter of openvino_tokenizers only to find a library: 0.08 s
        # (decision 0077).
        leave_out_tokenizers()
        # Before the first message, which a server that is still starting sends later.
        with contextlib.suppress(Exception):  # `_load` reports it
            # Imported while the server is still importing: the first model's processes start before
            # that (decision 0065).
            import_module("calculators.llm.engine.pipelines")
        load = _first_message(connection)
        core = _load(load, connection)
        if core is None:
            return 1
        if connection.is_shared:
            _run_shared(core, connection)
        else:
            _run(core, connection)
    except ParentGone:
        return 0
    except RuntimeError as error:
        # After an exception in a step the pipeline is unusable; the server starts a new process.
        sys.stderr.write(f"the engine failed: {library_reason(error)}\n")
        return 1
    return 0


def _first_message(connection: ParentConnection) -> EngineLoad:
    while True:
        for frame in connection.receive(wait=True):
            message = to_engine_decoder.decode(frame)
            assert isinstance(message, EngineLoad), message
            return message


def _load(load: EngineLoad, connection: ParentConnection) -> EngineCore | None:
    encode = msgspec.msgpack.encode
    if load.version != VERSION:
        reason = f"the engine speaks version {VERSION} of the protocol, the server {load.version}"
        connection.send(encode(LoadFailed(reason)))
        return None
    try:
        # Imported here, as its import may fail.
        from calculators.llm.engine.pipelines import open_pipeline

        def report(news: LoadingPhase | Log) -> None:
            connection.send(encode(news))

        pipeline = open_pipeline(load.settings, connection.wake, report)
    except Exception as error:
        connection.send(encode(LoadFailed(load_failure(load.settings.model_path, error))))
        return None
    connection.send(encode(pipeline.ready()))
    return EngineCore(pipeline, SECONDS_PER_STREAM)


def _run(core: EngineCore, connection: ParentConnection) -> None:
    encode = msgspec.msgpack.Encoder().encode
    decode = to_engine_decoder.decode
    while True:
        # Handle the messages that have arrived; wait for one when there is nothing to do.
        seconds = SIGN_SECONDS if core.is_busy else None
        for frame in connection.receive(wait=not core.has_work, seconds=seconds):
            message = decode(frame)
            if isinstance(message, StopChild):
                return
            core.handle(message)
        if core.has_work:
            for output in core.step():
                connection.send(encode(output))


def _run_shared(core: EngineCore, connection: ParentConnection) -> None:
    """`_run` for the workers of one server, each on a link of its own."""
    encode = msgspec.msgpack.Encoder().encode
    decode = to_engine_decoder.decode
    requests = SharedRequests()
    while True:
        seconds = SIGN_SECONDS if core.is_busy else None
        for frame in connection.receive(wait=not core.has_work, seconds=seconds):
            message = decode(frame)
            if isinstance(message, StopChild):
                return
            core.handle(requests.inward(connection.link, message))
        while connection.gone:
            for cancel in requests.end(connection.gone.pop()):
                core.handle(cancel)
        if core.has_work:
            for output in core.step():
                if isinstance(output, Step):
                    for link, step in requests.outward(output):
                        connection.send_to(link, encode(step))
                else:
                    encoded = encode(output)
                    # Metrics are the engine's, and every worker exports them.
                    for link in connection.links:
                        connection.send_to(link, encoded)


if __name__ == "__main__":
    # Without the library's destructors: they are slow, and complain about requests that still run.
    os._exit(main(int(sys.argv[1]), int(sys.argv[2])))
