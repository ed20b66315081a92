"""Graphs of HTTP requests are language models to clients of KServe."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import HttpPayload, NoClient, RequestError
from calculators.tensors.inference import Tensor
from graph_runtime import Calculator, CalculatorContext, Code, In, NotFoundError, Out
from servers.contract.failure import failure_of
from servers.serving.loaded_graph import LoadedGraph
from tests.servers.serving.graph_inference.graphs import (
    ask,
    asking,
    between,
    passing,
    served,
    session,
    tensor,
)
from tests.servers.serving.served_graphs import http_graph

TEXT = tensor("text_input", [b"hey"])


class Shout(Calculator):
    """Completes a prompt with the prompt itself."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        body = cc.get(self.request).parsed_json
        choice = {"index": 0, "text": body["prompt"].upper(), "finish_reason": "stop"}
        answer = json.dumps({"choices": [choice]})
        cc.emit(self.response, f"data: {answer}\n\n" if body["stream"] else answer)


def text_of(response: Any) -> str:
    text: bytes = next(each.data.item() for each in response.outputs if each.name == "text_output")
    return text.decode()


def test_a_text_is_completed(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        response = await ask(graph, TEXT, id="7", exclude_input_in_output=True)
        assert (text_of(response), response.id, response.version) == ("HEY", "7", "1")
        assert graph.metadata().inputs[0].name == "text_input"
        async with session(graph) as stream:
            await stream.send(TEXT)
            answers = await stream.finish()
        assert text_of(answers[0]) == "HEY"
        assert graph.users.requests == 0

    served(tmp_path, http_graph("Shout"), scenario, Shout)


def test_there_is_one_version(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(NotFoundError, match="has no version"):
            graph.check_version("2")

    served(tmp_path, http_graph("Shout"), scenario, Shout)


def test_a_graph_of_requests_without_answers_is_refused(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError, match="has no output stream for the answer"):
            await ask(graph, TEXT)
        with pytest.raises(RequestError, match="has no output stream for the answer"):
            async with graph.open_stream(asking(), NoClient(), print):
                raise AssertionError("opened")

    def look(payload: HttpPayload) -> str:
        return payload.uri

    served(tmp_path, between("look", "input", "else"), scenario, look)


def test_a_missing_answer_is_an_error_that_names_the_node(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        told = (
            'the graph of model "graph" gave no answer: node "silent" ran once and sent nothing '
            'on "output"'
        )
        packets: list[ResponsePacket] = []
        with pytest.raises(RequestError) as caught:
            await graph.answer(HttpPayload("/v3/x", {}), packets.append)
        assert (str(caught.value), caught.value.code, packets) == (told, Code.INTERNAL, [])
        failure = failure_of(caught.value)
        assert (failure.text, failure.cause) == (told, None)  # clients may see the names of nodes

    def silent(payload: HttpPayload) -> str | None:
        return None

    served(tmp_path, between("silent", "input", "output"), scenario, silent)


@pytest.mark.parametrize("tag", ["HTTP_REQUEST_PAYLOAD", "REQUEST_PAYLOAD"])
def test_the_tag_determines_the_interface_where_no_type_does(tmp_path: Path, tag: str) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert graph.metadata().inputs[0].name == "text_input"

    served(tmp_path, passing(f"{tag}:a", "b"), scenario)


def test_a_graph_of_any_type_accepts_both(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        (output,) = (await ask(graph, tensor("input", [b"x"]))).outputs
        assert isinstance(output, Tensor)
        assert output.data.tolist() == [b"x"]
        packets: list[ResponsePacket] = []
        await graph.answer(HttpPayload("/v3/x", {}), packets.append)
        assert packets == ["/v3/x"]

    def both(packet: Any) -> Any:
        return packet.uri if isinstance(packet, HttpPayload) else packet

    served(tmp_path, between("both", "input", "output"), scenario, both)


def test_nodes_in_threads_answer_on_the_loop(tmp_path: Path) -> None:
    text = http_graph("Shout", 'executor: "pool"') + (
        'executor { name: "pool" type: "ThreadPoolExecutor" options { '
        "[mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 } } }"
    )

    async def scenario(graph: LoadedGraph) -> None:
        threads: list[int] = []
        body = {"prompt": "x", "stream": False}
        await graph.answer(
            HttpPayload("/v3/completions", {}, b"", body),
            lambda packet: threads.append(threading.get_ident()),
        )
        assert threads == [threading.get_ident()]

    served(tmp_path, text, scenario, Shout)
