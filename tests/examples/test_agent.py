"""`examples/graphs/agent`, served: a model calls the tools of an MCP server, and answers."""

from __future__ import annotations

import json
import queue
import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

openai = pytest.importorskip("openai", reason="the extra clients is not installed")
triton_grpc = pytest.importorskip("tritonclient.grpc", reason="the extra clients is not installed")

# Only a process of the server imports it.
pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")

GRAPH: Final = "examples/graphs/agent/graph.pbtxt"
QUESTION: Final = "What is the weather in Paris?"
MESSAGES: Final[Any] = [{"role": "user", "content": QUESTION}]
GREEDY: Final[Any] = {"model": "agent", "temperature": 0}
WEATHER: Final[Any] = {"type": "mcp", "server_label": "weather", "require_approval": "never"}
SERVERS: Final[Any] = {
    "mcp_servers": [{"type": "url", "name": "weather", "url": ""}],
    "betas": ["mcp-client-2025-04-04"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    words = ("examples/graphs/agent", "--port", "auto")
    with Serving(ROOT, *words, calculators=()) as serving:
        yield serving.wait_until_serving()


@pytest.fixture(scope="module")
def chats(server: Serving) -> Iterator[Any]:
    address = f"http://127.0.0.1:{server.port}/v3"
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def messages(server: Serving) -> Iterator[Any]:
    # Takes more than a second, in each process that collects tests if it were above.
    anthropic = pytest.importorskip("anthropic", reason="the extra clients is not installed")
    address = f"http://127.0.0.1:{server.port}"
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client:
        yield client


def is_answer(text: str) -> bool:
    """Does a text say what the tool said?"""
    return "12" in text and "rain" in text


def test_the_graph_is_valid_and_can_be_drawn() -> None:
    done = graphrt("validate", GRAPH, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    drawn = graphrt("describe", GRAPH, "--format", "mermaid", cwd=ROOT).stdout
    for name in ("OfferToolsCalculator", "LLMCalculator", "ToolsCalculator", "again"):
        assert name in drawn


def test_the_graph_runs_without_a_server() -> None:
    done = graphrt("run", GRAPH, "--text", QUESTION, "--deltas", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    items = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [item["kind"] for item in items]
    assert kinds.index("tool_called") < kinds.index("tool_ran") < kinds.index("ended")


# Chats --------------------------------------------------------------------------------------------


def test_a_chat_gets_the_answer_and_sees_no_call(chats: Any) -> None:
    answer = chats.chat.completions.create(**GREEDY, messages=MESSAGES)
    choice = answer.choices[0]
    assert is_answer(choice.message.content)
    assert choice.finish_reason == "stop"
    assert not choice.message.tool_calls
    # The prompts of both turns count.
    assert answer.usage.prompt_tokens > 300
    assert answer.usage.completion_tokens > 20


def test_a_streamed_chat_has_the_same_text(chats: Any) -> None:
    whole = chats.chat.completions.create(**GREEDY, messages=MESSAGES)
    chunks = list(
        chats.chat.completions.create(
            **GREEDY, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert not any(delta.tool_calls for delta in deltas)
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].usage == whole.usage


def test_calls_of_the_clients_own_tools_go_to_the_client(chats: Any) -> None:
    tool = {
        "type": "function",
        "function": {
            "name": "get_forecast",
            "description": "Get the forecast of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
    answer = chats.chat.completions.create(
        **GREEDY,
        messages=MESSAGES,
        tools=[tool],
        tool_choice={"type": "function", "function": {"name": "get_forecast"}},
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "get_forecast"
    assert answer.choices[0].finish_reason in ("stop", "tool_calls")


def test_several_answers_are_refused(chats: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chats.chat.completions.create(**GREEDY, messages=MESSAGES, n=2)
    assert caught.value.body["param"] == "n"


# Responses ----------------------------------------------------------------------------------------


def test_a_response_shows_the_calls_of_a_named_server(chats: Any) -> None:
    answer = chats.responses.create(**GREEDY, input=QUESTION, tools=[WEATHER])
    listed, call, message = answer.output
    assert [tool.name for tool in listed.tools] == ["get_weather"]
    assert (call.type, call.name, call.server_label) == ("mcp_call", "get_weather", "weather")
    assert (call.status, call.output) == ("completed", "Paris: 12 degrees and rainy")
    assert is_answer(message.content[0].text)
    assert answer.status == "completed"


def test_a_streamed_response_ends_with_the_same_items(chats: Any) -> None:
    whole = chats.responses.create(**GREEDY, input=QUESTION, tools=[WEATHER])
    with chats.responses.stream(**GREEDY, input=QUESTION, tools=[WEATHER]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds.index("response.mcp_call.in_progress") < kinds.index("response.mcp_call.completed")
    assert [item.type for item in final.output] == [item.type for item in whole.output]
    assert final.output_text == whole.output_text
    assert final.usage == whole.usage


def test_a_response_can_be_continued_with_its_items(chats: Any) -> None:
    first = chats.responses.create(**GREEDY, input=QUESTION, tools=[WEATHER])
    history = [*MESSAGES, *(item.model_dump(exclude_none=True) for item in first.output)]
    second = chats.responses.create(
        **GREEDY,
        input=[*history, {"role": "user", "content": "And in Rome?"}],
        tools=[WEATHER],
    )
    assert second.status == "completed"
    assert second.usage.input_tokens > first.usage.input_tokens // 2


def test_a_response_without_named_servers_shows_no_calls(chats: Any) -> None:
    answer = chats.responses.create(**GREEDY, input=QUESTION)
    assert [item.type for item in answer.output] == ["message"]
    assert is_answer(answer.output_text)


@pytest.mark.parametrize(
    ("member", "param"),
    [
        ({"server_label": "other"}, "tools[0].server_label"),
        ({"server_url": "http://169.254.169.254/latest"}, "tools[0].server_label"),
        ({"authorization": "Bearer x"}, "tools[0].authorization"),
        ({"require_approval": "always"}, "tools[0].require_approval"),
    ],
)
def test_a_server_from_outside_is_refused(chats: Any, member: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chats.responses.create(**GREEDY, input=QUESTION, tools=[{**WEATHER, **member}])
    assert caught.value.body["param"] == param
    assert "169.254" not in str(caught.value.body)


# Messages -----------------------------------------------------------------------------------------


def asked(**members: Any) -> dict[str, Any]:
    body = {"model": "agent", "max_tokens": 200, "messages": MESSAGES, **members}
    return {**body, "extra_body": {"temperature": 0}}


def test_a_message_shows_the_calls_of_a_named_server(messages: Any) -> None:
    answer = messages.beta.messages.create(**asked(**SERVERS))
    use, result, text = answer.content
    assert (use.type, use.server_name, use.input) == ("mcp_tool_use", "weather", {"city": "Paris"})
    assert (result.type, result.tool_use_id, result.is_error) == ("mcp_tool_result", use.id, False)
    assert result.content[0].text == "Paris: 12 degrees and rainy"
    assert is_answer(text.text)
    assert answer.stop_reason == "end_turn"


def test_a_streamed_message_has_the_same_blocks(messages: Any) -> None:
    whole = messages.beta.messages.create(**asked(**SERVERS))
    with messages.beta.messages.stream(**asked(**SERVERS)) as stream:
        final = stream.get_final_message()
    assert [block.type for block in final.content] == [block.type for block in whole.content]
    assert final.content[0].input == {"city": "Paris"}
    assert final.content[2].text == whole.content[2].text
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_a_message_can_be_continued_with_its_blocks(messages: Any) -> None:
    first = messages.beta.messages.create(**asked(**SERVERS))
    said = [block.model_dump(exclude_none=True) for block in first.content]
    history = [
        *MESSAGES,
        {"role": "assistant", "content": said},
        {"role": "user", "content": "And in Rome?"},
    ]
    second = messages.beta.messages.create(**asked(messages=history, **SERVERS))
    assert second.stop_reason == "end_turn"


def test_a_message_without_named_servers_shows_no_calls(messages: Any) -> None:
    answer = messages.messages.create(**asked())
    assert [block.type for block in answer.content] == ["text"]
    assert is_answer(answer.content[0].text)


# KServe -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kserve(server: Serving) -> Iterator[Any]:
    (line,) = [line for line in server.log if "grpc://" in line and "listening" in line]
    found = re.search(r"grpc://(\S+:\d+)", line)
    assert found is not None
    with triton_grpc.InferenceServerClient(found[1]) as client:
        yield client


def prompt() -> Any:
    tensor = triton_grpc.InferInput("text_input", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([QUESTION.encode()], dtype=object))
    return tensor


PARAMETERS: Final = {"chat": True, "temperature": 0, "max_tokens": 200}


def text_of(result: Any) -> str:
    return "".join(part.decode() for part in result.as_numpy("text_output").flatten())


def test_kserve_gets_the_answer(kserve: Any) -> None:
    result = kserve.infer("agent", [prompt()], parameters=PARAMETERS)
    assert is_answer(text_of(result))


def test_kserve_gets_the_answer_as_a_stream(kserve: Any) -> None:
    whole = text_of(kserve.infer("agent", [prompt()], parameters=PARAMETERS))
    results: queue.Queue[Any] = queue.Queue()
    kserve.start_stream(lambda result, error: results.put(error or result))
    kserve.async_stream_infer("agent", [prompt()], parameters=PARAMETERS)
    texts: list[str] = []
    while True:
        result = results.get()
        texts.append(text_of(result))
        if result.get_response().parameters["triton_final_response"].bool_param:
            break
    kserve.stop_stream()
    assert "".join(texts) == whole
    assert len([text for text in texts if text]) > 1
