"""The loop of turns: what is shown, what the model gets back, and where it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from calculators.kit.requests.request_record import RequestRecord
from calculators.language import (
    Begun,
    Content,
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
    GenerationRequest,
    OrderCheck,
    Reasoning,
    RequestError,
    ToolCalled,
    ToolRan,
    Tools,
    ToolServer,
    Usage,
    call,
    delta_packets,
    request_for,
    text_of,
)
from calculators.language.server_tools.toolbox import names_of, offer_tools
from calculators.language.server_tools.tools_calculator import ToolLoop
from calculators.language.server_tools.tools_options import ToolsBounds
from calculators.language.testing import events_of
from tests.calculators.language.server_tools.scripted_tools import ScriptedLane, Tool, toolbox

BOUNDS = ToolsBounds(max_turns=8, max_calls=32, total_seconds=1e6)


def forecast(arguments: dict[str, Any]) -> str:
    return f"{arguments['city']}: 12 degrees"


def fails(arguments: dict[str, Any]) -> str:
    raise ValueError("no such city")


class Model:
    """Answers the requests of a loop with one script after the other."""

    def __init__(self, *turns: Sequence[Any], finish: str = "") -> None:
        self._turns = list(turns)
        self._finish = finish
        self.requests: list[GenerationRequest] = []

    def packets(self, request: GenerationRequest) -> Iterable[Deltas]:
        self.requests.append(request)
        pieces = self._turns.pop(0)
        calls = any(not isinstance(piece, str) for piece in pieces)
        finish = self._finish or ("tool_calls" if calls else "stop")
        return delta_packets(*pieces, finish=finish, request=request)


async def converse(model: Model, loop: ToolLoop, request: GenerationRequest) -> list[Delta]:
    """Run a loop to its end; returns all that it showed, in a legal order."""
    check = OrderCheck()
    shown: list[Delta] = []
    asked: GenerationRequest | None = request
    while asked is not None:
        for packet in model.packets(asked):
            shown += loop.feed(packet)
        asked = None
        if loop.is_due:
            shown += [item async for item in loop.run()]
            asked = loop.again
    check.feed(shown)
    check.finish()
    return shown


def answer(
    *turns: Sequence[Any],
    tools: Mapping[str, Tool] | None = None,
    bounds: ToolsBounds = BOUNDS,
    finish: str = "",
    **fields: Any,
) -> tuple[list[Delta], Model, ScriptedLane]:
    box, lane = toolbox(**(tools or {"forecast": forecast, "fails": fails}))
    model = Model(*turns, finish=finish)
    request = offer_tools(request_for("Paris?", **fields), box)
    shown = asyncio.run(converse(model, ToolLoop(box, bounds, "tools"), request))
    return shown, model, lane


def ran(shown: Iterable[Delta]) -> list[ToolRan]:
    return [item for item in shown if isinstance(item, ToolRan)]


def finish_of(shown: Iterable[Delta]) -> FinishReason:
    (finished,) = [item for item in shown if isinstance(item, Finished)]
    return finished.reason


def client_tool(name: str) -> Tools:
    return Tools([{"type": "function", "function": {"name": name}}], "auto", ("tools[0]",))


def test_a_call_is_run_and_the_model_answers_with_its_result() -> None:
    shown, model, _ = answer(
        ["Let me look. ", *call("forecast", {"city": "Paris"}, "c1")], ["It has 12 degrees."]
    )
    assert text_of(Deltas(shown)) == "Let me look. It has 12 degrees."
    assert {type(event) for event in events_of(Deltas(shown))} == {Content}
    assert finish_of(shown) is FinishReason.STOP
    second = model.requests[1]
    assert second.messages[-2:] == (
        {
            "role": "assistant",
            "content": "Let me look. ",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "forecast", "arguments": '{"city": "Paris"}'},
                }
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "name": "forecast",
            "content": "Paris: 12 degrees",
        },
    )
    assert second.turn == 1


def test_the_answer_says_which_calls_ran() -> None:
    shown, *_ = answer([*call("forecast", {"city": "Paris"}, "c1")], ["12"])
    (called,) = [item for item in shown if isinstance(item, ToolCalled)]
    assert called == ToolCalled(0, "c1", "forecast", "weather", '{"city": "Paris"}')
    (one,) = ran(shown)
    assert one == ToolRan(
        0, "c1", "forecast", "weather", '{"city": "Paris"}', "Paris: 12 degrees", None, one.seconds
    )
    assert shown.index(called) < shown.index(one)


def test_usage_is_the_sum_of_all_turns_and_the_answer_begins_once() -> None:
    shown, *_ = answer([*call("forecast", {"city": "Paris"}, "c1")], ["a", "b"])
    assert [type(item) for item in shown if isinstance(item, Begun | Ended)] == [Begun, Ended]
    assert shown[-1] == Ended(Usage(2, 5))  # three events of the call, two pieces


def test_text_after_hidden_calls_is_a_paragraph_of_its_own() -> None:
    turns = (["I look.", *call("forecast", {"city": "P"}, "c1")], ["It ", "rains."])
    shown, *_ = answer(*turns)
    assert text_of(Deltas(shown)) == "I look.\n\nIt rains."
    shown, *_ = answer(*turns, tool_servers=(ToolServer("weather", "tools[0]"),))
    assert text_of(Deltas(shown)) == "I look.It rains."


def test_calls_of_one_turn_run_together_and_their_results_keep_their_order() -> None:
    async def both() -> tuple[list[Delta], Model]:
        box, lane = toolbox(first=lambda _: "1", second=lambda _: "2")
        lane.gate = asyncio.Barrier(2).wait
        model = Model([*call("first", {}, "a"), "\n", *call("second", {}, "b")], ["done"])
        loop = ToolLoop(box, BOUNDS, "tools")
        return await converse(model, loop, offer_tools(request_for("x"), box)), model

    shown, model = asyncio.run(both())
    assert [item.call_id for item in ran(shown)] == ["a", "b"]
    assert [message["content"] for message in model.requests[1].messages[-2:]] == ["1", "2"]
    assert text_of(Deltas(shown)) == "done"


def test_a_call_that_fails_is_told_to_the_model() -> None:
    shown, model, _ = answer([*call("fails", {}, "c1")], ["Sorry."])
    assert ran(shown)[0].error == "no such city"
    assert model.requests[1].messages[-1]["content"] == "error: no such city"


def test_a_tool_that_nobody_has_is_told_to_the_model() -> None:
    shown, model, lane = answer([*call("nonsense", {}, "c1")], ["Sorry."])
    assert ran(shown)[0].error == 'there is no tool "nonsense"; the tools are: forecast, fails'
    assert lane.called == []
    assert model.requests[1].messages[-1]["role"] == "tool"


@pytest.mark.parametrize("arguments", ["{", "[1]", "text", ""])
def test_arguments_that_are_no_object_make_no_broken_prompt(arguments: str) -> None:
    _, model, _ = answer([*call("fails", arguments, "c1")], ["Sorry."])
    written = model.requests[1].messages[-2]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(written), dict)


def test_calls_of_the_clients_tools_go_to_the_client() -> None:
    shown, model, lane = answer_with_client_tool([*call("theirs", {"a": 1}, "c1")])
    assert text_of(Deltas(shown), kind="arguments") == '{"a": 1}'
    assert finish_of(shown) is FinishReason.TOOL_CALLS
    assert lane.called == []
    assert len(model.requests) == 1


def answer_with_client_tool(
    *turns: Sequence[Any], **fields: Any
) -> tuple[list[Delta], Model, ScriptedLane]:
    box, lane = toolbox(forecast=forecast)
    model = Model(*turns)
    request = offer_tools(request_for("x", tools=client_tool("theirs"), **fields), box)
    shown = asyncio.run(converse(model, ToolLoop(box, BOUNDS, "tools"), request))
    return shown, model, lane


def test_a_turn_with_both_kinds_shows_only_the_clients_calls_and_runs_none() -> None:
    shown, _, lane = answer_with_client_tool(
        [*call("forecast", {"city": "P"}, "s"), *call("theirs", {"a": 1}, "c")]
    )
    assert text_of(Deltas(shown), kind="arguments") == '{"a": 1}'
    assert lane.called == []
    assert finish_of(shown) is FinishReason.TOOL_CALLS


def test_after_max_turns_the_model_has_to_answer() -> None:
    turns = [[*call("forecast", {"city": "P"}, f"c{n}")] for n in range(2)]
    shown, model, _ = answer(*turns, ["at last"], bounds=replace(BOUNDS, max_turns=3))
    assert [bool(request.tools.items) for request in model.requests] == [True, True, False]
    assert text_of(Deltas(shown)) == "at last"


def test_beyond_max_calls_the_answer_ends() -> None:
    turns = [[*call("forecast", {"city": "P"}, "a"), *call("forecast", {"city": "Q"}, "b")]] * 2
    shown, model, lane = answer(*turns, bounds=replace(BOUNDS, max_calls=3))
    assert len(lane.called) == 2
    assert len(model.requests) == 2
    assert finish_of(shown) is FinishReason.LENGTH
    assert text_of(Deltas(shown)) == ""


def test_after_the_clients_max_tool_calls_the_model_answers_without_this_servers_tools() -> None:
    turns: list[list[Any]] = [[*call("forecast", {"city": "P"}, "a")], ["12"]]
    shown, model, lane = answer(*turns, max_tool_calls=1)
    assert len(lane.called) == 1
    assert [list(names_of(request.tools)) for request in model.requests] == [
        ["forecast", "fails"],
        [],
    ]
    assert text_of(Deltas(shown)) == "12"
    _, model, _ = answer_with_client_tool(*turns, max_tool_calls=1)
    assert list(names_of(model.requests[1].tools)) == ["theirs"]


def test_a_turn_of_more_calls_than_max_tool_calls_ends_the_answer() -> None:
    turn = [*call("forecast", {"city": "P"}, "a"), *call("forecast", {"city": "Q"}, "b")]
    record = RequestRecord("r1")
    shown, _, lane = answer(turn, max_tool_calls=1, record=record)
    assert lane.called == []
    assert finish_of(shown) is FinishReason.LENGTH
    assert record.tool_calls[0].exceeded == "max_tool_calls"


def test_beyond_total_seconds_the_answer_ends() -> None:
    record = RequestRecord("r1")
    shown, _, lane = answer(
        [*call("forecast", {"city": "P"}, "a")],
        bounds=replace(BOUNDS, total_seconds=1e-9),
        record=record,
    )
    assert record.tool_calls[0].exceeded == "total_seconds"
    assert lane.called == []
    assert finish_of(shown) is FinishReason.LENGTH


def test_a_call_that_was_cut_is_not_run() -> None:
    shown, _, lane = answer([*call("forecast", '{"city": "P', "a")], finish="length")
    assert lane.called == []
    assert finish_of(shown) is FinishReason.LENGTH


def test_the_limit_of_tokens_is_that_of_all_turns() -> None:
    calls = [*call("forecast", {"city": "P"}, "a")]
    _, model, _ = answer(calls, ["x"], sampling={"max_tokens": 10})
    assert model.requests[1].sampling["max_tokens"] == 7
    shown, model, _ = answer(calls, sampling={"max_tokens": 3})
    assert len(model.requests) == 1
    assert finish_of(shown) is FinishReason.LENGTH


def test_a_required_call_is_required_once() -> None:
    box, _ = toolbox(forecast=forecast)
    tools = replace(client_tool("theirs"), choice="required")
    request = offer_tools(replace(request_for("x"), tools=tools), box)
    model = Model([*call("forecast", {"city": "P"}, "a")], ["x"])
    asyncio.run(converse(model, ToolLoop(box, BOUNDS, "tools"), request))
    assert [each.tools.choice for each in model.requests] == ["required", "auto"]


def test_reasoning_is_shown_and_given_back() -> None:
    shown, model, _ = answer(
        [Reasoning("I need it."), *call("forecast", {"city": "P"}, "a")], [Reasoning("Good."), "12"]
    )
    assert text_of(Deltas(shown), kind="reasoning") == "I need it.Good."
    assert model.requests[1].messages[-2]["reasoning_content"] == "I need it."


def test_an_answer_that_is_stopped_while_tools_run_ends() -> None:
    async def stopped() -> tuple[list[Delta], Model]:
        box, lane = toolbox(forecast=forecast)
        lane.gate = asyncio.Event().wait
        model = Model([*call("forecast", {"city": "P"}, "a")], ["never"])
        request = offer_tools(request_for("x"), box)
        loop = ToolLoop(box, BOUNDS, "tools")
        shown: list[Delta] = []
        for packet in model.packets(request):
            shown += loop.feed(packet)
        (begun,) = [item for item in shown if isinstance(item, Begun)]
        async for item in loop.run():
            shown.append(item)
            if isinstance(item, ToolCalled):
                begun.stop()
        return shown, model

    shown, model = asyncio.run(stopped())
    assert finish_of(shown) is FinishReason.STOP
    assert isinstance(shown[-1], Ended)
    assert len(model.requests) == 1


def test_stop_reaches_the_generation_of_a_later_turn() -> None:
    stopped: list[str] = []
    box, _ = toolbox(forecast=forecast)
    loop = ToolLoop(box, BOUNDS, "tools")
    request = offer_tools(request_for("x"), box)

    async def turns() -> None:
        shown: list[Delta] = []
        first = [*call("forecast", {"city": "P"}, "a")]
        for packet in delta_packets(
            *first, finish="tool_calls", request=request, stop=lambda: stopped.append("first")
        ):
            shown += loop.feed(packet)
        (begun,) = [item for item in shown if isinstance(item, Begun)]
        async for _ in loop.run():
            pass
        assert loop.again is not None
        later = Begun(1, Usage(1, 0), loop.again, stop=lambda: stopped.append("second"))
        loop.feed(Deltas((later, Gained(0, (Content("x"),)))))
        begun.stop()

    asyncio.run(turns())
    assert stopped == ["second"]


def test_a_failure_in_a_later_turn_ends_the_answer() -> None:
    box, _ = toolbox(forecast=forecast)
    loop = ToolLoop(box, BOUNDS, "tools")
    error = RequestError("the engine failed")

    async def turns() -> Sequence[Delta]:
        first = [*call("forecast", {"city": "P"}, "a")]
        for packet in delta_packets(
            *first, finish="tool_calls", request=offer_tools(request_for("x"), box)
        ):
            loop.feed(packet)
        async for _ in loop.run():
            pass
        return loop.feed(Deltas((Failed(error, loop.again),)))

    (failed,) = asyncio.run(turns())
    assert isinstance(failed, Failed)
    assert failed.error is error
    assert loop.is_over


def test_packets_without_tools_pass_as_they_are() -> None:
    box, _ = toolbox(forecast=forecast)
    loop = ToolLoop(box, BOUNDS, "tools")
    first, *others = delta_packets("a", "b", "c", request=request_for("x"))
    assert list(loop.feed(first)) == list(first)
    for packet in others:
        assert loop.feed(packet) is packet


def test_each_call_is_recorded_without_its_texts() -> None:
    record = RequestRecord("r1")
    answer([*call("fails", {"city": "P"}, "a")], ["x"], record=record)
    (noted,) = record.tool_calls
    assert (noted.node, noted.name, noted.server) == ("tools", "fails", "weather")
    assert (noted.arguments, noted.error) == ("", True)
    assert noted.ended >= noted.began
    record = RequestRecord("r2", keeps_texts=True)
    answer([*call("forecast", {"city": "P"}, "a")], ["x"], record=record)
    assert record.tool_calls[0].arguments == '{"city": "P"}'
    assert record.tool_calls[0].output_bytes == len("P: 12 degrees")


# Offers -------------------------------------------------------------------------------------------


def test_all_tools_are_offered_beside_the_clients() -> None:
    box, _ = toolbox(forecast=forecast, fails=fails)
    plain = offer_tools(request_for("x"), box).tools
    assert list(names_of(plain)) == ["forecast", "fails"]
    assert plain.choice == "auto"
    assert len(plain.schema_paths) == 2
    mixed = offer_tools(replace(request_for("x"), tools=client_tool("theirs")), box).tools
    assert list(names_of(mixed)) == ["theirs", "forecast", "fails"]


def test_who_wants_no_calls_gets_no_tools() -> None:
    box, _ = toolbox(forecast=forecast)
    for tools in (Tools(is_declined=True), replace(client_tool("theirs"), choice="named")):
        request = replace(request_for("x"), tools=tools)
        assert offer_tools(request, box) is request
        # A server that it names is known, and has no tools.
        named = offer_tools(
            replace(request, tool_servers=(ToolServer("weather", "tools[0]"),)), box
        )
        assert named.tools is tools
        assert [(each.is_offered, each.tools) for each in named.tool_servers] == [(True, ())]
        with pytest.raises(RequestError):
            offer_tools(replace(request, tool_servers=(ToolServer("other", "tools[0]"),)), box)


def test_where_the_bounds_leave_no_call_no_tools_are_offered() -> None:
    box, _ = toolbox(forecast=forecast)
    request = request_for("x", max_tool_calls=0)
    assert offer_tools(request, box) is request
    box.may_call = ToolsBounds(max_turns=1, max_calls=32, total_seconds=1).leave_calls
    request = replace(request_for("x"), tools=client_tool("theirs"))
    assert offer_tools(request, box) is request


def test_a_choice_that_names_a_tool_here_leaves_only_that_tool() -> None:
    box, _ = toolbox(forecast=forecast, fails=fails)
    request = request_for("x", tools=Tools([], "named", named="fails"))
    offered = offer_tools(request, box).tools
    assert (list(names_of(offered)), offered.choice) == (["fails"], "named")
    unknown = request_for("x", tools=Tools([], "named", named="other"))
    assert offer_tools(unknown, box) is unknown


def test_named_servers_offer_their_tools_only() -> None:
    box, _ = toolbox(forecast=forecast, fails=fails)
    asked = ToolServer("weather", "mcp_servers[0]", allowed=("fails", "unknown"))
    request = offer_tools(request_for("x", tool_servers=(asked,)), box)
    assert list(names_of(request.tools)) == ["fails"]
    (server,) = request.tool_servers
    assert server.is_offered
    assert [tool["name"] for tool in server.tools] == ["fails"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": client_tool("forecast")}, "tools[0].function.name"),
        ({"tool_servers": (ToolServer("other", "mcp_servers[0].name"),)}, "mcp_servers[0].name"),
        (
            {"tool_servers": (ToolServer("weather", "tools[0]", "http://169.254.169.254/"),)},
            "tools[0]",
        ),
    ],
)
def test_what_cannot_be_offered_is_refused(fields: dict[str, Any], param: str) -> None:
    box, _ = toolbox(forecast=forecast)
    with pytest.raises(RequestError) as caught:
        offer_tools(request_for("x", **fields), box)
    assert caught.value.param == param
