"""Several instances of one handler."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from graph_runtime import GraphError, ResourceError
from tests.calculators.tensors.python.running import GENERATIVE, PLAIN, Loaded, loaded
from tests.support.conditions import signal_process, soon, until

#: A pipe opens when both sides open it, so both calls must be made at the same time.
MEETING = """
from pathlib import Path
from pyovms import Tensor

class OvmsPythonModel:
    def __init__(self):
        self.calls = 0

    def execute(self, inputs):
        self.calls += 1
        order, _, argument = bytes(inputs[0]).decode().partition(" ")
        if order == "write":
            Path(argument).write_text("met")
            answer = "wrote"
        elif order == "read":
            answer = Path(argument).read_text()
        else:
            answer = str(self.calls)
        return [Tensor("uppercase", answer.encode())]
"""
WORDS = """
import os, threading
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        for word in bytes(inputs[0]).decode().split():
            yield [Tensor("uppercase", f"{word} {os.getpid()} {threading.get_ident()}".encode())]
"""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


async def told(graph: Loaded, *orders: str) -> list[str]:
    """Return the handlers' answers to requests that are made at the same time."""
    runs = [await graph.run(order) for order in orders]
    return [text for run in runs for _, text in await soon(run.texts())]


def test_two_requests_are_answered_at_the_same_time(
    tmp_path: Path, pipe: Path, isolation: str
) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, MEETING, PLAIN, isolation, "instances: 2") as graph:
            assert await told(graph, f"write {pipe}", f"read {pipe}") == ["wrote", "met"]
            # Each instance has its own object.
            assert await told(graph, "count") == ["2"]

    asyncio.run(scenario())


def test_a_request_goes_to_an_idle_instance(tmp_path: Path, pipe: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, MEETING, PLAIN, isolation, "instances: 2") as graph:
            busy = await graph.run(f"read {pipe}")
            for count in range(1, 4):
                assert await told(graph, "count") == [str(count)]
            await asyncio.to_thread(pipe.write_text, "met")
            assert await soon(busy.texts()) == [(0, "met")]

    asyncio.run(scenario())


def test_generators_stay_on_their_instance(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, WORDS, GENERATIVE, isolation, "instances: 2") as graph:
            runs = [await graph.run("a b c d") for _ in range(4)]
            for run in runs:
                words = [text.split() for _, text in await soon(run.texts())]
                assert [word for word, *_ in words] == ["a", "b", "c", "d"]
                assert len({tuple(place) for _, *place in words}) == 1

    asyncio.run(scenario())


def test_an_instance_that_ends_does_not_disturb_the_others(tmp_path: Path, pipe: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, MEETING, PLAIN, "PROCESS", "instances: 2") as graph:
            first, second = graph.process(0), graph.process(1)
            old = first.pid
            signal_process(old, signal.SIGKILL)
            await until(lambda: bool(first.unavailable_reason))
            assert first.unavailable_reason.startswith("the handler ")
            assert ' of node "node" is starting' in first.unavailable_reason
            assert graph.node().unavailable_reason == second.unavailable_reason == ""
            assert await told(graph, "count") == ["1"]
            # The restarted instance receives work again.
            await until(lambda: not first.unavailable_reason)
            assert await told(graph, f"write {pipe}", f"read {pipe}") == ["wrote", "met"]

    asyncio.run(scenario())


def test_a_waiting_request_goes_to_the_first_free_instance(
    tmp_path: Path, pipe: Path, isolation: str
) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, MEETING, PLAIN, isolation, "instances: 2") as graph:
            other = tmp_path / "other"
            os.mkfifo(other)
            one, two = await graph.run(f"read {pipe}"), await graph.run(f"read {other}")
            three = await graph.run("count")
            await asyncio.to_thread(other.write_text, "free")
            assert await soon(three.texts()) == [(0, "2")]
            assert await soon(two.texts()) == [(0, "free")]
            await asyncio.to_thread(pipe.write_text, "free")
            assert await soon(one.texts()) == [(0, "free")]

    asyncio.run(scenario())


def test_an_instance_that_cannot_be_loaded_fails_the_graph(tmp_path: Path, isolation: str) -> None:
    text = """
import os
os.close(os.open({file!r}, os.O_CREAT | os.O_EXCL))
class OvmsPythonModel:
    def execute(self, inputs): ...
    def finalize(self): os.mkdir({done!r})
"""
    done = tmp_path / "done"
    handler = text.format(file=str(tmp_path / "once"), done=str(done))

    async def scenario() -> None:
        async with loaded(tmp_path, handler, PLAIN, isolation, "instances: 2"):
            pass

    with pytest.raises(ResourceError, match="line 3: FileExistsError"):
        asyncio.run(scenario())
    # The other instance answers.
    assert done.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("instances: 0", 'node "node": instances: 0 is not from 1 to 256'),
        ("instances: 257", 'node "node": instances: 257 is not from 1 to 256'),
        ("cancel_grace_seconds: -1", 'node "node": cancel_grace_seconds: -1.0 is not 0 or more'),
        ("cancel_grace_seconds: nan", 'node "node": cancel_grace_seconds: nan is not 0 or more'),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, options: str, told: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, MEETING, options=options):
            pass

    with pytest.raises(GraphError) as caught:
        asyncio.run(scenario())
    assert str(caught.value) == told
