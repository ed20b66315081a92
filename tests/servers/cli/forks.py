"""Programs that begin as forks of a process that has imported their modules already.

A process with `serve_forks` forks for each request that `ask` sends. Between the two stands a
process that waits for the program and reports its exit code, as only a parent can.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import io
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from calculators.kit.child_process.parent_connection import die_with_parent

_MOST_BYTES: Final = 1 << 20
#: Fields of ``/proc/PID/stat`` after the name: the addresses where the command line is.
_COMMAND_LINE: Final = slice(45, 47)
#: The last word of a process that forks: room for the command lines of its forks.
ROOM: Final = "-" * 500


@dataclass(frozen=True, slots=True)
class Program:
    """A program as ``python -m module words`` would start it."""

    module: str
    words: Sequence[str]
    directory: str
    environment: Mapping[str, str]


def wires() -> tuple[socket.socket, socket.socket]:
    """Make both ends of a connection for requests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _MOST_BYTES)
    return ours, theirs


def ask(wire: socket.socket, program: Program, descriptors: Mapping[int, int]) -> ForkedProcess:
    """Start a program. ``descriptors``: by its own numbers, ours, which it shares.

    Raises:
        ValueError: the words and the environment are too long.
    """
    request = json.dumps([asdict(program), list(descriptors)]).encode()
    if len(request) > _MOST_BYTES:
        raise ValueError("the words and the environment of a program are too long")
    ending, ended = os.pipe()
    try:
        socket.send_fds(wire, [request], [*descriptors.values(), ended])
    finally:
        os.close(ended)
    return ForkedProcess(ending)


class ForkedProcess:
    """A running program: what `subprocess.Popen` would be to who started it."""

    def __init__(self, ending: int) -> None:
        """``ending`` is a pipe that the process id is read from, and, at the end, the exit code."""
        # Without a buffer, in which the exit code could be while `poll` looks at the pipe.
        self._ending = io.FileIO(ending)
        self.returncode: int | None = None
        self.pid = self._read()

    def poll(self) -> int | None:
        """Return the exit code; None while the program runs."""
        if self.returncode is None and select.select([self._ending], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        """Wait for the end; return the exit code.

        Raises:
            TimeoutError: the program still runs after ``seconds``.
        """
        if self.returncode is None:
            if not select.select([self._ending], [], [], seconds)[0]:
                raise TimeoutError(f"the program has not ended in {seconds} s")
            self._end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # its exit code is on the way
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        self.returncode = self._read()
        self._ending.close()

    def _read(self) -> int:
        line = self._ending.readline()
        if not line:
            self._ending.close()
            raise RuntimeError("the process that forks is gone")
        return int(line)


# In the process that forks -----------------------------------------------------------------------


def serve_forks(wire: socket.socket, *, are_bound: bool) -> Program:
    """Fork for each request until nobody can ask any more; return in the fork, as the program.

    ``are_bound``: the programs end with this process.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    here = os.getpid()
    while True:
        request, fds, _, _ = socket.recv_fds(wire, _MOST_BYTES, 32)
        if not request:
            os._exit(0)
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if are_bound:
                die_with_parent(here)
            ended = fds.pop()
            program = os.fork()
            if not program:
                os.close(ended)
                wire.close()
                made, numbers = json.loads(request)
                _place(fds, numbers)
                return Program(**made)
            for fd in fds:
                os.close(fd)
            os.write(ended, b"%d\n" % program)
            _, status = os.waitpid(program, 0)
            os.write(ended, b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        for fd in fds:
            os.close(fd)


def become(program: Program) -> None:
    """Give this process the directory, environment, arguments and path of a program.

    What is left is to run the module.
    """
    os.chdir(program.directory)
    os.environ.clear()
    os.environ.update(program.environment)
    rename_process([sys.executable, "-m", program.module, *program.words])
    found = find_spec(program.module)
    assert found is not None
    file = Path(found.origin or "")
    if file.name == "__init__.py":
        file = file.with_name("__main__.py")
    sys.argv = [str(file), *program.words]
    # As `python -m` does.
    paths = program.environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = dict.fromkeys([program.directory, *filter(None, paths), *sys.path[1:]])


def end_after(main: Callable[[], object]) -> NoReturn:
    """Run a program, then end as Python does, but without taking its modules apart.

    Each object that is released is written to, so the process would copy most of the memory that
    it shares with the one that forks: a tenth of a second.
    """
    try:
        code = main()
    except SystemExit as error:
        code = error.code
    if not isinstance(code, int | None):
        sys.exit(str(code))  # which is printed
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError:
        sys.exit(code)  # nobody reads it: Python has an exit code for that
    os._exit((code or 0) & 0xFF)


def rename_process(words: Sequence[str]) -> None:
    """Show other words as the command line of this process, as far as there is room."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = map(int, fields[_COMMAND_LINE])
    shown = "".join(f"{word}\0" for word in words).encode()[: end - begin - 1]
    ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)


def _place(fds: Sequence[int], numbers: Sequence[int]) -> None:
    """Move descriptors to the numbers that the program knows."""
    beyond = max(*fds, *numbers) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, beyond) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number)
        os.close(fd)
