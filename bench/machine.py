"""What benchmarks share: a server to measure, a line about the machine, and the file of the report.

`ServerProcess` runs ``graphrt serve``, with the processor time and memory of its parts, which come
from ``/proc``: this needs Linux. The machine is described without its name.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

_PROC: Final = Path("/proc")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads of a process so far, in seconds."""
    # The third field follows the name, which is in parentheses and may contain anything.
    fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def involuntary_switches(pid: int) -> int:
    """Return how often a thread of a process has lost its processor while it could have gone on."""
    found = 0
    for task in (_PROC / str(pid) / "task").iterdir():
        for line in (task / "status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("nonvoluntary_ctxt_switches:"):
                found += int(line.split()[1])
    return found


def resident_bytes(pid: int) -> int:
    pages = (_PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


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
    ids = (_PROC / str(pid) / "task" / str(pid) / "children").read_text(encoding="ascii")
    return {int(child): _arguments(int(child)) for child in ids.split()}


def _arguments(pid: int) -> list[str]:
    data = (_PROC / str(pid) / "cmdline").read_bytes()
    return [part.decode(errors="replace") for part in data.split(b"\0")]


_ADDRESS: Final = re.compile(r"graphrt serves (http://\S+)")
_GRPC_ADDRESS: Final = re.compile(r"graphrt serves grpc://(\S+)")
#: Part of the server by the module that its process runs.
PARTS: Final = {
    "calculators.llm.engine.process": "engine",
    "calculators.llm.prompt.process": "prompts",
}


class ServerProcess:
    """Serves one graph on a free port. Use it as a context manager.

    Attributes:
        url: the server's URL.
        address: host and port of HTTP; ``grpc_address``: those of gRPC, "" without it.
        model: the name of the graph.
        pids: process ids of the parts ``server``, ``engine``, ``prompts``.
    """

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        command: tuple[str, ...] = (sys.executable, "-m", "servers.cli"),
    ) -> None:
        """Start it and wait until the model is loaded. ``command`` runs `graphrt`.

        Raises:
            RuntimeError: the server ended before it was ready.
        """
        self.model = directory.resolve().name
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (see close)
        self._process = subprocess.Popen(
            [
                *(*command, "serve", str(directory)),
                *("--rest_port", "auto", "--log_level", "ERROR", *arguments),
            ],
            stderr=self._log,
        )
        said = self._wait_for_report()
        self.url = _ADDRESS.findall(said)[0]
        self.address = self.url.partition("//")[2]
        self.grpc_address = next(iter(_GRPC_ADDRESS.findall(said)), "")
        self.pids = {"server": self._process.pid}
        for pid, words in children(self._process.pid).items():
            self.pids.update((name, pid) for module, name in PARTS.items() if module in words)

    def _wait_for_report(self) -> str:
        while True:
            ended = self._process.poll() is not None
            self._log.seek(0)
            said = self._log.read()
            # A request to try out ends the text that the server prints when everything is loaded.
            address = _ADDRESS.search(said)
            if address and "try:" in said:
                return said
            if ended or (address and "failed:" in said):
                self.close()
                raise RuntimeError(f"the server did not start:\n{said}")
            time.sleep(0.05)

    def cpu(self) -> dict[str, float]:
        """Return the seconds of CPU time so far, by part."""
        return {name: cpu_seconds(pid) for name, pid in self.pids.items()}

    def resident(self) -> int:
        """Return the memory of the server's own process in bytes."""
        return resident_bytes(self.pids["server"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server."""
        self._process.terminate()
        try:
            self._process.wait(40)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def add_write(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--write FILE``, for `publish`."""
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables to a file")


def publish(text: str, file: Path | None) -> None:
    """Print a report, and write it to a file if one is given."""
    print(text.rstrip("\n"))
    if file is not None:
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


class WrittenReport:
    """Prints each line at once; `keep` writes all of them.

    Called with a line, so that it can be passed on as a function.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __call__(self, line: str) -> None:
        print(line, flush=True)
        self._lines.append(line)

    def keep(self, file: Path | None) -> None:
        """Write the lines to a file; without one they have only been printed."""
        if file is not None:
            file.write_text("\n".join(self._lines) + "\n", encoding="utf-8")


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
