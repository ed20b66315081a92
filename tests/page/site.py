"""Graphs in all states that the page shows, and a server of its own for them."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.servers.cli.serving import ECHO, Serving
from tests.support.checkout import ROOT

#: `Stuck` and `Silent` wait until the client goes.
_CALCULATORS: Final = '''\
import asyncio

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, Stop, calculator


@calculator
class Echo(Calculator):
    """Answers with the body.

    The answer has the same bytes as the request.
    """

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.get(self.request).body)


@calculator
class Refusing(Calculator):
    """Fails on every request."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        raise OSError("disk full")


@calculator
class Numbers(Calculator):
    """A source of numbers."""

    number = Out[int]("NUMBER")

    def open(self, cc: CalculatorContext) -> None:
        self.next = 0

    def process(self, cc: CalculatorContext) -> None:
        if self.next == 100:
            raise Stop
        cc.emit(self.number, self.next, at=self.next)
        self.next += 1


@calculator
class Stuck(Calculator):
    """Never ends its first call."""

    number = In[int]("NUMBER")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.Event().wait()


@calculator
class Silent(Calculator):
    """Takes a request, and never says anything."""

    request = In[HttpPayload]("REQUEST")
    answer = Out[bytes]("ANSWER")
    timestamp_offset = None

    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.Event().wait()


@calculator
class Joined(Calculator):
    """Wants both."""

    request = In[HttpPayload]("REQUEST")
    answer = In[bytes]("ANSWER")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.get(self.answer))
'''

_ENDS: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
"""
_REQUEST: Final = 'input_stream: "HTTP_REQUEST_PAYLOAD:input"'
_RESPONSE: Final = 'output_stream: "HTTP_RESPONSE_PAYLOAD:output"'

_FAILING: Final = f"""{_ENDS}
node {{ name: "audit" calculator: "Refusing" {_REQUEST} {_RESPONSE} }}
"""
_PRESSED: Final = f"""{_ENDS}
max_queue_size: 2
node {{ name: "numbers" calculator: "Numbers" output_stream: "NUMBER:number" }}
node {{ name: "slow" calculator: "Stuck" input_stream: "NUMBER:number" {_RESPONSE} }}
"""
_WAITING: Final = f"""{_ENDS}
node {{
  name: "silent" calculator: "Silent"
  input_stream: "REQUEST:input" output_stream: "ANSWER:answer"
}}
node {{
  name: "both" calculator: "Joined"
  input_stream: "REQUEST:input" input_stream: "ANSWER:answer" {_RESPONSE}
}}
"""
_NESTED: Final = f"""{_ENDS}
node {{ name: "twice" calculator: "Copies" input_stream: "input" output_stream: "copied" }}
node {{
  name: "last" calculator: "Echo"
  input_stream: "HTTP_REQUEST_PAYLOAD:copied" {_RESPONSE}
}}
"""
_COPIES: Final = """\
type: "Copies"
input_stream: "in"
output_stream: "out"
node { name: "one" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "mid" }
node { name: "two" calculator: "PassThroughCalculator" input_stream: "mid" output_stream: "out" }
"""
#: An own calculator that is not there, on line 4.
_BROKEN: Final = f"""{_ENDS}
node {{
  calculator: "NobodyHasThisCalculator"
  {_REQUEST}
  {_RESPONSE}
}}
"""


def large_graph(nodes: int = 200) -> str:
    """Return the text of a graph of that many nodes, one in three with two streams."""
    parts = [_ENDS]
    for i in range(nodes - 1):
        before = ["input" if i == 0 else f"s{i - 1}"]
        after = [f"s{i}"]
        if i % 3 == 0 and i >= 9:
            before.append(f"s{i - 8}")
            after.append(f"t{i}")
        streams = [f'input_stream: "{name}"' for name in before]
        streams += [f'output_stream: "{name}"' for name in after]
        parts.append(
            f'node {{ name: "n{i}" calculator: "PassThroughCalculator" {" ".join(streams)} }}\n'
        )
    parts.append(
        f'node {{ name: "last" calculator: "Echo"'
        f' input_stream: "HTTP_REQUEST_PAYLOAD:s{nodes - 2}" {_RESPONSE} }}\n'
    )
    return "".join(parts)


def make_site(folder: Path) -> Path:
    """Write calculators, graphs and a config.json into a folder; return the config's path."""
    (folder / "calcs.py").write_text(_CALCULATORS)
    graphs = {
        "echo": ECHO,
        "failing": _FAILING,
        "pressed": _PRESSED,
        "waiting": _WAITING,
        "nested": _NESTED,
        "large": large_graph(),
        "broken": _BROKEN,
    }
    for name, text in graphs.items():
        (folder / name).mkdir()
        (folder / name / "graph.pbtxt").write_text(text)
    (folder / "nested" / "copies.pbtxt").write_text(_COPIES)
    served: list[dict[str, str]] = [{"name": name} for name in graphs]
    served.append({"name": "demo", "base_path": str(ROOT / "examples" / "models" / "demo")})
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": served}))
    return config


class Site:
    """A running server of `make_site`."""

    def __init__(self, serving: Serving, headers: dict[str, str]) -> None:
        self.serving = serving
        self.address = f"http://127.0.0.1:{serving.port}/"
        self._headers = headers

    def ask(self, model: str, timeout: float | None = None, **members: Any) -> bytes:
        """Send a chat to a graph, and return the answer's body."""
        with closing(
            http.client.HTTPConnection("127.0.0.1", self.serving.port, timeout=timeout)
        ) as connection:
            headers = {"Content-Type": "application/json", **self._headers}
            body = json.dumps({"model": model, **members})
            connection.request("POST", "/v3/chat/completions", body, headers)
            return connection.getresponse().read()

    @contextmanager
    def open_request(self, model: str) -> Iterator[None]:
        """Hold a request open that is not answered."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.serving.port)) as connection:
            headers = {"Content-Type": "application/json", **self._headers}
            connection.request(
                "POST", "/v3/chat/completions", json.dumps({"model": model}), headers
            )
            yield

    @contextmanager
    def asked_again(self, model: str, **members: Any) -> Iterator[None]:
        """Send one request after the other, until the block ends."""
        is_over = threading.Event()

        def ask() -> None:
            while not is_over.is_set():
                self.ask(model, **members)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


@contextmanager
def serve(folder: Path, *words: str, key: str = "") -> Iterator[Site]:
    """Serve `make_site` from a folder."""
    config = make_site(folder)
    if key:
        (folder / "keys").write_text(key)
        words = (*words, "--api_key_file", "keys")
    with Serving(folder, config, *words).wait_until_serving() as serving:
        yield Site(serving, {"Authorization": f"Bearer {key}"} if key else {})
