"""A process that has imported the command line, and forks for each command.

Python and the imports of a command take half a second of processor time, the command itself a few
milliseconds. Each command still has a process, standard streams, directory, environment and end of
its own. ``test_usage`` tests which modules a command imports by itself.

`ForkedCommands` is the client, in the process of the tests; this module run as a program is the
server, which ends with its client.
"""

from __future__ import annotations

import gc
import json
import os
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
    "calculators.llm.http_llm_calculator",
    "calculators.llm.resources",
    "calculators.llm.task",
    "calculators.python.resources",
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
        pipes = [os.pipe() for _ in range(4)]
        (stdin, feeding), (reading_out, stdout), (reading_err, stderr), (ending, ended) = pipes
        request = json.dumps([list(words), str(cwd), dict(environment)]).encode()
        if len(request) > _MOST_BYTES:
            raise ValueError("the words and the environment of a command are too long")
        with self._lock:
            if self._wire is None:
                self._wire, self._server = _start()
            socket.send_fds(self._wire, [request], [stdin, stdout, stderr, ended])
        for theirs in (stdin, stdout, stderr, ended):
            os.close(theirs)
        read: dict[int, bytes] = {}
        threads = [
            threading.Thread(target=_feed, args=(feeding, feed)),
            threading.Thread(target=_read, args=(reading_out, read)),
            threading.Thread(target=_read, args=(reading_err, read)),
        ]
        for thread in threads:
            thread.start()
        _read(ending, read)
        for thread in threads:
            thread.join()
        if not read[ending]:
            raise RuntimeError("the process that forks commands is gone")
        args = [sys.executable, "-m", "servers.cli", *words]
        code = int(read[ending])
        return subprocess.CompletedProcess(args, code, read[reading_out], read[reading_err])


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
            _, status = os.waitpid(command, 0)
            os.write(ended, str(os.waitstatus_to_exitcode(status)).encode())
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
