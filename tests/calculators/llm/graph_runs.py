"""Runs of requests by a graph with the demo model, as a server runs it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload, NoClient, RequestError
from calculators.llm.servable import LlmServable
from graph_runtime import CalculatorGraph, GraphError, GraphResources, RunError, ValidatedGraph
from tests.support.conditions import soon

CHAT = "/v3/chat/completions"
COMPLETIONS = "/v3/completions"
RESPONSES = "/v3/responses"
MESSAGES = "/v3/messages"
#: The maximum number of requests of the tests' graph.
QUEUE = 12


class LeavingClient:
    """A client that leaves on command."""

    def __init__(self) -> None:
        self.is_disconnected = False
        self.is_writable = True
        self._callbacks: list[Callable[[], None]] = []

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    async def writable(self) -> None:
        return

    def leave(self) -> None:
        self.is_disconnected = True
        for callback in self._callbacks:
            callback()


class SlowClient(NoClient):
    """A client that reads nothing until ``reads`` is set."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()

    @property
    def is_writable(self) -> bool:  # type: ignore[override]
        return self.reads.is_set()

    async def writable(self) -> None:
        await self.reads.wait()


@dataclass
class Answered:
    """The output of a run: values and timestamps of both output streams."""

    values: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)

    @property
    def is_stream(self) -> bool:
        """Return True if it consists of events, in however many packets."""
        return self.values[0].startswith("data:")

    @property
    def body(self) -> dict[str, Any]:
        """Return the unary answer."""
        (value,) = self.values
        body: dict[str, Any] = json.loads(value)
        return body

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the streamed events; the last must be ``[DONE]``."""
        *events, last, end = "".join(self.values).split("\n\n")
        assert (last, end) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]


class Run:
    """One request in a graph of its own."""

    def __init__(self, plan: ValidatedGraph, resources: GraphResources) -> None:
        self._resources = resources
        self.answered = Answered()
        self.graph = CalculatorGraph(validated_graph=plan)
        self.graph.observe_output_stream("output", self._take)
        self.graph.observe_output_stream(
            "loopback", lambda _, packet: self.answered.turns.append(packet.timestamp.value)
        )

    def _take(self, _: str, packet: Any) -> None:
        self.answered.values.append(packet.value)
        self.answered.times.append(packet.timestamp.value)

    async def start(self, uri: str, body: Mapping[str, Any], client: Any = None) -> None:
        payload = HttpPayload(uri, {}, b"", dict(body), client or NoClient())
        await self.graph.start_run_async(self._resources.side_packets)
        self.graph.add_packet_to_input_stream("input", payload, 0)
        self.graph.close_all_input_streams()

    async def end(self) -> Answered:
        """Wait for the end.

        Raises:
            RequestError: raised by the calculator.
        """
        try:
            await soon(self.graph.wait_until_done_async())
        except RunError as error:
            raise cause_of(error) from None
        return self.answered


def cause_of(error: RunError) -> GraphError:
    """Return the error that the calculator raised."""
    first: BaseException = error.errors[0]
    while first.__cause__ is not None and not isinstance(first, RequestError):
        first = first.__cause__
    assert isinstance(first, GraphError)
    return first


class Asking:
    """Client of a graph's LLM node."""

    def __init__(
        self, runner: asyncio.Runner, plan: ValidatedGraph, resources: GraphResources
    ) -> None:
        self.runner = runner
        self._plan = plan
        self._resources = resources
        servable = resources.resources[0]
        assert isinstance(servable, LlmServable)
        self.servable = servable

    def new_run(self) -> Run:
        return Run(self._plan, self._resources)

    async def answer(self, uri: str, body: Mapping[str, Any], client: Any = None) -> Answered:
        run = self.new_run()
        await run.start(uri, body, client)
        return await run.end()

    def __call__(self, uri: str, **body: Any) -> Answered:
        """Send a request and wait; greedy and short unless members say otherwise."""
        return self.runner.run(self.answer(uri, request(uri, **body)))


def request(uri: str, **body: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": "demo", "temperature": 0}
    asked["max_output_tokens" if uri == RESPONSES else "max_tokens"] = 24
    if uri in (CHAT, MESSAGES):
        asked["messages"] = [{"role": "user", "content": "What is the capital of France?"}]
    elif uri == RESPONSES:
        asked["input"] = "What is the capital of France?"
    else:
        asked["prompt"] = "The capital of France"
    return {**asked, **body}


def text_of(answered: Answered, *, choice: int = 0) -> str:
    """Return a choice's text, of a whole answer or of a stream."""
    if not answered.is_stream:
        found = answered.body["choices"][choice]
        return str(found["message"]["content"] if "message" in found else found["text"])
    pieces: list[str] = []
    for event in answered.events:
        for found in event["choices"]:
            if found["index"] == choice:
                delta = found.get("delta", {}).get("content", "") if "delta" in found else ""
                pieces.append(delta or found.get("text", "") or "")
    return "".join(pieces)
