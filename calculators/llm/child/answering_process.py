"""A child that loads something of a model once, and then answers one question after the other."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, Protocol, cast

import msgspec

from calculators.child_process.framing import Frame
from calculators.child_process.messages import LoadFailed, Stop
from calculators.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from calculators.llm.child.load_failure import load_failure


class ModelLoad(Protocol):
    """The first message.

    Attributes:
        memory_limit: bytes that the process may grow by when it has loaded.
    """

    @property
    def model_path(self) -> str: ...

    @property
    def memory_limit(self) -> int: ...


#: Loads; returns what to tell the parent, and what answers its questions.
Loader = Callable[[Any], tuple[msgspec.Struct, Callable[[Any], msgspec.Struct]]]


def run(
    descriptor: int, parent: int, decode: Callable[[Frame], Any], load_type: type, loader: Loader
) -> int:
    """Load, then answer until the parent says stop or is gone; the exit code.

    ``loader`` is called once, with the message of ``load_type``, a `ModelLoad`; what it raises is
    told as `LoadFailed`.
    """
    connection = ParentConnection(descriptor)
    try:
        die_with_parent(parent)
        return _run(connection, decode, load_type, loader)
    except ParentGone:
        return 0


def _run(
    connection: ParentConnection, decode: Callable[[Frame], Any], load_type: type, loader: Loader
) -> int:
    encode = msgspec.msgpack.Encoder().encode
    answer: Callable[[Any], msgspec.Struct] | None = None
    while True:
        for frame in connection.receive(wait=True):
            message = decode(frame)
            if isinstance(message, Stop):
                return 0
            if isinstance(message, load_type):
                load = cast(ModelLoad, message)
                try:
                    ready, answer = loader(load)
                except Exception as error:
                    connection.send(encode(LoadFailed(load_failure(load.model_path, error))))
                    return 1
                _limit_memory(load.memory_limit)
                connection.send(encode(ready))
            else:
                assert answer is not None
                connection.send(encode(answer(message)))


def _limit_memory(further_bytes: int) -> None:
    """Let this process grow by so much and no more, where the system can do that."""
    if sys.platform != "linux":
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + further_bytes
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
