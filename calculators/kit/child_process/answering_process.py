"""A child process that loads once, and then answers one question after the other."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, cast

import msgspec

from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.lean_openvino import leave_out_converter, load_failure
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from calculators.kit.memory import return_free_memory

_LOGGER: Final = "graphrt.child"
#: Bytes of a question and its answer, after which free memory is given back.
_LARGE: Final = 4 * 1024 * 1024


class ModelLoad(Protocol):
    """The first message.

    Attributes:
        memory_limit: bytes that the process may grow by after loading.
    """

    @property
    def model_path(self) -> str: ...

    @property
    def memory_limit(self) -> int: ...


#: Reports that a phase of loading has begun.
Report = Callable[[LoadingPhase], None]

#: Loads; returns the message for the parent, and the function that answers questions.
Loader = Callable[[Any, Report], tuple[msgspec.Struct, Callable[[Any], msgspec.Struct]]]


#: Makes the answer to a question that raised, from a reason for the client.
Failure = Callable[[str], msgspec.Struct]


def run(
    descriptor: int,
    parent: int,
    decode: Callable[[Frame], Any],
    load_type: type,
    loader: Loader,
    failure: Failure,
) -> int:
    """Load, then answer until the parent sends `StopChild` or is gone; returns the exit code.

    ``loader`` is called once, with the message of ``load_type``, a `ModelLoad`, and a function that
    reports its phases; its exception is reported as `LoadFailed`. An exception while answering a
    question becomes that question's ``failure``; later questions are answered.
    """
    # Before any import of openvino: the converter is two thirds of its time, and 15 MB in each
    # child (decision 0074).
    leave_out_converter()
    connection = ParentConnection(descriptor)
    try:
        # A child whose server was killed would keep the memory of its model, and a new server would
        # load beside it.
        die_with_parent(parent)
        return _run(connection, decode, load_type, loader, failure)
    except ParentGone:
        return 0


def _run(
    connection: ParentConnection,
    decode: Callable[[Frame], Any],
    load_type: type,
    loader: Loader,
    failure: Failure,
) -> int:
    encode = msgspec.msgpack.Encoder().encode
    answer: Callable[[Any], msgspec.Struct] | None = None
    while True:
        for frame in connection.receive(wait=True):
            try:
                message = decode(frame)
                if isinstance(message, StopChild):
                    return 0
                if isinstance(message, load_type):
                    load = cast(ModelLoad, message)
                    try:
                        ready, answer = loader(load, lambda phase: connection.send(encode(phase)))
                    except Exception as error:
                        connection.send(encode(LoadFailed(load_failure(load.model_path, error))))
                        return 1
                    # After loading, so that the limit bounds what questions take, whatever the size
                    # of the model (decision 0004: templates come from strangers).
                    limit_memory(load.memory_limit)
                    connection.send(encode(ready))
                    return_free_memory()  # loading leaves some
                    continue
                assert answer is not None
                answered = encode(answer(message))
            except ParentGone:
                raise
            except Exception as error:
                # Neither prompts nor texts of exceptions are logged: they may quote a client.
                connection.send(encode(Log(logging.ERROR, _LOGGER, describe_failure(error))))
                answered = encode(failure(failure_reason(error)))
            connection.send(answered)
            if len(frame) + len(answered) >= _LARGE:
                # What was made of it was larger still.
                del frame, answered
                message = None
                return_free_memory()


def failure_reason(error: Exception) -> str:
    """Return the reason of an error, for the client."""
    if isinstance(error, MemoryError):
        return "the request needs too much memory"
    if isinstance(error, RecursionError):
        return "the request has values nested too deeply"
    if isinstance(error, UnicodeError):
        return "the request has a text that is not Unicode (half of a surrogate pair)"
    return "the request cannot be handled"


def describe_failure(error: Exception) -> str:
    """Type and place of an error for the log, without its text, which may quote the client."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        place = f" in {frame.f_code.co_qualname} ({Path(frame.f_code.co_filename).name}:{line})"
    return f"a request failed: {type(error).__name__}{place}"


def limit_memory(further_bytes: int) -> None:
    """Limit the growth of this process's memory, where the system can do that."""
    if sys.platform != "linux":
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + further_bytes
    # A container may have a lower hard limit already.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
