"""A real server on the test's loop, with graphs and a plain model, and its metrics."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import (
    METRICS,
    Calculator,
    CalculatorContext,
    CalculatorContract,
    In,
    Out,
    Registry,
    metrics_of,
)
from servers.config import MetricsConfig
from servers.fronts.http import HttpSettings
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.server.lifecycle import Server, ServerSettings
from tests.servers.fronts.http.http_client import HttpClient, Reply, request_bytes
from tests.servers.fronts.kserve_grpc.grpc_client import Client
from tests.servers.serving.models.model_folders import entry, write_versions
from tests.servers.serving.served_graphs import (
    http_graph,
    make_registry,
    write_graph,
)

ADD_GRAPH = """
input_stream: "X:x" output_stream: "Y:y"
node { name: "pass" calculator: "PassThroughCalculator" input_stream: "x" output_stream: "y" }
"""

#: By the name of the line, then by the sorted labels.
Values = dict[str, dict[tuple[tuple[str, str], ...], float]]

_LINE = re.compile(r"(?P<name>[\w:]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Letters(Calculator):
    """Answers with the letters of the request's ``text``, a packet each; counts them."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.use_service(METRICS)

    def open(self, cc: CalculatorContext) -> None:
        metrics = metrics_of(cc)
        self.letters = metrics.counter("letters_total", "Letters that went by.")
        self.length = metrics.histogram("text_letters", "Letters of a text.", bounds=(1, 5, 10))
        self.last = metrics.gauge("last_text_letters", "Letters of the last text.")
        self.metrics = metrics

    def process(self, cc: CalculatorContext) -> None:
        text = cc.get(self.request).parsed_json["text"]
        self.length.observe(len(text))
        self.last.set(len(text))
        for place, letter in enumerate(text):
            self.letters.add()
            self.metrics.counter(
                "letters_by_case", "Letters.", {"upper": str(letter.isupper())}
            ).add()
            cc.emit(self.response, f"data: {letter}\n\n", at=place)


def registry() -> Registry:
    made = make_registry()
    made.register_calculator(Letters)
    return made


Scenario = Callable[["Metered"], Coroutine[Any, Any, None]]


class Metered:
    """A started server, and its clients."""

    def __init__(self, server: Server, channel: grpc.aio.Channel | None) -> None:
        self.server = server
        self._channel = channel

    @property
    def grpc(self) -> Client:
        assert self._channel is not None
        return Client(self._channel)

    @asynccontextmanager
    async def http(self) -> AsyncIterator[HttpClient]:
        address = self.server.addresses[0].removeprefix("http://")
        host, _, port = address.rpartition(":")
        client = HttpClient(*await asyncio.open_connection(host, int(port)))
        try:
            yield client
        finally:
            await client.close()

    async def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Reply:
        data = b"" if body is None else json.dumps(body).encode()
        fields = {"Content-Type": "application/json"} if data else {}
        async with self.http() as client:
            return await client.ask(
                request_bytes(method, path, data, {**fields, **(headers or {})})
            )

    async def infer(self, model: str, body: object, version: str = "") -> Reply:
        place = f"/versions/{version}" if version else ""
        return await self.ask("POST", f"/v2/models/{model}{place}/infer", body)

    async def values(self) -> Values:
        """Return the published values."""
        reply = await self.ask("GET", "/metrics")
        assert reply.status == 200
        return values_of(reply.body.decode())

    async def value(self, family: str, /, **labels: str) -> float:
        return (await self.values())[family][tuple(sorted(labels.items()))]


def values_of(text: str) -> Values:
    """Return the lines of a text as Prometheus parses them, after checking that none is repeated.

    prometheus_client's own parser adds ``_total`` to the names of counters that lack it.
    """
    found: Values = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, line
        labels = tuple(sorted(_LABEL.findall(match["labels"] or "")))
        series = found.setdefault(match["name"], {})
        assert labels not in series, line
        series[labels] = float(match["value"])
    return found


def numbers(*values: float) -> dict[str, Any]:
    """Send an inference to the plain model, or to the graph that passes its input on."""
    tensor = {"name": "X", "shape": [len(values)], "datatype": "FP32", "data": list(values)}
    return {"inputs": [tensor]}


def serving(
    folder: Path,
    scenario: Scenario,
    *,
    metrics: MetricsConfig | None = None,
    with_grpc: bool = False,
    **settings: Any,
) -> None:
    """Run a scenario on a server with the graphs echo, fail, letters, wait and add, and the
    plain model plus in two versions, of which each adds its number.
    """
    graphs = (
        write_graph(folder, "echo", http_graph("Echo")),
        write_graph(folder, "fail", http_graph("Fail")),
        write_graph(folder, "letters", http_graph("Letters")),
        write_graph(folder, "wait", http_graph("Wait")),
        write_graph(folder, "add", ADD_GRAPH),
    )
    write_versions(folder, "plus", 1, 2)
    model = entry(folder, "plus", base_path=str(folder / "plus"), model_version_policy={"all": {}})

    async def run() -> None:
        server = Server(
            ServerSettings(
                graphs,
                HttpSettings(port=0),
                registry=registry(),
                models=(model,),
                grpc=GrpcSettings(port=0) if with_grpc else None,
                metrics=metrics or MetricsConfig(),
                **settings,
            )
        )
        await server.start()
        await server.load()
        channel = None
        if with_grpc:
            address = server.addresses[1].removeprefix("grpc://")
            channel = grpc.aio.insecure_channel(address)
        try:
            await scenario(Metered(server, channel))
        finally:
            if channel is not None:
                await channel.close()
            await server.stop()

    asyncio.run(run())
