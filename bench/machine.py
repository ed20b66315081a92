"""What benchmarks share: servers to measure, what processes use, tables, and the file of a report.

`ServerProcess` runs ``graphrt serve``, `OtherServer` another server of an HTTP API, `own_server` a
module of this folder that serves. What processes use comes from ``/proc``: this needs Linux. The
machine is described without its name.

A module with one command makes its parser with `report_parser`; `run_command` is for several.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.metadata
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self

from calculators.kit.memory import resident_bytes
from tests.support.checkout import ROOT as ROOT
from tests.support.processes import children_of
from tests.support.processes import cpu_seconds as cpu_seconds

#: The example model, with its graph.
DEMO: Final = ROOT / "examples" / "models" / "demo"
MIB: Final = 1 << 20
#: A graph that passes tensors on.
PASS_THROUGH: Final = """
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"""
_PROC: Final = Path("/proc")
_PACKAGES: Final = ("graphrt", "openvino", "openvino-genai", "aiohttp", "uvloop")


# What processes use -------------------------------------------------------------------------------


def nanoseconds(pid: int) -> int:
    """Return the time that a process's threads have had a processor, finer than `cpu_seconds`."""
    tasks = (_PROC / str(pid) / "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def family(pid: int) -> list[int]:
    """Return the ids of a process and its children."""
    return [pid, *children(pid)]


def family_seconds(pid: int) -> float:
    """Return the processor time of a process and its children so far."""
    return sum(map(cpu_seconds, family(pid)))


def family_bytes(pid: int) -> int:
    """Return the memory of a process and its children (PSS)."""
    return sum(map(proportional_bytes, family(pid)))


def involuntary_switches(pid: int) -> int:
    """Return how often a thread of a process has lost its processor while it could have gone on."""
    found = 0
    for task in (_PROC / str(pid) / "task").iterdir():
        for line in (task / "status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("nonvoluntary_ctxt_switches:"):
                found += int(line.split()[1])
    return found


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had; 0 if it has ended."""
    try:
        lines = (_PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = [line for line in lines.splitlines() if line.startswith("VmHWM:")]
    return int(found[0].split()[1]) * 1024 if found else 0


def proportional_bytes(pid: int) -> int:
    """Return a process's memory, where a page of several processes counts in parts (PSS)."""
    for line in (_PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid}: the kernel does not say")


def children(pid: int) -> dict[int, list[str]]:
    """Return the arguments of a process's children, by process id."""
    found = {}
    for child in children_of(pid):
        data = (_PROC / str(child) / "cmdline").read_bytes()
        found[child] = [part.decode(errors="replace") for part in data.split(b"\0")]
    return found


# Servers ------------------------------------------------------------------------------------------

_ADDRESS: Final = re.compile(r"graphrt serves (http://\S+)")
_GRPC_ADDRESS: Final = re.compile(r"graphrt serves grpc://(\S+)")
#: Part of the server by the module that its process runs.
PARTS: Final = {
    "calculators.llm.engine.process": "engine",
    "calculators.llm.prompt.process": "prompts",
}
#: Seconds within which another server must answer; vLLM compiles its model first.
_START: Final = 900.0
_STOP: Final = 40.0


class _Server:
    """A server in a process of its own. Use it as a context manager.

    Attributes:
        url: the server's URL.
        model: the name of its model.
        pids: process ids by part; that of ``server`` is the process that was started.
    """

    url: str
    model: str

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (see close)
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            # Its children are in its process group and end with it.
            start_new_session=True,
        )
        self.pids = {"server": self._process.pid}
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        """Wait until the server answers.

        Raises:
            RuntimeError: the server ended, or did not answer in time.
        """
        raise NotImplementedError

    @property
    def address(self) -> str:
        """Host and port of HTTP."""
        return self.url.partition("//")[2].partition("/")[0]

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and its children."""
        self._process.terminate()
        try:
            self._process.wait(_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._log.close()


class ServerProcess(_Server):
    """`graphrt serve` with one graph or model, on a free port.

    Attributes:
        grpc_address: host and port of gRPC, "" without it.
        pids: also those of the parts ``engine`` and ``prompts``.
    """

    grpc_address: str

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        command: tuple[str, ...] = (sys.executable, "-m", "servers.cli"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it and wait until the model is loaded. ``command`` runs `graphrt`.

        Raises:
            RuntimeError: the server ended before it was ready.
        """
        named = [value for name, value in pairwise(arguments) if name == "--model_name"]
        self.model = named[0] if named else directory.resolve().name
        words = ("serve", str(directory), "--rest_port", "auto", "--log_level", "ERROR")
        super().__init__([*command, *words, *arguments], environment or {})
        for pid, said in children(self._process.pid).items():
            self.pids.update((name, pid) for module, name in PARTS.items() if module in said)

    def _wait(self) -> None:
        while True:
            ended = self._process.poll() is not None
            said = self._said()
            # A request to try out ends the text that the server prints when everything is loaded.
            address = _ADDRESS.search(said)
            if address and "try:" in said:
                self.url = address[1]
                self.grpc_address = next(iter(_GRPC_ADDRESS.findall(said)), "")
                return
            if ended or (address and "failed:" in said):
                raise RuntimeError(f"the server did not start:\n{said}")
            time.sleep(0.05)

    def cpu(self) -> dict[str, float]:
        """Return the seconds of CPU time so far, by part."""
        return {name: cpu_seconds(pid) for name, pid in self.pids.items()}

    def resident(self) -> int:
        """Return the memory of the server's own process in bytes."""
        return resident_bytes(self.pids["server"]) or 0


class OtherServer(_Server):
    """Another server with ``/health``, of which `url` includes the path of its requests."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        path: str = "/v1/chat/completions",
        model: str = "model",
    ) -> None:
        """Start it on a free port and wait until it answers.

        Raises:
            RuntimeError: the server ended, or did not answer in time.
        """
        with socket.socket() as place:
            place.bind(("127.0.0.1", 0))
            port = place.getsockname()[1]
        self.model, self.path = model, path
        self.url = f"http://127.0.0.1:{port}{path}"
        super().__init__([*command, "--host", "127.0.0.1", "--port", str(port)], environment or {})

    def _wait(self) -> None:
        end = time.monotonic() + _START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(
                    f"{self._process.args!r} does not answer:\n{self._said()[-3000:]}"
                )
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def own_server(module: str, *words: str) -> Iterator[tuple[int, int]]:
    """Run a module that prints its port and serves; yield the port and the process id."""
    command = [sys.executable, "-m", module, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.terminate()


def run_json(module: str, *words: object) -> Any:
    """Run a module in a process of its own; return the JSON that it prints."""
    command = [sys.executable, "-m", module, *map(str, words)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


class JsonClient:
    """A client whose connection stays open. Use it as a context manager, or `close` it."""

    def __init__(self, address: str, timeout: float = 600.0) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=timeout)

    def post(self, path: str, body: object) -> Any:
        """Send a body as JSON; return that of the answer.

        Raises:
            RuntimeError: the answer has another status than 200.
        """
        return json.loads(self.send(path, json.dumps(body).encode()))

    def get(self, path: str) -> Any:
        """Return the JSON at a path.

        Raises:
            RuntimeError: the answer has another status than 200.
        """
        return json.loads(self.send(path, None))

    def send(self, path: str, body: bytes | None, kind: str = "application/json") -> bytes:
        """Send a body of a media type, None: a GET; return the body of the answer.

        Raises:
            RuntimeError: the answer has another status than 200.
        """
        method = "GET" if body is None else "POST"
        self._connection.request(method, path, body, {"Content-Type": kind})
        with self._connection.getresponse() as response:
            answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path} answers {response.status}: {answer[:1000]!r}")
        return answer

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Commands and reports -----------------------------------------------------------------------------

#: A command: it adds its arguments to a parser, parses these words, and runs.
Command = Callable[[argparse.ArgumentParser, Sequence[str]], None]


def run_command(module: str, doc: str | None, commands: Mapping[str, Command]) -> None:
    """Run the command of a module that the first word of the command line names."""
    name, *words = sys.argv[1:] or [""]
    command = commands.get(name)
    if command is None:
        sys.exit(doc)
    _end_servers_too()
    about = (command.__doc__ or "").partition("\n")[0]
    command(argparse.ArgumentParser(f"python -m {module} {name}", description=about), words)


def _end_servers_too() -> None:
    """Let SIGTERM end this process by an exception, or its servers would outlive it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))


def report_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser for a module with one command, with ``--write FILE``."""
    _end_servers_too()
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    add_write(parser)
    return parser


def add_write(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--write FILE``, for `publish`."""
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables to a file")


def publish(report: str | Iterable[str], file: Path | None) -> None:
    """Print a report, each line as it comes, and write it to a file if one is given."""
    kept = []
    for line in report.splitlines() if isinstance(report, str) else report:
        print(line, flush=True)
        kept.append(line)
    if file is not None:
        file.write_text("\n".join(kept).rstrip("\n") + "\n", encoding="utf-8")


def row(*cells: object) -> str:
    """Return a row of a table in Markdown."""
    return re.sub(r"  +(?=\|)", " ", f"| {' | '.join(map(str, cells))} |")


def head(*columns: str) -> list[str]:
    """Return the first two lines of a table in Markdown."""
    return [row(*columns), "|" + "---|" * len(columns)]


def say(text: str) -> None:
    """Print a line on the progress."""
    print(text, file=sys.stderr, flush=True)


def versions() -> str:
    """Return the versions of the software in one line."""
    return ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from source"


def describe_machine(*, with_day: bool = True) -> str:
    """Describe processor, cores, interpreter and day."""
    day = f", {datetime.now(UTC):%Y-%m-%d}" if with_day else ""
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}{day}"
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
