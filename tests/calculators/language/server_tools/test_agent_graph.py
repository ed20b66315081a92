"""The graph of `examples/graphs/agent` with a scripted model and scripted tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from calculators.kit.requests.http_payload import NoClient
from calculators.language import HttpPayload, RequestError, call, fake_model
from calculators.language.testing import FakeModel
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    Registry,
    RunError,
    parse_graph_text,
    validate_graph,
)
from tests.calculators.language.graphs import CHAT, MESSAGES, RESPONSES, Told, body_of, cause_of
from tests.calculators.language.server_tools.scripted_tools import ScriptedLane, toolbox
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

GRAPH = (ROOT / "examples" / "graphs" / "agent" / "graph.pbtxt").read_text()
ASKED = {"type": "mcp", "server_label": "weather", "require_approval": "never"}


class Agent:
    """One run of the graph.

    Attributes:
        lane: with the tool ``get``.
        model: calls the tool, and then repeats its result.
    """

    def __init__(self) -> None:
        self.told = Told([])
        box, self.lane = toolbox(get=lambda arguments: f"{arguments['city']}: 12 degrees")
        self.model: FakeModel = fake_model(self._answer)
        self._toolbox = box
        self._graph = CalculatorGraph(
            validated_graph=validate_graph(parse_graph_text(GRAPH), registry=Registry(REGISTRY))
        )
        self._graph.observe_output_stream("output", lambda _, packet: self._take(packet.value))
        self._waits: list[tuple[str, asyncio.Event]] = []

    def _answer(self, request: Any) -> list[Any]:
        last = request.messages[-1]
        if last["role"] == "tool":
            return ["It has ", last["content"], "."]
        return ["I look. ", *call("get", {"city": "Paris"}, "c1")]

    def _take(self, packet: str) -> None:
        self.told.packets.append(packet)
        for text, event in self._waits:
            if text in packet:
                event.set()

    def shown(self, text: str) -> asyncio.Event:
        """Return an event that is set when a client gets this text."""
        event = asyncio.Event()
        self._waits.append((text, event))
        return event

    async def begin(self, uri: str, **members: Any) -> None:
        sides = {"llm": {"LLMExecutor": self.model}, "tools": {"tools": self._toolbox}}
        await self._graph.start_run_async(sides)
        payload = HttpPayload(uri, {}, b"", body_of(uri, **members), NoClient())
        self._graph.add_packet_to_input_stream("input", payload, 0)
        self._graph.close_all_input_streams()

    async def end(self) -> Told:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._graph.wait_until_done_async()
        except RunError as error:
            self.told.error = cause_of(error)
        return self.told

    def cancel(self) -> None:
        self._graph.cancel()


def ask(uri: str, **members: Any) -> tuple[Told, Agent]:
    async def run() -> tuple[Told, Agent]:
        agent = Agent()
        await agent.begin(uri, **members)
        return await agent.end(), agent

    return asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_gets_the_text_of_both_turns(stream: bool) -> None:
    told, agent = ask(CHAT, stream=stream)
    assert told.text == "I look. It has Paris: 12 degrees."
    assert [len(request.messages) for request in agent.model.requests] == [1, 3]


def test_usage_and_finish_are_those_of_the_whole_answer() -> None:
    told, _ = ask(CHAT)
    assert told.whole["choices"][0]["finish_reason"] == "stop"
    assert told.whole["usage"]["completion_tokens"] == 7


def test_a_client_sees_a_call_before_it_has_ended() -> None:
    async def run() -> Told:
        agent = Agent()
        # The tool waits until the client has seen that it was called.
        agent.lane.gate = agent.shown("response.mcp_call.in_progress").wait
        await agent.begin(RESPONSES, stream=True, tools=[ASKED])
        return await agent.end()

    told = asyncio.run(run())
    kinds = [event["type"] for event in told.events]
    assert "response.mcp_call.completed" in kinds
    assert kinds[-1] == "response.completed"


def test_messages_show_the_calls_of_a_named_server() -> None:
    told, _ = ask(MESSAGES, mcp_servers=[{"name": "weather"}])
    kinds = [block["type"] for block in told.whole["content"]]
    assert kinds == ["text", "mcp_tool_use", "mcp_tool_result", "text"]


def test_a_server_that_is_not_there_is_refused_before_the_model_is_asked() -> None:
    told, agent = ask(MESSAGES, mcp_servers=[{"name": "other"}])
    assert isinstance(told.error, RequestError)
    assert told.error.param == "mcp_servers[0].name"
    assert agent.model.requests == []


DECLINED = {CHAT: "none", RESPONSES: "none", MESSAGES: {"type": "none"}}


@pytest.mark.parametrize("uri", [RESPONSES, MESSAGES])
def test_a_client_that_wants_no_calls_may_name_servers(uri: str) -> None:
    servers = {"tools": [ASKED]} if uri == RESPONSES else {"mcp_servers": [{"name": "weather"}]}
    told, agent = ask(uri, tool_choice=DECLINED[uri], **servers)
    assert told.error is None
    (request,) = agent.model.requests
    assert not request.tools.items
    assert [(each.is_offered, each.tools) for each in request.tool_servers] == [(True, ())]


def test_max_tool_calls_of_a_response_bounds_the_calls_of_this_server() -> None:
    told, agent = ask(RESPONSES, max_tool_calls=0, tools=[ASKED])
    (request,) = agent.model.requests
    assert not request.tools.items
    assert told.whole["max_tool_calls"] == 0
    told, agent = ask(RESPONSES, max_tool_calls=1, tools=[ASKED])
    assert [bool(request.tools.items) for request in agent.model.requests] == [True, False]
    assert told.whole["status"] == "completed"


@pytest.mark.parametrize(
    ("uri", "required", "named"),
    [
        (CHAT, "required", {"type": "function", "function": {"name": "get"}}),
        (RESPONSES, "required", {"type": "function", "name": "get"}),
        (MESSAGES, {"type": "any"}, {"type": "tool", "name": "get"}),
    ],
)
def test_a_call_of_a_tool_of_this_server_can_be_required(
    uri: str, required: object, named: object
) -> None:
    for choice, expected in ((required, "required"), (named, "named")):
        told, agent = ask(uri, tool_choice=choice)
        assert told.error is None
        assert [request.tools.choice for request in agent.model.requests] == [expected, "auto"]
        assert len(agent.lane.called) == 1


def test_when_a_client_leaves_its_calls_are_given_up() -> None:
    async def run() -> ScriptedLane:
        agent = Agent()
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.Event().wait()

        agent.lane.gate = hang
        await agent.begin(CHAT)
        await begun.wait()
        agent.cancel()
        await agent.end()
        return agent.lane

    assert asyncio.run(run()).cancelled == 1


def test_an_engine_that_fails_in_a_later_turn_fails_the_answer() -> None:
    async def run() -> Told:
        agent = Agent()

        async def break_down() -> None:
            agent.model.unavailable_reason = "the engine is down"

        agent.lane.gate = break_down
        await agent.begin(CHAT)
        return await agent.end()

    told = asyncio.run(run())
    assert isinstance(told.error, RequestError)
    assert str(told.error) == "the engine is down"
