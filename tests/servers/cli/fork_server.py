"""A process that has imported the command line, and forks for each command.

Python and the imports of a command take more than half a second of processor time, and most
commands themselves a few milliseconds. Each command, a server too, still has a process, standard
streams, directory, environment and end of its own; limits of resources are those of the forking
process. ``test_usage`` tests which modules a command imports by itself, and ``tests/release`` and
``tests/documents`` start servers as users do.

`ForkedCommands` is the client, in the process of the tests; this module run as a program is the
server, which ends with its client.
"""

from __future__ import annotations

import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

#: What commands import; nothing here starts a thread or opens a model library.
_IMPORTED: Final = (
    "calculators.core",
    "calculators.embeddings.embeddings_calculator_ov",
    "calculators.embeddings.resources",
    "calculators.embeddings.task",
    "calculators.rerank.rerank_calculator_ov",
    "calculators.rerank.resources",
    "calculators.rerank.task",
    "calculators.rerank.text_rerank_calculator",
    "calculators.image.calculators",
    "calculators.image_generation.resources",
    "calculators.image_generation.task",
    "calculators.llm.http_llm_calculator",
    "calculators.llm.resources",
    "calculators.llm.task",
    "calculators.python.resources",
    "calculators.speech_to_text.resources",
    "calculators.speech_to_text.task",
    "calculators.text_to_speech.resources",
    "calculators.text_to_speech.task",
    "calculators.python.python_executor_calculator",
    "calculators.python.py_tensor_ov_tensor_converter_calculator",
    "calculators.text_classification.resources",
    "calculators.text_classification.task",
    "calculators.text_classification.text_classification_calculator",
    "calculators.text_classification.text_classification_calculator_ov",
    "google.protobuf.text_format",
    "protos.pool",
    "servers.cli.describe",
    "servers.cli.graph_check",
    "servers.cli.parse_output",
    "servers.cli.render_prompt",
    "servers.cli.run",
    "servers.cli.serve",
    "servers.cli.validate",
)
_MOST_BYTES: Final = 1 << 20


class ForkedCommands:
    """Commands in forks of one process, which is started by the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wire: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

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
        code = command.wait()
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
    ) -> ForkedCommand:
        """Start ``python -m servers.cli`` with these words; its streams are these descriptors."""
        request = json.dumps([list(words), str(cwd), dict(environment)]).encode()
        if len(request) > _MOST_BYTES:
            raise ValueError("the words and the environment of a command are too long")
        ending, ended = os.pipe()
        try:
            with self._lock:
                if self._wire is None:
                    self._wire, self._server = _start()
                socket.send_fds(self._wire, [request], [stdin, stdout, stderr, ended])
        finally:
            os.close(ended)
        return ForkedCommand(ending)


class ForkedCommand:
    """A running command: what the tests use of `subprocess.Popen`."""

    def __init__(self, ending: int) -> None:
        """``ending`` is a pipe that the process id is read from, and, at the end, the exit code."""
        # Without a buffer, in which the exit code could be while `poll` looks at the pipe.
        self._ending = io.FileIO(ending)
        self.returncode: int | None = None
        self.pid = self._read()

    def poll(self) -> int | None:
        """Return the exit code; None while the command runs."""
        if self.returncode is None and select.select([self._ending], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        """Wait for the end; return the exit code.

        Raises:
            TimeoutError: the command still runs after ``seconds``.
        """
        if self.returncode is None:
            if not select.select([self._ending], [], [], seconds)[0]:
                raise TimeoutError(f"the command has not ended in {seconds} s")
            self._end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
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
            raise RuntimeError("the process that forks commands is gone")
        return int(line)


def _start() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _MOST_BYTES)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.cli.fork_server", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        cwd=Path(__file__).parents[3],
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


def _serve(wire: socket.socket) -> None:
    """Fork for each request until the client is gone; return in the forked process of a command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    while True:
        request, fds, _, _ = socket.recv_fds(wire, _MOST_BYTES, 4)
        if not request:
            os._exit(0)
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ended = fds.pop()
            command = os.fork()
            if not command:
                os.close(ended)
                wire.close()
                _become(request, fds)
                return
            for fd in fds:
                os.close(fd)
            os.write(ended, b"%d\n" % command)
            _, status = os.waitpid(command, 0)
            os.write(ended, b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        for fd in fds:
            os.close(fd)


def _become(request: bytes, fds: Sequence[int]) -> None:
    """Give this process the arguments, streams, directory and environment of a command."""
    words, cwd, environment = json.loads(request)
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    program = import_module("servers.cli").__file__ or ""
    sys.argv = [str(Path(program).with_name("__main__.py")), *words]
    sys.path[0] = cwd  # as `python -m` does


def main() -> NoReturn:
    wire = socket.socket(fileno=int(sys.argv[1]))
    wire.set_inheritable(False)
    for name in _IMPORTED:
        import_module(name)
    gc.freeze()  # a collection in a fork would copy all pages
    _serve(wire)
    from servers.cli import main as graphrt

    sys.exit(graphrt())


if __name__ == "__main__":
    main()
