"""Handlers that answer HTTP requests themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from calculators.kit.requests.http_payload import HttpPayload, NoClient, RequestError
from graph_runtime import GraphError
from tests.calculators.tensors.python.running import LOOP, OPTIONS, Run, loaded

GRAPH = (
    """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "node"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
"""
    + LOOP
    + OPTIONS % "model.py"
    + "}"
)

HANDLER = """
class OvmsPythonModel:
    def execute(self, inputs):
        (request,) = inputs
        self.request = request
        {}
"""


def payload(client: NoClient | None = None) -> HttpPayload:
    return HttpPayload("/v3/x", {"a": "b"}, b'{"n": 3}', {"n": 3}, client or NoClient())


async def run_of(
    folder: Path, isolation: str, statement: str
) -> tuple[list[object], GraphError | None]:
    async with loaded(folder, HANDLER.format(statement), GRAPH, isolation) as graph:
        run = await graph.run()
        run.add(payload(), 0, "input")
        try:
            return [value for _, _, value in await run.end()], None
        except GraphError as error:
            return [], error


def test_a_handler_in_a_thread_gets_the_request_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, HANDLER.format("return 1"), GRAPH) as graph:
            run = await graph.run()
            request = payload()
            run.add(request, 0, "input")
            await run.end()
            assert graph.model().request is request

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ('return {"n": request.parsed_json["n"] + 1, "é": None}', ['{"n": 4, "é": null}']),
        ("return [1, 2]", ["[1, 2]"]),
        (
            "return [request.uri, request.headers['a'], request.body.decode()]",
            ['["/v3/x", "b", "{\\"n\\": 3}"]'],
        ),
        ("return []", ["[]"]),
        ('return "as it is"', ["as it is"]),
        ('return b"as it is"', [b"as it is"]),
        ('yield {"n": 1}; yield "data: [DONE]\\n\\n"', ['data: {"n": 1}\n\n', "data: [DONE]\n\n"]),
        ("yield 1; yield [2]", ["data: 1\n\n", "data: [2]\n\n"]),
    ],
)
def test_the_handlers_result_is_the_answer(
    tmp_path: Path, isolation: str, statement: str, answer: list[object]
) -> None:
    packets, error = asyncio.run(run_of(tmp_path, isolation, statement))
    assert error is None
    assert packets == answer


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("return None", "it gave NoneType; "),
        ("return {1, 2}", "it gave set, which cannot become JSON"),
        ('return {"x": float("nan")}', "it gave dict, which cannot become JSON"),
    ],
)
def test_invalid_answers_are_refused(
    tmp_path: Path, isolation: str, statement: str, told: str
) -> None:
    packets, error = asyncio.run(run_of(tmp_path, isolation, statement))
    assert packets == []
    assert told in str(error)


class SlowClient(NoClient):
    """A client that reads nothing until ``reads`` is set; reports when it is waited for."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.is_waited_for = asyncio.Event()

    @property
    def is_writable(self) -> bool:  # type: ignore[override]
        return self.reads.is_set()

    async def writable(self) -> None:
        self.is_waited_for.set()
        await self.reads.wait()


def test_a_slow_client_holds_the_generator_back(tmp_path: Path, isolation: str) -> None:
    made = tmp_path / "made"
    statement = (
        "import pathlib\n        for number in '12':\n"
        f"            pathlib.Path({str(made)!r}).write_text(number); yield number"
    )

    async def scenario() -> None:
        async with loaded(tmp_path, HANDLER.format(statement), GRAPH, isolation) as graph:
            client = SlowClient()
            run = await graph.run()
            run.add(payload(client), 0, "input")
            await client.is_waited_for.wait()
            assert [value for _, _, value in run.packets] == ["1"]
            assert made.read_text() == "1"
            client.reads.set()
            assert [value for _, _, value in await run.end()] == ["1", "2"]

    asyncio.run(scenario())


def test_a_node_for_tensors_refuses_a_request(tmp_path: Path) -> None:
    handler = "class OvmsPythonModel:\n  def execute(self, inputs): return []"

    async def scenario() -> None:
        async with loaded(tmp_path, handler) as graph:
            run: Run = await graph.run(payload())
            error = await run.failure()
            assert isinstance(error, RequestError)
            assert 'the stream "text" takes tensors, not HTTP requests' in str(error)

    asyncio.run(scenario())
