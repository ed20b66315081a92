"""Streams: runs, partial inputs, ids, errors of one request, the end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calculators.kit.requests.http_payload import NoClient, RequestError
from graph_runtime import Calculator, CalculatorContext, Code, In, Out, RunError
from servers.serving.graph_inference import runs
from servers.serving.loaded_graph import LoadedGraph
from tests.servers.serving.graph_inference.graphs import (
    Session,
    asking,
    one_node,
    passing,
    served,
    session,
    tensor,
    times,
    values,
)

MAX = 2**63 - 4
TWO_PASSED = passing("left", "left_out") + passing("right", "right_out")


def one(value: int = 1, name: str = "in") -> Any:
    return tensor(name, [value])


class Later(Calculator):
    """Sends each number again at a later timestamp."""

    number = In[int]()
    same = Out[int]()
    timestamp_offset = None

    def process(self, cc: CalculatorContext) -> None:
        for each in range(cc.get(self.number) + 1):
            cc.emit(self.same, each, at=cc.time + each)


class Sum(Calculator):
    """Sends the sum of all numbers when the stream ends."""

    number = In[int]()
    sum = Out[int]()

    def open(self, cc: CalculatorContext) -> None:
        self.total = 0

    def process(self, cc: CalculatorContext) -> None:
        self.total += cc.get(self.number)

    def close(self, cc: CalculatorContext) -> None:
        cc.emit(self.sum, self.total, at=1000)


def test_timestamps_count_from_0(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            for each in range(3):
                await stream.send(one(each))
            answers = await stream.finish()
        assert times(answers) == [0, 1, 2]
        assert values(answers) == [("out", [0]), ("out", [1]), ("out", [2])]
        assert {(each.model, each.version) for each in answers} == {("graph", "1")}

    served(tmp_path, passing(), scenario)


def test_counting_continues_after_a_given_timestamp(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(one(), OVMS_MP_TIMESTAMP=-100)
            await stream.send(one())
            await stream.send(one(), OVMS_MP_TIMESTAMP=70)
            await stream.send(one())
            await stream.send(one(), OVMS_MP_TIMESTAMP=MAX)
            with pytest.raises(RequestError, match=f"the stream ends at the timestamp {MAX}"):
                await stream.send(one())
            assert times(await stream.finish()) == [-100, 0, 70, 71, MAX]

    served(tmp_path, passing(), scenario)


@pytest.mark.parametrize("bad", ["7", 7.5, True, MAX + 1, 2**63, -(2**63)])
def test_an_invalid_timestamp_fails_its_request_only(tmp_path: Path, bad: Any) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(one())
            with pytest.raises(RequestError, match=r"OVMS_MP_TIMESTAMP.* Should be int64"):
                await stream.send(one(), OVMS_MP_TIMESTAMP=bad)
            await stream.send(one())
            assert times(await stream.finish()) == [0, 1]

    served(tmp_path, passing(), scenario)


@pytest.mark.parametrize("late", [5, 4, -1])
def test_a_timestamp_that_repeats_or_goes_back_fails_its_request_only(
    tmp_path: Path, late: int
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(one(), OVMS_MP_TIMESTAMP=5)
            said = f'the timestamp {late} is not after 5, the last one of the input "in"'
            with pytest.raises(RequestError, match=said):
                await stream.send(one(), OVMS_MP_TIMESTAMP=late)
            await stream.send(one())
            assert times(await stream.finish()) == [5, 6]

    served(tmp_path, passing(), scenario)


def test_a_request_may_have_some_of_the_inputs(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(one(1, "left"))
            await stream.send(one(2, "right"), one(3, "left"))
            await stream.send()
            await stream.send(one(4, "right"))
            answers = await stream.finish()
        found = list(zip(times(answers), values(answers), strict=True))
        assert sorted(found) == [
            (0, ("left_out", [1])),
            (1, ("left_out", [3])),
            (1, ("right_out", [2])),
            (3, ("right_out", [4])),
        ]

    served(tmp_path, TWO_PASSED, scenario)


def test_inputs_of_one_timestamp_can_be_sent_one_after_the_other(tmp_path: Path) -> None:
    def add(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        return left + right

    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(one(1, "left"), OVMS_MP_TIMESTAMP=9, id="l9")
            await stream.send(one(2, "left"), id="l10")
            await stream.send(one(10, "right"), OVMS_MP_TIMESTAMP=9, id="r9")
            await stream.send(one(20, "right"), OVMS_MP_TIMESTAMP=10, id="r10")
            answers = await stream.finish()
        assert values(answers) == [("sum", [11]), ("sum", [22])]
        assert [(each.id, time) for each, time in zip(answers, times(answers), strict=True)] == [
            ("r9", 9),
            ("r10", 10),
        ]

    served(tmp_path, one_node("add", "left right", "sum"), scenario, add)


def test_answers_have_the_id_of_their_request_or_of_the_last_one_before(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(one(2), id="a", OVMS_MP_TIMESTAMP=10)
            await stream.send(one(0), id="", OVMS_MP_TIMESTAMP=20)
            await stream.send(one(1), id="c", OVMS_MP_TIMESTAMP=30)
            answers = await stream.finish()
        assert list(zip(times(answers), (each.id for each in answers), strict=True)) == [
            (10, "a"),
            (11, "a"),
            (12, "a"),
            (20, ""),
            (30, "c"),
            (31, "c"),
        ]

    served(tmp_path, one_node("Later"), scenario, Later)


def test_the_number_of_remembered_requests_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "REMEMBERED", 2)
    held = asyncio.Event()

    async def hold(number: int) -> int:
        await held.wait()
        return number

    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            for each in range(6):
                await stream.send(one(each), id=str(each))
            held.set()
            answers = await stream.finish()
        # The first ones are forgotten; no answer has the id of another.
        ids = [each.id for each in answers]
        assert ids[-2:] == ["4", "5"]
        assert all(found in ("", str(each)) for each, found in enumerate(ids))
        assert ids[0] == ""

    served(tmp_path, one_node("hold"), scenario, hold)


def test_each_request_chooses_its_outputs(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        both = one(1, "left"), one(2, "right")
        async with session(graph) as stream:
            await stream.send(*both)
            await stream.send(*both, outputs=["right_out"])
            with pytest.raises(RequestError, match='has no output "rigth_out"'):
                await stream.send(*both, outputs=["rigth_out"])
            await stream.send(*both, outputs=["left_out"])
            answers = await stream.finish()
        names = [name for name, _ in values(answers)]
        assert sorted(zip(times(answers), names, strict=True)) == [
            (0, "left_out"),
            (0, "right_out"),
            (1, "right_out"),
            (2, "left_out"),
        ]

    served(tmp_path, TWO_PASSED, scenario)


def test_a_bad_request_fails_alone(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(one(1))
            for wrong, said in (
                (asking(one(), model="other"), "Subsequent request with incorrect servable name"),
                (asking(one(), version="2"), "Subsequent request with incorrect servable version"),
                (asking(one(1, "inn")), 'has no input "inn"; it has "in". Did you mean "in"'),
                (asking(tensor("in", [1.5])), "INT64, "),
                (asking(tensor("in", np.empty((0,), np.int64))), "of the shape \\[0\\] came"),
            ):
                with pytest.raises(RequestError, match=said):
                    await stream.stream.send(wrong)
            await stream.send(one(2), version="1")
            answers = await stream.finish()
        assert list(zip(times(answers), values(answers), strict=True)) == [
            (0, ("out", [1])),
            (1, ("out", [2])),
        ]

    def same(number: int) -> int:
        return number

    served(tmp_path, one_node("same"), scenario, same)


def test_a_request_that_fits_in_part_sends_nothing(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            with pytest.raises(RequestError, match='has no input "wrong"'):
                await stream.send(one(1, "left"), one(1, "wrong"))
            await stream.send(one(2, "left"))
            assert values(await stream.finish()) == [("left_out", [2])]

    served(tmp_path, TWO_PASSED, scenario)


def test_a_stream_may_end_at_once(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            assert values(await stream.finish()) == [("out", [0])]
        async with session(graph):
            pass
        async with session(graph) as stream:
            await stream.send(one(5))
            await stream.send(one(6))
            assert values(await stream.finish()) == [("out", [11])]
            assert times(stream.answers) == [1000]

    served(tmp_path, one_node("Sum"), scenario, Sum)


def test_a_failing_run_ends_wait_and_send(tmp_path: Path) -> None:
    def fail(packet: Any) -> Any:
        raise RequestError("no luck")

    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(one())
            with pytest.raises(RunError) as caught:
                await stream.stream.wait()
            assert repr(caught.value.errors[0].__cause__) == "RequestError('no luck')"
            with pytest.raises(RunError, match="no luck"):
                await stream.send(one())
            stream.stream.close_inputs()
            with pytest.raises(RunError, match="no luck"):
                await stream.stream.wait()
        assert graph.users.requests == 0

    served(tmp_path, one_node("fail"), scenario, fail)


def test_a_failing_run_is_seen_by_the_next_send(tmp_path: Path) -> None:
    async def fail(packet: Any) -> Any:
        raise ValueError("broken")

    async def send_on(stream: Session) -> None:
        for _ in range(1000):
            await stream.send(one())
            await asyncio.sleep(0)

    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            with pytest.raises(RunError, match="broken"):
                await send_on(stream)

    served(tmp_path, one_node("fail"), scenario, fail)


def test_an_output_that_is_not_a_tensor_fails_the_run(tmp_path: Path) -> None:
    def make(packet: Any) -> Any:
        return {"a": 1}

    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.send(one())
            with pytest.raises(RunError) as caught:
                await stream.stream.wait()
            (error,) = caught.value.errors
            assert str(error) == 'output "out": the graph gave a dict, which cannot become a tensor'
            assert (type(error), error.code) == (RequestError, Code.INTERNAL)

    served(tmp_path, one_node("make"), scenario, make)


def test_requests_after_the_end_are_refused(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            await stream.finish()
            with pytest.raises(RequestError, match="the graph has ended its run") as caught:
                await stream.send(one())
            assert caught.value.code is Code.FAILED_PRECONDITION
            stream.stream.close_inputs()
            await stream.stream.wait()

    served(tmp_path, passing(), scenario)


def test_closing_the_inputs_ends_sources_too(tmp_path: Path) -> None:
    class Tick(Calculator):
        tick = Out[int]()

        async def process(self, cc: CalculatorContext) -> None:
            await asyncio.sleep(0)
            now = cc.output_list[0].next_timestamp_bound
            cc.emit(self.tick, 1, at=max(now, 0))

    ticking = asyncio.Event()

    async def scenario(graph: LoadedGraph) -> None:
        async with graph.open_stream(asking(), NoClient(), lambda answer: ticking.set()) as stream:
            await ticking.wait()
            stream.close_inputs()
            await stream.wait()

    text = passing() + 'output_stream: "tick" node { calculator: "Tick" output_stream: "tick" }'
    served(tmp_path, text, scenario, Tick)


def test_nodes_in_threads_answer_on_the_loop_and_in_order(tmp_path: Path) -> None:
    def double(number: int) -> int:
        return 2 * number

    text = (
        one_node("double", extra='executor: "pool"')
        + 'executor { name: "pool" type: "ThreadPoolExecutor" options { '
        "[mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }"
    )

    async def scenario(graph: LoadedGraph) -> None:
        answers: list[Any] = []

        def emit(answer: Any) -> None:
            asyncio.get_running_loop()
            answers.append(answer)

        async with graph.open_stream(asking(), NoClient(), emit) as stream:
            for each in range(50):
                await stream.send(asking(one(each)))
            stream.close_inputs()
            await stream.wait()
        assert values(answers) == [("out", [2 * each]) for each in range(50)]

    served(tmp_path, text, scenario, double)
