"""`graphrt serve` in a process of its own, its log read line by line."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.servers.cli.process import COMMAND, environment

#: An answer that is one echo, and one that is a stream: an event, a wait, and then the end.
CALCULATORS = '''\
import asyncio
from pathlib import Path

from calculators.requests.http_payload import HttpPayload
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

STREAM = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Stream"
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
    """A running server; killed at the end if it still runs."""

    def __init__(
        self,
        folder: Path,
        *words: str | Path,
        port: str | int = "auto",
        calculators: tuple[str, ...] = ("--calculators", "calcs.py"),
    ) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "serve", *calculators, "--rest_port", str(port)]
            + [str(word) for word in words],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log: list[str] = []
        self.port = 0

    def __enter__(self) -> Serving:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, text: str) -> str:
        """Read the log up to the line with this text; the line."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log.append(line)
            if text in line:
                return line
        raise AssertionError(f"no line with {text!r} in:\n{''.join(self.log)}")

    def wait_until_serving(self) -> Serving:
        """Read the log up to the line to try; find the port."""
        line = self.wait_for("  curl ")
        match = re.search(r":(\d+)/", line)
        assert match is not None
        self.port = int(match[1])
        return self

    def send_signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; exit code, standard output, what was left of the log."""
        out, rest = self._process.communicate()
        return self._process.returncode, out, rest

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

    def get(self, path: str) -> tuple[int, Any]:
        """Status, and the body as JSON, None for an empty one."""
        with self.request("GET", path) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None
