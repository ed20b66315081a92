"""One request, one answer: names, outputs, versions, limits, failures, cancelling."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calculators.kit.requests.http_payload import NoClient, RequestError
from calculators.tensors.inference import InferRequest, Tensor
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorError,
    Code,
    In,
    NotFoundError,
    Out,
    RunError,
)
from servers.serving.loaded_graph import LoadedGraph
from tests.servers.serving.graph_inference.graphs import (
    ask,
    ask_one,
    asking,
    loaded,
    one_node,
    passing,
    served,
    tensor,
)

BOTH = one_node("add_and_subtract", "left right", "sum difference")
ONE = tensor("in", [1])


def add_and_subtract(left: Any, right: Any) -> tuple[Any, Any]:
    return left + right, left - right


class Repeat(Calculator):
    """Sends the numbers up to the received one, each at a later timestamp."""

    number = In[int]()
    numbers = Out[int]()
    timestamp_offset = None

    def process(self, cc: CalculatorContext) -> None:
        for each in range(cc.get(self.number)):
            cc.emit(self.numbers, each, at=cc.time + each)


class Hold(Calculator):
    """Continues when the test allows it; reports when it begins and how often it was closed."""

    packet = In[Any]()
    passed = Out[Any]()
    began: asyncio.Event
    go_on: asyncio.Event
    closed: int

    @classmethod
    def prepare(cls) -> None:
        cls.began, cls.go_on, cls.closed = asyncio.Event(), asyncio.Event(), 0

    async def process(self, cc: CalculatorContext) -> None:
        self.began.set()
        await self.go_on.wait()
        cc.emit(self.passed, cc.get(self.packet))

    def close(self, cc: CalculatorContext) -> None:
        type(self).closed += 1


def tensors(*names: str) -> list[Tensor]:
    return [tensor(name, [place + 3]) for place, name in enumerate(names)]


def found(response: Any) -> dict[str, Any]:
    return {each.name: each.data.tolist() for each in response.outputs}


def test_inputs_are_matched_by_name_and_answers_have_the_requests_id(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        response = await ask(graph, *tensors("right", "left"), id="42")
        assert found(response) == {"sum": [7], "difference": [1]}
        assert (response.model, response.version, response.id) == ("graph", "1", "42")
        assert response.parameters == {}

    served(tmp_path, BOTH, scenario, add_and_subtract)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("left",), 'needs the input "right", which the request does not have'),
        ((), 'needs the inputs "left", "right", which'),
        (("left", "rihgt"), 'has no input "rihgt"; it has "left", "right". Did you mean "right"?'),
        (("left", "right", "more"), 'The model "graph" has no input "more"'),
        (("left", "r" * 100_000), 'has no input "' + "r" * 64 + '..."'),
    ],
)
def test_missing_and_unexpected_inputs_are_refused(
    tmp_path: Path, names: tuple[str, ...], said: str
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError) as caught:
            await ask(graph, *tensors(*names))
        assert said.lower() in str(caught.value).lower()
        assert caught.value.code is Code.INVALID_ARGUMENT
        assert len(str(caught.value)) < 400

    served(tmp_path, BOTH, scenario, add_and_subtract)


def test_two_inputs_of_one_name_are_refused() -> None:
    with pytest.raises(RequestError, match="have the same name"):
        InferRequest("graph", inputs=tuple(tensors("left", "left")))


def test_only_the_requested_outputs_are_returned(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        inputs = tensors("left", "right")
        assert found(await ask(graph, *inputs, outputs=["sum"])) == {"sum": [7]}
        swapped = await ask(graph, *inputs, outputs=["difference", "sum"])
        assert [each.name for each in swapped.outputs] == ["difference", "sum"]
        with pytest.raises(RequestError, match=r'has no output "sun".* Did you mean "sum"\?'):
            await ask(graph, *inputs, outputs=["sum", "sun"])

    served(tmp_path, BOTH, scenario, add_and_subtract)


def test_inputs_and_outputs_have_the_order_of_the_graph(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert [each.name for each in graph.metadata().inputs] == ["right", "left"]
        assert [each.name for each in graph.metadata().outputs] == ["sum", "difference"]
        response = await ask(graph, *tensors("left", "right"))
        assert [each.name for each in response.outputs] == ["sum", "difference"]

    node = BOTH[BOTH.index("node") :]
    text = (
        'input_stream: "Z:right" input_stream: "A:left" '
        f'output_stream: "Z:sum" output_stream: "A:difference" {node}'
    )
    served(tmp_path, text, scenario, add_and_subtract)


@pytest.mark.parametrize("version", ["", "0", "1"])
def test_a_graph_has_one_version(tmp_path: Path, version: str) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert (await ask(graph, ONE, version=version)).version == "1"
        assert graph.is_ready(version)
        assert graph.metadata(version).versions == ("1",)

    served(tmp_path, passing(), scenario)


@pytest.mark.parametrize("version", ["2", "01", "-1", "x" * 10_000])
def test_other_versions_are_not_found(tmp_path: Path, version: str) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(NotFoundError, match='The model "graph" has no version ') as caught:
            graph.check_version(version)
        assert len(str(caught.value)) < 200
        with pytest.raises(NotFoundError):
            graph.is_ready(version)
        with pytest.raises(NotFoundError):
            graph.metadata(version)

    served(tmp_path, passing(), scenario)


def test_an_output_without_a_packet_is_named(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError, match=r'^output "out": the graph gave nothing') as caught:
            await ask(graph, tensor("in", [0]))
        assert caught.value.code is Code.INTERNAL

    served(tmp_path, one_node("Repeat"), scenario, Repeat)


def test_the_first_of_several_packets_is_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with caplog.at_level(logging.WARNING):
            assert (await ask_one(graph, tensor("in", [3]))).data.tolist() == [0]
        assert "gave 3 packets on 'out'" in caplog.text

    served(tmp_path, one_node("Repeat"), scenario, Repeat)


def test_the_timestamp_can_be_given(tmp_path: Path) -> None:
    class Clock(Calculator):
        packet = In[Any]()
        now = Out[int]()

        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.now, cc.time)

    async def scenario(graph: LoadedGraph) -> None:
        async def now(**parameters: Any) -> Any:
            return found(await ask(graph, ONE, **parameters))["out"]

        assert await now() == [0]
        assert await now(OVMS_MP_TIMESTAMP=77) == [77]
        assert await now(OVMS_MP_TIMESTAMP=-5) == [-5]
        for bad in ("7", 7.0, True, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)):
            with pytest.raises(RequestError, match=r"OVMS_MP_TIMESTAMP.* Should be int64"):
                await now(OVMS_MP_TIMESTAMP=bad)

    served(tmp_path, one_node("Clock"), scenario, Clock)


def test_the_error_of_a_calculator_is_the_cause(tmp_path: Path) -> None:
    def fail(packet: Any) -> Any:
        raise RequestError("no luck with this tensor")

    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RunError) as caught:
            await ask(graph, ONE)
        (error,) = caught.value.errors
        assert isinstance(error, CalculatorError)
        assert repr(error.__cause__) == "RequestError('no luck with this tensor')"
        assert graph.users.requests == 0

    served(tmp_path, one_node("fail"), scenario, fail)


def test_concurrent_requests_do_not_mix(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        answers = await asyncio.gather(
            *(ask(graph, tensor("in", [each]), id=str(each)) for each in range(100))
        )
        assert [(each.id, found(each)["out"]) for each in answers] == [
            (str(each), [each]) for each in range(100)
        ]

    served(tmp_path, passing(), scenario)


def test_requests_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        Hold.prepare()
        first = asyncio.create_task(ask(graph, ONE))
        await Hold.began.wait()
        for call in (ask(graph, ONE), graph.open_stream(asking(), NoClient(), print).__aenter__()):
            with pytest.raises(RequestError, match="1 requests in flight") as caught:
                await call
            assert (caught.value.code, caught.value.retry_after) == (Code.RESOURCE_EXHAUSTED, 1)
        Hold.go_on.set()
        await first
        await ask(graph, ONE)

    served(tmp_path, one_node("Hold"), scenario, Hold, request_limit=1)


def test_an_open_stream_counts_until_it_is_left(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with graph.open_stream(asking(), NoClient(), print):
            assert graph.users.requests == 1
            with pytest.raises(RequestError, match="in flight"):
                await ask(graph, ONE)
        assert graph.users.requests == 0
        await ask(graph, ONE)

    served(tmp_path, passing(), scenario, request_limit=1)


def test_cancelling_the_request_closes_the_graph(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        Hold.prepare()
        request = asyncio.create_task(ask(graph, ONE))
        await Hold.began.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert (Hold.closed, graph.users.requests) == (1, 0)

    served(tmp_path, one_node("Hold"), scenario, Hold)


def test_closing_waits_for_requests_in_flight(tmp_path: Path) -> None:
    async def scenario() -> None:
        Hold.prepare()
        async with loaded(tmp_path, one_node("Hold"), Hold) as graph:
            request = asyncio.create_task(ask(graph, ONE))
            await Hold.began.wait()
            closing = asyncio.create_task(graph.close())
            await asyncio.sleep(0)
            assert not closing.done()
            Hold.go_on.set()
            await closing
            assert request.done()

    asyncio.run(scenario())


def test_nodes_may_run_in_threads(tmp_path: Path) -> None:
    def double(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return numbers * 2

    pool = 'executor: "pool"'
    text = (
        one_node("double", extra=pool)
        + 'executor { name: "pool" type: "ThreadPoolExecutor" options { '
        "[mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }"
    )

    async def scenario(graph: LoadedGraph) -> None:
        for each in range(20):
            assert found(await ask(graph, tensor("in", [each])))["out"] == [2 * each]

    served(tmp_path, text, scenario, double)
