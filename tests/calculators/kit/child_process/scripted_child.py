"""A child process that follows a script; see `calculators.kit.child_process`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from calculators.kit.child_process.messages import LoadFailed, StopChild
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)

MODULE = (
    __name__ if __name__ != "__main__" else "tests.calculators.kit.child_process.scripted_child"
)


class Load(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """A script for the load; ``file``, if it exists, holds another one."""

    script: str = "ready"
    file: str = ""


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    pid: int


class Say(msgspec.Struct, frozen=True, tag="say", array_like=True):
    """A question: the child answers with the same text, or does what the text says."""

    text: str


to_child = msgspec.msgpack.Decoder(Load | Say | StopChild)
from_child: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Ready | LoadFailed | Say)


def do(script: str, connection: ParentConnection) -> None:
    """Misbehave as the text says, or return."""
    match script:
        case "exit":
            sys.exit(3)
        case "abort":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            time.sleep(600)
        case "spin":
            while True:
                pass
        case "no message":
            connection.send(b"\xc1 this is not a message")
        case "no frame":
            os.write(connection._socket.fileno(), b"\xff" * 64)
        case _:
            pass


def main(descriptor: int, parent: int) -> None:
    connection = ParentConnection(descriptor)
    try:
        die_with_parent(parent)
        while True:
            for frame in connection.receive(wait=True):
                message = to_child.decode(frame)
                if isinstance(message, StopChild):
                    return
                if isinstance(message, Load):
                    file = Path(message.file)
                    script = file.read_text() if file.is_file() else message.script
                    if script.startswith("fail "):
                        connection.send(msgspec.msgpack.encode(LoadFailed(script[5:])))
                        return
                    do(script, connection)
                    connection.send(msgspec.msgpack.encode(Ready(os.getpid())))
                else:
                    do(message.text, connection)
                    connection.send(msgspec.msgpack.encode(message))
    except ParentGone:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
