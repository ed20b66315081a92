"""A `graphrt serve` process to measure, with the CPU time and memory of its parts."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, Self

from bench.processes import children, cpu_seconds, resident_bytes

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
