"""A process that has imported the command line, and forks for each command.

Python and the imports of a command take more than half a second of processor time, and most
commands themselves a few milliseconds. Each command, a server too, still has a process, standard
streams, directory, environment and end of its own; limits of resources are those of the forking
process. ``test_usage`` tests which modules a command imports by itself, and ``tests/release`` and
``tests/documents`` start servers as users do.

The children of a server are forked as well (`forked_children`): their imports take as long.

`ForkedCommands` is the client, in the process of the tests; this module run as a program is the
server, which ends with its client.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, NoReturn

from calculators.kit.child_process.lean_openvino import leave_out_converter, leave_out_tokenizers
from calculators.kit.machine import cpu_flags
from calculators.kit.tasks import ENTRY_POINT_GROUP
from graph_runtime import Registry
from tests.servers.cli.forked_children import IMPORTED_BY_CHILDREN, fork_children, run_child
from tests.servers.cli.forks import (
    ROOM,
    ForkedProcess,
    Program,
    ask,
    become,
    end_after,
    rename_process,
    serve_forks,
    wires,
)
from tests.support.checkout import ROOT

NAME: Final = "tests.servers.cli.fork_server"
_COMMANDS: Final = "servers.cli"
#: Seconds until a command is asked to end.
LONGEST_SECONDS: Final = 150
#: Commands that start child processes.
_PARENTS: Final = frozenset({"serve", "tune"})

#: What commands import beside the nodes of tasks; nothing here starts a thread.
_IMPORTED: Final = (
    "calculators.core",
    "calculators.images.image.calculators",
    "calculators.tensors.python.resources",
    "calculators.tensors.python.python_executor_calculator",
    "calculators.tensors.python.py_tensor_ov_tensor_converter_calculator",
    "google.protobuf.text_format",
    "protos.pool",
    "servers.cli.describe",
    "servers.cli.detect",
    "servers.cli.graph_check",
    "servers.cli.parse_output",
    "servers.cli.render_prompt",
    "servers.cli.run",
    "servers.cli.serve",
    "servers.cli.validate",
)


class ForkedCommands:
    """Commands in forks of one process, which is started by the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wire: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process that forks, once there has been a command."""
        assert self._server is not None
        return self._server.pid

    def close(self) -> None:
        """End the process; another command starts it again."""
        with self._lock:
            wire, server = self._wire, self._server
            self._wire = self._server = None
        if wire is not None and server is not None:
            wire.close()
            server.wait()

    def run(
        self, words: Sequence[str], feed: bytes, cwd: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        """Run ``python -m servers.cli`` with these words to its end."""
        pipes = [os.pipe() for _ in range(3)]
        (stdin, feeding), (reading_out, stdout), (reading_err, stderr) = pipes
        try:
            command = self.start(words, cwd, environment, stdin, stdout, stderr)
        finally:
            for theirs in (stdin, stdout, stderr):
                os.close(theirs)
        read: dict[int, bytes] = {}
        threads = [
            threading.Thread(target=_feed, args=(feeding, feed)),
            threading.Thread(target=_read, args=(reading_out, read)),
            threading.Thread(target=_read, args=(reading_err, read)),
        ]
        for thread in threads:
            thread.start()
        # One that serves, where it should have failed, would not end.
        ending = threading.Timer(LONGEST_SECONDS, command.send_signal, (signal.SIGTERM,))
        ending.start()
        code = command.wait()
        ending.cancel()
        for thread in threads:
            thread.join()
        args = [sys.executable, "-m", "servers.cli", *words]
        return subprocess.CompletedProcess(args, code, read[reading_out], read[reading_err])

    def start(
        self,
        words: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> ForkedProcess:
        """Start ``python -m servers.cli`` with these words; its streams are these descriptors."""
        program = Program(_COMMANDS, words, str(cwd), environment)
        return self.fork(program, {0: stdin, 1: stdout, 2: stderr})

    def fork(self, program: Program, descriptors: Mapping[int, int]) -> ForkedProcess:
        """Start a program. ``descriptors``: by its own numbers, ours, which it shares."""
        with self._lock:
            if self._wire is None:
                self._wire, self._server = _start()
            return ask(self._wire, program, descriptors)


def _start() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = wires()
    server = subprocess.Popen(
        [sys.executable, "-m", NAME, str(theirs.fileno()), ROOM],
        pass_fds=[theirs.fileno()],
        cwd=ROOT,
        # Its threads would not be there after a fork.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    theirs.close()
    return ours, server


def _feed(pipe: int, data: bytes) -> None:
    with open(pipe, "wb", buffering=0) as file:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
        except BrokenPipeError:
            pass  # the command did not read all of it


def _read(pipe: int, into: dict[int, bytes]) -> None:
    with open(pipe, "rb") as file:
        into[pipe] = file.read()


# The server --------------------------------------------------------------------------------------


def main() -> NoReturn:
    wire = socket.socket(fileno=int(sys.argv[1]))
    wire.set_inheritable(False)
    leave_out_converter()
    leave_out_tokenizers()
    for name in (*_IMPORTED, *IMPORTED_BY_CHILDREN):
        import_module(name)
    for point in entry_points(group=ENTRY_POINT_GROUP):
        point.load().register(Registry())
    _openvino_core()
    gc.freeze()  # a collection in a fork would copy all pages
    rename_process([sys.executable, "-m", NAME, *sys.argv[1:2]])
    program = serve_forks(wire, are_bound=False)
    if program.module != _COMMANDS:
        run_child(program)
    if program.words and program.words[0] in _PARENTS:
        fork_children()
    become(program)
    from servers.cli import main as graphrt

    end_after(graphrt)


@cache
def _openvino_core() -> Any:
    """Make and keep a core, with which the library of the processor's kernels is loaded.

    It looks at the cores of the process now, and sees one, so models have one thread in the forks.
    Threads of a model wait for one another by spinning, which takes the time of other processes
    where more of them compute than there are cores: half of an engine's for a few tokens. With AMX
    one thread would mean another precision (`calculators.llm.engine.pipelines`).
    """
    cores = os.sched_getaffinity(0)
    if "amx_bf16" not in cpu_flags():
        os.sched_setaffinity(0, {min(cores)})
    core = import_module("openvino").Core()
    core.get_property("CPU", "FULL_DEVICE_NAME")
    os.sched_setaffinity(0, cores)
    return core


if __name__ == "__main__":
    main()
