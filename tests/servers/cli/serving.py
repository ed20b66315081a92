"""`graphrt serve` in a process of its own, its log read line by line."""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.servers.cli.process import start_graphrt
from tests.support.patience import PATIENCE

#: Seconds in which the rest of the report at the start follows the line of a model that failed. It
#: is written at once.
_REST_OF_REPORT: Final = 20.0

#: An answer that is one echo, and one that is a stream: an event, a wait, and then the end.
CALCULATORS = '''\
import asyncio
from pathlib import Path

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class Echo(Calculator):
    """Answers with the body."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.get(self.request).body)


@calculator
class Stream(Calculator):
    """Sends an event; then, when the named pipe says so, or never, the last one."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    again = In[bool]("LOOPBACK")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    loopback = Out[bool]("LOOPBACK")
    timestamp_offset = None

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.request):
            self.pipe = cc.get(self.request).parsed_json.get("pipe")
            cc.emit(self.response, "data: first\\n\\n", at=0)
            cc.emit(self.loopback, True, at=0)
            return
        if self.pipe is None:
            await asyncio.Event().wait()
        await asyncio.to_thread(Path(self.pipe).read_text)
        cc.emit(self.response, "data: [DONE]\\n\\n", at=1)
'''

ECHO = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Echo"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""

#: A node that the word names, with a back edge.
_LOOP = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "NAME"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  output_stream: "LOOPBACK:loopback"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } }
    }
  }
}
"""


def looped(calculator: str) -> str:
    """Return the text of a graph of one node of requests that calls itself by a back edge."""
    return _LOOP.replace("NAME", calculator)


STREAM = looped("Stream")


def make_site(folder: Path) -> Path:
    """A directory with ``calcs.py``, and a config.json that lists graphs; the config's path."""
    (folder / "calcs.py").write_text(CALCULATORS)
    for name, text in (("echo", ECHO), ("stream", STREAM)):
        (folder / name).mkdir()
        (folder / name / "graph.pbtxt").write_text(text)
    config = folder / "config.json"
    config.write_text(
        '{"model_config_list": [], "mediapipe_config_list": [{"name": "echo"}, {"name": "stream"}]}'
    )
    return config


class Serving:
    """A running server; killed at the end if it still runs.

    A thread reads its log, so that the server is never blocked by a full pipe, and so that a line
    that never comes is waited for no longer than `PATIENCE`.
    """

    def __init__(
        self,
        folder: Path,
        *words: str | Path,
        port: str | int = "auto",
        calculators: tuple[str, ...] = ("--calculators", "calcs.py"),
        is_forked: bool = True,
    ) -> None:
        reading, stdout = os.pipe()
        self._stdout = os.fdopen(reading)
        try:
            self._process, self._stderr = start_graphrt(
                "serve",
                *calculators,
                "--rest_port",
                str(port),
                *words,
                cwd=folder,
                stdout=stdout,
                is_forked=is_forked,
            )
        finally:
            os.close(stdout)
        #: The lines up to the last one that was waited for.
        self.log: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self.port = 0

    def __enter__(self) -> Serving:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        code = self._process.poll()
        self._process.kill()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self._stdout.close()
        if code is not None:  # shown beside a failure, whose reason it may be
            print(f"the server had ended with {code}:\n{self._rest_of_log()}", file=sys.stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, text: str) -> str:
        """Read the log up to the line with this text; the line."""
        deadline = time.monotonic() + PATIENCE
        while (line := self._next_line(deadline)) is not None:
            if text in line:
                return line
        raise AssertionError(f"no line with {text!r} in:\n{''.join(self.log)}")

    def wait_until_serving(self) -> Serving:
        """Read the log up to the line to try; find the port.

        Raises:
            AssertionError: no model is served, so there is nothing to try; or the server has ended.
        """
        deadline = time.monotonic() + PATIENCE
        while (line := self._next_line(deadline)) is not None:
            match = re.match(r"  curl .*?:(\d+)/", line)
            if match is not None:
                self.port = int(match[1])
                return self
            if re.match(r"  \S+ +failed: ", line):
                deadline = min(deadline, time.monotonic() + _REST_OF_REPORT)
        raise AssertionError(f"nothing is served:\n{''.join(self.log)}")

    def _next_line(self, deadline: float) -> str | None:
        """Return the next line of the log; None if there is none until the deadline, or no more."""
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None
        if line is None:
            self._lines.put(None)
        else:
            self.log.append(line)
        return line

    def _read_log(self) -> None:
        with self._stderr as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def send_signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; exit code, standard output, what was left of the log."""
        out = self._stdout.read()
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code, out, self._rest_of_log()

    def _rest_of_log(self) -> str:
        """Return the lines that nobody waited for, of a server that has ended."""
        rest = "".join(iter(self._lines.get, None))
        self._lines.put(None)
        return rest

    @contextmanager
    def request(
        self, method: str, path: str, body: Any = None
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request; the response with its headers read."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            with connection.getresponse() as response:
                yield response

    def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and JSON of an answer."""
        with self.request("POST", path, body) as response:
            return response.status, json.loads(response.read())

    def get(self, path: str) -> tuple[int, Any]:
        """Status, and the body as JSON, None for an empty one."""
        with self.request("GET", path) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None
