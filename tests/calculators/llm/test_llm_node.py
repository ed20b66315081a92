"""`LLMCalculator` and its neighbours: failures, stops, time limits, counts, several inputs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from calculators.kit.requests.request_record import RequestRecord
from calculators.language import (
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    OrderCheck,
    RequestError,
    Submitted,
    fake_model,
    on_deltas,
    request_for,
)
from calculators.language.testing import items_of
from graph_runtime import Code
from graph_runtime.testing import CalculatorRunner
from tests.calculators.language.graphs import run_graph
from tests.calculators.llm.graph_runs import CHAT, COMPLETIONS, MESSAGES, RESPONSES, LeavingClient
from tests.calculators.llm.scripted_servable import engine_of, scripted_servable
from tests.calculators.llm.three_nodes import (
    ONE_NODE,
    THREE_NODES,
    answer,
    comparable,
    run_into,
)

HELLO = [{"role": "user", "content": "Hello"}]
MODEL = """\
name: "LLMExecutor" calculator: "LLMCalculator"
input_stream: "REQUEST:0:first" input_stream: "REQUEST:1:second"
input_stream: "LOOPBACK:loopback" output_stream: "LOOPBACK:loopback"
output_stream: "DELTAS:deltas" input_side_packet: "LLM_NODE_RESOURCES:llm"
"""


def chat(**members: Any) -> dict[str, Any]:
    return {"model": "m", "messages": HELLO, **members}


def run_node(model: Any, *requests: tuple[str, Any], text: str = MODEL) -> list[Deltas]:
    """Return the packets of an LLM node that gets these requests on these inputs."""
    runner = CalculatorRunner(text, side_packets={"LLM_NODE_RESOURCES": {"LLMExecutor": model}})
    for port, request in requests:
        runner.push(port, request)
    runner.run()
    made: list[Deltas] = runner.outputs["DELTAS"].values
    return made


def test_requests_of_several_inputs_are_answered_one_after_the_other() -> None:
    model = fake_model("a", "b")
    first, second, third = (request_for(text) for text in ("1", "2", "3"))
    made = run_node(model, ("REQUEST", first), ("REQUEST:1", second), ("REQUEST", third))
    assert len(model.requests) == 3
    check = OrderCheck("llm")
    ends = 0
    for item in items_of(made):
        check.feed((item,))
        if isinstance(item, Ended):
            ends += 1
            check = OrderCheck("llm")
    assert ends == 3


def test_a_failure_is_an_item_and_the_next_request_is_answered() -> None:
    model = fake_model("a", fails_after=0)
    made = run_node(model, ("REQUEST", request_for("1")), ("REQUEST:1", request_for("2")))
    failures = [item for item in items_of(made) if isinstance(item, Failed)]
    assert len(failures) == 2
    assert {each.error.code for each in failures} == {Code.UNAVAILABLE}
    assert {each.request.last_text() for each in failures if each.request} == {"1", "2"}


def test_a_model_without_room_fails_as_an_item() -> None:
    model = fake_model("a")
    model.queue = 0
    [submitted, failed] = items_of(run_node(model, ("REQUEST", request_for())))
    assert isinstance(submitted, Submitted)
    assert submitted.node == "LLMExecutor"
    assert isinstance(failed, Failed)
    assert failed.error.code is Code.RESOURCE_EXHAUSTED


def test_a_model_that_is_slow_to_begin_is_given_up() -> None:
    options = (
        "node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] "
        '{ models_path: "./" first_token_seconds: 0.01 } }'
    )
    model = fake_model("a", delay=3600)
    made = run_node(model, ("REQUEST", request_for()), text=MODEL + options)
    failed = items_of(made)[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code is Code.DEADLINE_EXCEEDED
    assert failed.error.message == ('the model of node "LLMExecutor" has not begun within 0.01 s')
    assert model.stopped == 1
    assert model.unfinished == 0


@pytest.mark.parametrize("uri", [CHAT, COMPLETIONS, RESPONSES, MESSAGES])
def test_limits_of_the_model_are_told_as_with_one_node(uri: str) -> None:
    body: dict[str, Any] = {"model": "m", "messages": HELLO}
    limit = "max_output_tokens" if uri == RESPONSES else "max_tokens"
    if uri == RESPONSES:
        body = {"model": "m", "input": "Hello"}
    elif uri == COMPLETIONS:
        body = {"model": "m", "prompt": "Hello"}
    elif uri == MESSAGES:
        body[limit] = 10
    wrong: list[dict[str, Any]] = [
        {limit: 2000},
        {limit: 0},
        {"temperature": 3},
        {"top_p": 0, "temperature": 1},
        {"min_tokens": 500},
        {"num_assistant_tokens": 3},
        {"top_k": 0},
        {"spam": 1},
        {"ignore_eos": 1},
        {"best_of": 30},
        {"truncate_prompt_tokens": 5000},
    ]
    for members in wrong:
        errors: list[Any] = []
        for graph in (ONE_NODE, THREE_NODES):
            model = scripted_servable(max_tokens_limit=1000, best_of_limit=20)
            packets: list[str] = []
            error = asyncio.run(run_into(packets, graph, model, uri, {**body, **members}))
            if error is None:
                errors.append(len(packets))
                continue
            assert isinstance(error, RequestError)
            errors.append((error.message, error.code, error.param, error.reason))
        assert errors[0] == errors[1], members


def test_images_for_a_model_that_reads_none_are_told_as_with_one_node() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What?"}, part]}]
    told = [
        asyncio.run(run_into([], graph, scripted_servable(), CHAT, chat(messages=messages)))
        for graph in (ONE_NODE, THREE_NODES)
    ]
    first, second = (each for each in told if isinstance(each, RequestError))
    assert (first.message, first.param) == (second.message, second.param)
    assert first.param == "messages[0].content[1]"


def test_a_prompt_of_no_known_token_fails_as_with_one_node() -> None:
    for graph in (ONE_NODE, THREE_NODES):
        asking = answer(graph, scripted_servable(), COMPLETIONS, {"model": "m", "prompt": [5, 999]})
        with pytest.raises(RequestError, match="is not in the vocabulary") as caught:
            asyncio.run(asking)
        assert caught.value.param == "prompt[1]"


def test_counts_need_ports_of_their_own() -> None:
    body = {"model": "m", "text": "Hello"}
    with pytest.raises(RequestError, match="it answers /v3/chat/completions") as caught:
        asyncio.run(answer(THREE_NODES, scripted_servable(), "/v3/tokenize", body))
    assert caught.value.code is Code.NOT_FOUND


def test_counts_are_answered_by_the_model_node() -> None:
    graph = (
        THREE_NODES.replace(
            'output_stream: "REQUEST:request"',
            'output_stream: "REQUEST:request" output_stream: "COUNT:count"',
        )
        .replace(
            'input_stream: "REQUEST:request"\n',
            'input_stream: "REQUEST:request" input_stream: "COUNT:count" '
            'output_stream: "HTTP_RESPONSE_PAYLOAD:counted"\n',
        )
        .replace(
            'input_stream: "DELTAS:deltas"',
            'input_stream: "DELTAS:deltas" input_stream: "HTTP_RESPONSE_PAYLOAD:counted"',
        )
    )
    for uri, body in (
        ("/v3/tokenize", {"model": "m", "text": "Hello"}),
        ("/v3/messages/count_tokens", {"model": "m", "messages": HELLO}),
    ):
        expected = asyncio.run(answer(ONE_NODE, scripted_servable(), uri, body))
        assert asyncio.run(answer(graph, scripted_servable(), uri, body)) == expected
    [whole] = asyncio.run(answer(graph, scripted_servable(), CHAT, chat()))
    assert json.loads(whole)["choices"]


def test_a_client_that_leaves_ends_the_generation() -> None:
    async def run() -> None:
        client = LeavingClient()
        client.is_disconnected = True
        servable = scripted_servable()
        error = await run_into([], THREE_NODES, servable, CHAT, chat(), client=client)
        assert error is not None
        assert engine_of(servable).generations == []

    asyncio.run(run())


def test_a_stopped_answer_ends_in_order_with_the_usage_so_far() -> None:
    async def run() -> None:
        servable = scripted_servable()
        answered = await servable.generate(request_for(n=2, sampling={"temperature": 0.5}), "llm")
        check = OrderCheck("llm")
        check.feed(await answered.read())
        answered.stop()
        answered.stop()
        rest = await answered.read()
        check.feed(rest)
        check.finish()
        assert rest[0] == Finished(0, FinishReason.STOP)
        assert isinstance(rest[-1], Ended)
        assert rest[-1].usage.completion_tokens > 0
        assert answered.is_finished

    asyncio.run(run())


def test_the_log_has_what_was_written_and_the_record_one_generation() -> None:
    record = RequestRecord("id", keeps_texts=True)
    asyncio.run(answer(THREE_NODES, scripted_servable(), CHAT, chat(), record=record))
    [generation] = record.generations
    assert generation.answers == ["Hello world\N{SNOWMAN} more"]
    assert generation.prompts == ["<user>Hello"]
    assert generation.operation == "chat/completions"
    assert generation.completion_tokens == 7


@on_deltas
async def drops_the_end(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
    async for item in deltas:
        if not isinstance(item, Ended):
            yield item


def test_an_answer_without_its_end_is_an_error() -> None:
    for uri in (CHAT, RESPONSES):
        told = asyncio.run(run_graph(uri, fake_model("a"), [drops_the_end]))
        assert str(told.error) == 'node "drops_the_end" failed'
    told = asyncio.run(run_graph(RESPONSES, fake_model("a"), [drops_the_end], stream=True))
    assert told.events[-1]["type"] == "response.failed"


def test_a_graph_may_spell_out_the_loop_as_open_vino_model_server_has_it() -> None:
    spelled = THREE_NODES.replace(
        'input_side_packet: "LLM_NODE_RESOURCES:llm"',
        """input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } }
    }
  }""",
    )
    assert spelled != THREE_NODES
    for stream in (False, True):
        expected, told = (
            asyncio.run(answer(graph, scripted_servable(), CHAT, chat(stream=stream)))
            for graph in (THREE_NODES, spelled)
        )
        assert [comparable(each) for each in told] == [comparable(each) for each in expected]


def test_a_failure_of_the_engine_has_its_status_behind_nodes_of_authors() -> None:
    model = fake_model("a", "b", fails_after=0)
    told = asyncio.run(run_graph(CHAT, model, [drops_the_end]))
    assert isinstance(told.error, RequestError)
    assert told.error.code is Code.UNAVAILABLE
    model = fake_model("a", "b", fails_after=1)
    told = asyncio.run(run_graph(RESPONSES, model, [drops_the_end], stream=True))
    assert told.error is None
    assert told.events[-1]["type"] == "response.failed"
