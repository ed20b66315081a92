"""A handler in a process of its own: whatever it does, the server continues."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python import messages, resources
from calculators.tensors.python.resources import ProcessInstance
from graph_runtime import Code, GraphError, ResourceError, RunError
from tests.calculators.tensors.python.running import GENERATIVE, PLAIN, Loaded, Run, loaded
from tests.support.conditions import signal_process, soon, until
from tests.support.processes import is_running

#: A handler that follows orders.
OBEDIENT = """
import ctypes, logging, os, sys
from pathlib import Path
from pyovms import Tensor

class OvmsPythonModel:
    calls = 0

    def execute(self, inputs):
        self.calls += 1
        order, _, argument = bytes(inputs[0]).decode().partition(" ")
        return [Tensor("uppercase", str(getattr(self, order)(argument)).encode())]

    def pid(self, _): return os.getpid()
    def count(self, _): return self.calls
    def exit(self, status): os._exit(int(status))
    def leave(self, status): sys.exit(int(status))
    def crash(self, _): ctypes.string_at(0)
    def say(self, text): print(text); print(text, file=sys.stderr)
    def log(self, text): logging.getLogger("author").warning(text)
    def wait(self, path): return Path(path).read_text()
    def hang(self, path):
        Path(path).write_text("")
        while True:
            pass
"""

#: Yields how often it has been called, which a file records too; the file also records the close.
COUNTING = """
from pathlib import Path
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        path = Path(bytes(inputs[0]).decode())
        number = 0
        try:
            while True:
                number += 1
                path.write_text(str(number))
                yield [Tensor("uppercase", str(number).encode())]
        finally:
            path.write_text("closed")
"""


async def told(graph: Loaded, order: str) -> str:
    """Return the handler's answer to an order."""
    ((_, text),) = await soon((await graph.run(order)).texts())
    return text


async def refused(run: Run) -> RequestError:
    error = await soon(run.failure())
    assert isinstance(error, RequestError), error
    return error


def is_back(graph: Loaded, process: ProcessInstance, old: int | None) -> bool:
    return not process.unavailable_reason and process.pid != old


def reads(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def test_a_process_is_the_default(tmp_path: Path) -> None:
    async def scenario() -> None:
        text = PLAIN.replace("model.py", "other.py")
        (tmp_path / "other.py").write_text(OBEDIENT)
        async with loaded(tmp_path, graph=text) as graph:
            assert await told(graph, "pid") == str(graph.process().pid)

    asyncio.run(scenario())


# Ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("exit 0", "it exited with status 0"),
        ("exit 3", "it exited with status 3"),
        ("crash", "it was ended by SIGSEGV"),
    ],
)
def test_a_handler_that_ends_its_process_fails_its_request_only(
    tmp_path: Path, order: str, reason: str
) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            process = graph.process()
            assert await told(graph, "count") == "1"
            old = process.pid
            error = await refused(await graph.run(order))
            assert error.code is Code.UNAVAILABLE
            assert str(error) == f'the handler of node "node" ended before it answered: {reason}'
            assert error.retry_after
            why = graph.node().unavailable_reason
            assert why == f'the handler of node "node" is starting ({reason})'
            early = await refused(await graph.run("count"))
            assert (early.code, str(early)) == (Code.UNAVAILABLE, why)
            await until(lambda: is_back(graph, process, old))
            assert await told(graph, "count") == "1"

    asyncio.run(scenario())


def test_a_process_restarts_at_once_however_often_calls_crash_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            process = graph.process()
            for _ in range(5):
                old = process.pid
                await refused(await graph.run("crash"))
                await until(lambda old=old: is_back(graph, process, old))  # type: ignore[misc]
            assert await told(graph, "count") == "1"

    asyncio.run(scenario())
    deaths = [each.getMessage() for each in caplog.records if "is gone" in each.getMessage()]
    assert len(deaths) == 5
    assert all("starting it again in 0.0 s" in death for death in deaths)


def test_a_value_that_cannot_be_packed_fails_its_own_call(tmp_path: Path) -> None:
    handler = (
        OBEDIENT
        + """
    def fill(self, _):
        class Odd(str):
            def __str__(self): raise MemoryError("too much")
        return Odd()
"""
    )

    async def scenario() -> None:
        async with loaded(tmp_path, handler, PLAIN, "PROCESS") as graph:
            old = graph.process().pid
            error = await refused(await graph.run("fill"))
            assert "MemoryError" in str(error)
            assert await told(graph, "pid") == str(old)

    asyncio.run(scenario())


def test_requests_in_flight_fail_at_once_when_it_is_killed(tmp_path: Path) -> None:
    async def scenario() -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            process = graph.process()
            old = process.pid
            at_it, waiting = await graph.run(f"hang {pipe}"), await graph.run("count")
            await soon(asyncio.to_thread(pipe.read_bytes))
            signal_process(old, signal.SIGKILL)
            errors = [await refused(at_it), await refused(waiting)]
            assert [error.code for error in errors] == [Code.UNAVAILABLE] * 2
            assert "it was ended by SIGKILL" in str(errors[0])
            assert "it was ended by SIGKILL" in str(errors[1])
            await until(lambda: is_back(graph, process, old))
            assert await told(graph, "count") == "1"

    asyncio.run(scenario())


def test_sys_exit_fails_the_call_and_not_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            error = await refused(await graph.run("leave 3"))
            assert str(error) == 'the handler of node "node" failed: SystemExit: 3'
            assert await told(graph, "count") == "2"

    asyncio.run(scenario())


def test_the_generators_of_a_process_end_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, COUNTING, GENERATIVE, "PROCESS") as graph:
            process = graph.process()
            old = process.pid
            run = await graph.run(str(tmp_path / "count"))
            await until(lambda: len(run.packets) > 2)
            signal_process(old, signal.SIGKILL)
            error = await refused(run)
            assert error.code is Code.UNAVAILABLE
            await until(lambda: is_back(graph, process, old))
            again = await graph.run(str(tmp_path / "again"))
            await until(lambda: len(again.packets) > 2)
            again.graph.cancel()
            with pytest.raises(RunError):
                await again.graph.wait_until_done_async()
            await until(lambda: reads(tmp_path / "again", "closed"))

    asyncio.run(scenario())


# Hangs --------------------------------------------------------------------------------------------


async def cancelled(run: Run) -> None:
    run.graph.cancel()
    with pytest.raises(RunError):
        await soon(run.graph.wait_until_done_async())


def test_a_hanging_handler_is_ended_once_no_client_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        options = "cancel_grace_seconds: 0.01"
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS", options) as graph:
            process = graph.process()
            old = process.pid
            run = await graph.run(f"hang {pipe}")
            await soon(asyncio.to_thread(pipe.read_bytes))
            assert not graph.node().unavailable_reason
            await cancelled(run)
            await until(lambda: is_back(graph, process, old))
            assert await told(graph, "count") == "1"

    asyncio.run(scenario())


def test_a_handler_that_returns_in_time_keeps_its_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            pid = graph.process().pid
            run = await graph.run(f"wait {pipe}")
            file = await soon(asyncio.to_thread(open, pipe, "w"))
            await cancelled(run)
            after = await graph.run("count")
            file.close()
            assert await soon(after.texts()) == [(0, "2")]
            assert graph.process().pid == pid

    asyncio.run(scenario())


def test_a_generator_that_hangs_in_its_close_is_ended(tmp_path: Path) -> None:
    handler = COUNTING.replace('path.write_text("closed")', "while True: pass")

    async def scenario() -> None:
        options = "cancel_grace_seconds: 0.01"
        async with loaded(tmp_path, handler, GENERATIVE, "PROCESS", options) as graph:
            process = graph.process()
            old = process.pid
            run = await graph.run(str(tmp_path / "count"))
            await until(lambda: bool(run.packets))
            await cancelled(run)
            await until(lambda: is_back(graph, process, old))

    asyncio.run(scenario())


def test_finalize_may_not_take_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resources, "FINALIZE_SECONDS", 0.05)
    handler = OBEDIENT + "\n    def finalize(self):\n        while True: pass\n"

    async def scenario() -> int | None:
        async with loaded(tmp_path, handler, PLAIN, "PROCESS") as graph:
            return graph.process().pid

    pid = asyncio.run(scenario())
    assert pid is not None
    assert not is_running(pid)
    assert 'node "node": finalize takes too long; its process was ended' in caplog.text


# Loading and unloading ----------------------------------------------------------------------------


def test_finalize_is_called_before_the_process_ends(tmp_path: Path) -> None:
    file = tmp_path / "finalized"
    handler = OBEDIENT + f"\n    def finalize(self): Path({str(file)!r}).write_text('well')\n"

    async def scenario() -> int | None:
        async with loaded(tmp_path, handler, PLAIN, "PROCESS") as graph:
            return graph.process().pid

    pid = asyncio.run(scenario())
    assert file.read_text() == "well"
    assert pid is not None
    assert not is_running(pid)


def test_a_process_that_ends_while_it_loads_fails_the_graph(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, "import os; os._exit(7)", PLAIN, "PROCESS"):
            pass

    with pytest.raises(ResourceError) as caught:
        asyncio.run(scenario())
    assert str(caught.value) == ('node "node": handler_path "model.py": it exited with status 7')


def test_a_handler_that_cannot_be_loaded_again_is_retried(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            process = graph.process()
            old = process.pid
            (tmp_path / "model.py").write_text("raise OSError('no weights')")
            signal_process(old, signal.SIGKILL)
            await until(lambda: "no weights" in graph.node().unavailable_reason)
            (tmp_path / "model.py").write_text(OBEDIENT)
            await until(lambda: is_back(graph, process, old))
            assert await told(graph, "count") == "1"

    asyncio.run(scenario())


# Output -------------------------------------------------------------------------------------------


def test_printed_text_goes_to_standard_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            assert await told(graph, "say hello") == "None"

    asyncio.run(scenario())
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("hello\n") == 2


def test_log_records_of_a_handler_are_in_the_servers_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            await told(graph, "log half of 100 %d")

    asyncio.run(scenario())
    assert ("author", logging.WARNING, "half of 100 %d") in caplog.record_tuples


# Generators ---------------------------------------------------------------------------------------


def test_cancelling_closes_the_generator(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, COUNTING, GENERATIVE, "PROCESS") as graph:
            pid = graph.process().pid
            run = await graph.run(str(tmp_path / "count"))
            await until(lambda: bool(run.packets))
            await cancelled(run)
            await until(lambda: reads(tmp_path / "count", "closed"))
            assert graph.process().pid == pid

    asyncio.run(scenario())


# Values that cannot be sent -----------------------------------------------------------------------


async def failure_of(graph: Loaded, value: object) -> GraphError:
    return await soon((await graph.run(value)).failure())


def test_objects_of_other_kinds_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            error = await failure_of(graph, {"any": "object"})
            assert isinstance(error, RequestError)
            assert error.code is Code.INVALID_ARGUMENT
            assert str(error) == (
                'the handler of node "node" runs in a process of its own, which takes tensors and '
                "HTTP requests, not dict; with isolation: THREAD in the node's options it takes "
                "anything"
            )
            assert await told(graph, "count") == "1"

    asyncio.run(scenario())


def test_inputs_that_are_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MAX_FRAME", 1000)

    async def scenario() -> None:
        async with loaded(tmp_path, OBEDIENT, PLAIN, "PROCESS") as graph:
            error = await failure_of(graph, b"x" * 1000)
            assert error.code is Code.INVALID_ARGUMENT
            assert "bytes at a time (at most 1000)" in str(error)
            assert await told(graph, "count") == "1"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("np.array([object()])", 'the tensor "uppercase" of object'),
        ("np.zeros(2, [('a', 'i4')])", 'the tensor "uppercase" of [('),
        ("np.zeros(2**28, np.uint8)", "bytes at a time (at most 268435456)"),
        ("b'', [2**70]", "a name that is not Unicode, or a size beyond 64 bits"),
        ("b'', None, '\\ud800'", "a name that is not Unicode, or a size beyond 64 bits"),
    ],
)
def test_outputs_that_cannot_be_sent_are_refused(tmp_path: Path, made: str, told: str) -> None:
    handler = (
        "import numpy as np\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n"
        f"  def execute(self, inputs): return [Tensor('uppercase', {made})]"
    )

    async def scenario() -> None:
        async with loaded(tmp_path, handler, PLAIN, "PROCESS") as graph:
            pid = graph.process().pid
            error = await failure_of(graph, b"")
            assert error.code is Code.INTERNAL
            assert str(error).startswith('the handler of node "node" failed: it gave ')
            assert str(error).endswith("which cannot leave its process")
            assert told in str(error)
            assert graph.process().pid == pid

    asyncio.run(scenario())


def test_a_generator_whose_output_cannot_be_sent_is_closed(tmp_path: Path) -> None:
    handler = COUNTING.replace("str(number).encode()", "__import__('numpy').array([object()])")

    async def scenario() -> None:
        async with loaded(tmp_path, handler, GENERATIVE, "PROCESS") as graph:
            error = await failure_of(graph, str(tmp_path / "count"))
            assert "which cannot leave its process" in str(error)
            assert (tmp_path / "count").read_text() == "closed"

    asyncio.run(scenario())


def test_texts_that_are_not_unicode_are_refused(tmp_path: Path) -> None:
    handler = OBEDIENT + "\n    def fail(self, _): raise ValueError('half: \\ud800')\n"

    async def scenario() -> None:
        async with loaded(tmp_path, handler, PLAIN, "PROCESS") as graph:
            error = await refused(await graph.run("fail"))
            assert str(error) == 'the handler of node "node" failed: ValueError: half: ?'
            assert await told(graph, "count") == "2"

    asyncio.run(scenario())
