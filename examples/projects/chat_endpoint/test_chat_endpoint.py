"""The whole graph, as the server runs it for each request, without a server."""

import json
from pathlib import Path
from typing import Any

import pytest
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graphrt import CalculatorGraph
from graph_runtime.testing import Sink

from chat_endpoint import answer

GRAPH = Path(__file__).with_name("graph.pbtxt")


def packets(content: Any, **members: Any) -> list[str]:
    """Return the packets with which the graph answers one message."""
    messages = [{"role": "user", "content": content}]
    body = {"model": "project-name", "messages": messages, **members}
    with CalculatorGraph(graph_path=GRAPH) as graph:
        responses = Sink(graph, "output")
        graph.start_run()
        request = HttpPayload("/v3/chat/completions", {}, parsed_json=body)
        graph.add_packet_to_input_stream("input", request, 0)
        graph.close_all_input_streams()
        graph.wait_until_done()
    return responses.values


@pytest.mark.parametrize("content", ["good day", [{"type": "text", "text": "good day"}]])
def test_a_chat_is_answered(content: Any) -> None:
    (packet,) = packets(content)
    message = json.loads(packet)["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "You said: good day"}


def test_a_stream_has_the_same_text_in_pieces() -> None:
    *events, done = packets("good day", stream=True)
    choices = [json.loads(each.removeprefix("data: "))["choices"][0] for each in events]
    pieces = [choice["delta"].get("content", "") for choice in choices]
    assert pieces == ["", "You said:", " good", " day", ""]
    assert choices[-1]["finish_reason"] == "stop"
    assert done == "data: [DONE]\n\n"


@pytest.mark.parametrize("body", [None, {}, {"messages": []}, {"messages": [{"content": 5}]}])
def test_what_is_not_a_chat_is_refused(body: Any) -> None:
    with pytest.raises(RequestError):
        answer(body)
