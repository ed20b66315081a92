"""Calculators that answer requests, and graphs of them, for the tests of serving."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    In,
    NodeResource,
    Out,
    Registry,
    ResourceError,
    ResourceSettings,
    SideIn,
)
from graph_runtime.plan.plan import NodePlan
from servers.config import GraphEntry, find_graph

REQUEST = 'input_stream: "HTTP_REQUEST_PAYLOAD:input"\n'
RESPONSE = 'output_stream: "HTTP_RESPONSE_PAYLOAD:output"\n'


class Echo(Calculator):
    """Answers with the body."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.get(self.request).body.decode())


class Count(Calculator):
    """Answers with the numbers up to the body's, in cycles over LOOPBACK, like LLM graphs."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    again = In[bool]("LOOPBACK")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    loopback = Out[bool]("LOOPBACK")
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self.clock = self.last = 0

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.request):
            self.last = int(cc.get(self.request).body)
        await asyncio.sleep(0)
        cc.emit(self.response, str(self.clock), at=self.clock)
        if self.clock < self.last:
            cc.emit(self.loopback, True, at=self.clock)
        self.clock += 1


class Fail(Calculator):
    """Raises the error that the body names."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        raise ValueError(cc.get(self.request).body.decode())


class Wait(Calculator):
    """Answers "ended" on command; reports when it begins and how often it was closed."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    began: asyncio.Event
    go_on: asyncio.Event
    closed: int

    async def process(self, cc: CalculatorContext) -> None:
        self.began.set()
        await self.go_on.wait()
        cc.emit(self.response, "ended")

    def close(self, cc: CalculatorContext) -> None:
        type(self).closed += 1


class Number(Calculator):
    """Answers with a packet that is not text."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[int]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, 7)


class Tell(Calculator):
    """Answers with its resource."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    resources = SideIn[dict[str, Any]]("TEST_RESOURCES")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.side(self.resources)["teller"].settings.model_name)


class Resource:
    """The resource of `Tell`."""

    def __init__(self, settings: ResourceSettings) -> None:
        self.settings = settings
        self.unavailable_reason = ""
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


class Initializer:
    """Makes a `Resource`: sets ``began``, waits for ``gate``, fails with ``failure``."""

    tag = "TEST_RESOURCES"
    context_tags: Sequence[str] = ()

    def __init__(self) -> None:
        self.made: list[Resource] = []
        self.began: asyncio.Event | None = None
        self.gate: asyncio.Event | None = None
        self.failure = ""

    def matches(self, calculator: str) -> bool:
        return calculator == "Tell"

    async def make(self, node: NodePlan, settings: ResourceSettings) -> NodeResource:
        if self.began is not None and self.gate is not None:
            self.began.set()
            await self.gate.wait()
        if self.failure:
            raise ResourceError(self.failure)
        self.made.append(Resource(settings))
        return self.made[-1]


def make_registry(*resources: Initializer) -> Registry:
    """A registry with the calculators of this file."""
    registry = Registry(REGISTRY)
    for calculator in (Echo, Count, Fail, Wait, Number, Tell):
        registry.register_calculator(calculator)
    for initializer in resources:
        registry.register_resource_initializer(initializer)
    return registry


def http_graph(calculator: str, extra: str = "") -> str:
    """Return a graph of one node between request and response."""
    node = f'name: "node" calculator: "{calculator}"\n{REQUEST}{RESPONSE}{extra}'
    return f"{REQUEST}{RESPONSE}node {{ {node} }}\n"


COUNT_GRAPH = http_graph(
    "Count",
    """input_stream: "LOOPBACK:loopback" output_stream: "LOOPBACK:loopback"
    input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
    input_stream_handler {
      input_stream_handler: "SyncSetInputStreamHandler"
      options {
        [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } }
      }
    }""",
)

TELL_GRAPH = http_graph("Tell", 'input_side_packet: "TEST_RESOURCES:told"').replace(
    '"node"', '"teller"'
)


def write_graph(folder: Path, name: str, text: str) -> GraphEntry:
    """Write a directory of this name with the graph in it."""
    (folder / name).mkdir()
    (folder / name / "graph.pbtxt").write_text(text)
    return find_graph(folder / name)
