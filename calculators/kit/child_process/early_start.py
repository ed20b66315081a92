"""Child processes that start before the server wants them, while it still imports its own modules.

A child imports its libraries and waits for its first message, so it can do that beside the server.
Where that message is known early enough, the child loads beside the server's imports too.
`ChildProcess.start` takes such a child if its module, environment and first message are the ones
that `start` would use.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from calculators.kit.child_process.framing import SHORT, framed

_waiting: Final[dict[str, EarlyChild]] = {}


@dataclass(frozen=True, slots=True)
class EarlyChild:
    """A child that no `ChildProcess` has taken yet.

    Attributes:
        connection: the server's end.
        output: the reading end of its standard error.
        environment: all its variables.
        first_message: empty if none was sent.
    """

    process: subprocess.Popen[bytes]
    connection: socket.socket
    output: int
    environment: Mapping[str, str]
    first_message: bytes = b""

    def end(self) -> None:
        """Kill the child, which has nothing to lose, and wait for its end."""
        self.connection.close()
        os.close(self.output)
        self.process.kill()
        self.process.wait()


def start_early(module: str, defaults: Mapping[str, str] = MappingProxyType({})) -> None:
    """Start ``python -m module DESCRIPTOR PARENT``, one of each module. Does nothing on failure.

    ``defaults``: environment variables for it, unless this process has them.
    """
    if module in _waiting:
        return
    environment = child_environment(defaults)
    try:
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe()
    except OSError:
        return
    try:
        process = start_module(module, [theirs.fileno()], writer, environment)
    except OSError:
        ours.close()
        os.close(reader)
        return
    finally:
        theirs.close()
        os.close(writer)
    _waiting[module] = EarlyChild(process, ours, reader, environment)


def tell_early(module: str, message: bytes) -> None:
    """Send the first message to the waiting child of a module, if there is one."""
    child = _waiting.get(module)
    if child is None or child.first_message or len(message) >= SHORT:
        return
    try:
        child.connection.sendall(b"".join(framed(message)))
    except OSError:  # the child has ended: `take_early` discards it
        return
    _waiting[module] = replace(child, first_message=message)


def take_early(module: str, defaults: Mapping[str, str], first: bytes = b"") -> EarlyChild | None:
    """Return the waiting child of a module; None if there is none that fits.

    ``first``: the message that it shall get; a child that has received another does not fit.
    """
    child = _waiting.pop(module, None)
    if child is None:
        return None
    # Paths for imports may have been added since, and the child may have ended.
    is_usable = child.environment == child_environment(defaults) and child.process.poll() is None
    # A child with another first message has loaded another model. Ended and started again it costs
    # what it would have cost without the early start (decision 0077).
    if is_usable and child.first_message in (b"", first):
        return child
    child.end()
    return None


def end_untaken() -> None:
    """End the children that are still waiting."""
    while _waiting:
        _waiting.popitem()[1].end()


def start_module(
    module: str, descriptors: Sequence[int], stderr: int | None, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start ``python -P -m module DESCRIPTOR PARENT``.

    Args:
        descriptors: the child's end of the connection, and others that it inherits.
        stderr: a descriptor for its standard error; None: the server's own.

    Raises:
        OSError: the system has no process left.
    """
    # A new program and not a fork of one with libraries in it: OpenBLAS has threads before any
    # fork, and engines need their `GLIBC_TUNABLES` when a program starts (decision 0074).
    return subprocess.Popen(
        [*python_module(module), str(descriptors[0]), str(os.getpid())],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        # Standard output is the command line's: a library that prints there would corrupt what
        # `--json` writes.
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env=environment,
    )


def python_module(module: str) -> tuple[str, ...]:
    """Return the command that runs a module of graphrt; it wants a `child_environment`.

    The working directory is not the first place where it is searched for: an author's folder there
    may be called ``calculators`` too.
    """
    return (sys.executable, "-P", "-m", module)


def child_environment(defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a child: this process's, with its import path.

    With the path, packages that are not installed are found too, and at last what lies in the
    working directory.
    """
    # While a thread imports OpenCV, its folder is the first of the path, and has a module `typing`:
    # a child that starts then could import nothing.
    paths = [path for path in sys.path if path and os.path.basename(path) != "cv2"]
    # Unbuffered, so that the last lines of a process that crashes reach the log.
    path = os.pathsep.join([*paths, os.curdir])
    return {**defaults, **os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
