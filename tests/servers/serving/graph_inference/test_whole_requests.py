"""REQUEST and RESPONSE: streams that carry the whole request and the whole answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import InferRequest, InferResponse, Tensor
from graph_runtime import GraphConfigError
from servers.contract.data_plane import TensorMetadata
from servers.serving.loaded_graph import LoadedGraph
from tests.servers.serving.graph_inference.graphs import (
    ask,
    between,
    served,
    session,
    tensor,
    times,
)

WHOLE = between("swap", "REQUEST:in", "RESPONSE:out")


def swap(request: Any) -> Any:
    """Answers with the inputs in reverse order."""
    return InferResponse("", "", "", {"seen": request.id}, request.inputs[::-1])


def test_a_graph_receives_the_whole_request_and_sends_the_whole_answer(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        inputs = tensor("any", [1]), tensor("name", [b"x"])
        response = await ask(graph, *inputs, id="7", outputs=["whatever"])
        assert [each.name for each in response.outputs] == ["name", "any"]
        assert (response.model, response.version, response.id) == ("graph", "1", "7")
        assert response.parameters == {"seen": "7"}
        assert graph.metadata().inputs == (TensorMetadata("in"),)
        assert graph.metadata().outputs == (TensorMetadata("out"),)

    served(tmp_path, WHOLE, scenario, swap)


def test_whole_requests_can_be_streamed(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(tensor("a", [1]), id="first")
            await stream.send(id="second", outputs=["whatever"])
            answers = await stream.finish()
        assert [(each.id, each.parameters["seen"]) for each in answers] == [
            ("first", "first"),
            ("second", "second"),
        ]
        assert times(answers) == [0, 1]

    served(tmp_path, WHOLE, scenario, swap)


def test_port_types_can_replace_the_tags(tmp_path: Path) -> None:
    def typed(request: InferRequest) -> InferResponse:
        return InferResponse("mine", "3", "me", {}, (Tensor.of("n", tensor("n", [1]).data),))

    async def scenario(graph: LoadedGraph) -> None:
        response = await ask(graph)
        assert (response.model, response.version, response.id) == ("mine", "3", "me")

    served(tmp_path, between("typed", "in", "out"), scenario, typed)


def test_an_invalid_answer_is_an_error(tmp_path: Path) -> None:
    def wrong(request: Any) -> Any:
        return 7

    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError, match="should have given an InferResponse") as caught:
            await ask(graph)
        assert caught.value.code == "INTERNAL"

    served(tmp_path, between("wrong", "REQUEST:in", "RESPONSE:out"), scenario, wrong)


@pytest.mark.parametrize(
    "text",
    [
        between("swap", "REQUEST:in", "out"),
        between("swap", "in", "RESPONSE:out"),
        WHOLE + 'input_stream: "more"',
        WHOLE + between("swap", "REQUEST1:other", "RESPONSE1:rest"),
    ],
)
def test_the_tags_may_be_used_together_and_alone(tmp_path: Path, text: str) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        raise AssertionError("loaded")

    with pytest.raises(GraphConfigError, match="with the tag REQUEST carries whole requests"):
        served(tmp_path, text, scenario, swap)


def test_a_type_wins_over_the_tag(tmp_path: Path) -> None:
    def shout(text: str) -> str:
        return text.upper()

    async def scenario(graph: LoadedGraph) -> None:
        (output,) = (await ask(graph, tensor("in", [b"hey"]))).outputs
        assert isinstance(output, Tensor)
        assert output.data.tolist() == [b"HEY"]

    served(tmp_path, between("shout", "REQUEST:in", "RESPONSE:out"), scenario, shout)
