"""``ModelStreamInfer``: many requests to one run, the errors that it survives, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import InferRequest, InferResponse
from graph_runtime import Code
from graph_runtime.errors import CalculatorError, RunError
from servers.contract.data_plane import InferFailure
from servers.fronts.kserve_grpc.settings import GrpcSettings
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane, FakeStream, echoed
from tests.servers.fronts.kserve_grpc.grpc_client import (
    Client,
    end_of,
    infer_request,
    serving,
)

pytestmark = pytest.mark.both_loops


def failed(cause: Exception) -> RunError:
    error = CalculatorError("node", "Process", str(cause))
    error.__cause__ = cause
    return RunError([error])


def plane(stream: Callable[[], FakeStream]) -> FakeDataPlane:
    """Serve one model, ``m``, that streams."""
    return FakeDataPlane({"m": stream})


async def exchange(call: Any, request: Any) -> Any:
    await call.write(request)
    return await call.read()


def test_answers_arrive_one_by_one_until_the_client_is_done(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        async with serving(data_plane) as client:
            call = client.stream()()
            for number in range(100):
                answer = await exchange(call, infer_request(id=str(number)))
                assert (answer.error_message, answer.infer_response.id) == ("", str(number))
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK
        (stream,) = data_plane.opened
        assert stream.inputs_closed.is_set()
        assert [request.id for request in stream.requests] == [str(n) for n in range(100)]

    run(scenario())


def test_remaining_answers_arrive_after_the_client_is_done(run: Run) -> None:
    class Late(FakeStream):
        async def take(self, request: InferRequest) -> None:
            pass

        async def wait(self) -> None:
            await self.inputs_closed.wait()
            for request in self.requests:
                self.emit(echoed(request))

    async def scenario() -> None:
        async with serving(plane(Late)) as client:
            call = client.stream()()
            for number in range(3):
                await call.write(infer_request("m", id=str(number)))
            await call.done_writing()
            assert [answer.infer_response.id async for answer in call] == ["0", "1", "2"]
            assert await call.code() is grpc.StatusCode.OK

    run(scenario())


def test_a_run_that_has_ended_ends_the_stream_of_a_client_that_still_sends(run: Run) -> None:
    class Short(FakeStream):
        async def wait(self) -> None:
            return

    async def scenario() -> None:
        async with serving(plane(Short)) as client:
            call = client.stream()()
            await call.write(infer_request("m"))
            async for _ in call:
                pass
            assert await call.code() is grpc.StatusCode.OK

    run(scenario())


def test_a_stream_that_ends_at_once_is_refused(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            call = client.stream()()
            await call.done_writing()
            status_of = await end_of(call)
            assert status_of == "INVALID_ARGUMENT: the stream ended before its first request"

    run(scenario())


def test_an_unknown_model_ends_the_stream(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            call = client.stream()()
            await call.write(infer_request("no"))
            assert await end_of(call) == 'NOT_FOUND: The model "no" does not exist'

    run(scenario())


BAD_TENSOR = {"name": "x", "datatype": "FP32", "shape": [-1]}


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (infer_request("other", id="b"), 'Subsequent request with incorrect servable name "other"'),
        (infer_request(model_version="2", id="b"), "Subsequent request with incorrect servable ve"),
        (
            infer_request(inputs=[BAD_TENSOR], id="b"),
            'inputs[0] "x": the shape [-1] has a negative',
        ),
    ],
)
def test_a_wrong_request_is_reported_and_the_stream_continues(
    run: Run, bad: Any, text: str
) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        async with serving(data_plane) as client:
            call = client.stream()()
            assert (await exchange(call, infer_request(model_version="1", id="a"))).infer_response
            answer = await exchange(call, bad)
            assert answer.error_message.startswith(text)
            assert answer.infer_response.id == "b"
            for version in ("", "0", "1"):
                request = infer_request(model_version=version, id="c")
                assert (await exchange(call, request)).infer_response.id == "c"
            assert (await exchange(call, infer_request("", id="d"))).infer_response.id == "d"
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK
        assert len(data_plane.opened[0].requests) == 5

    run(scenario())


def test_an_invalid_message_is_reported_and_the_stream_continues(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            call = client.stream()()
            for _ in range(2):
                answer = await exchange(call, b"\xff")
                assert answer.error_message == "the request is not a message of its type"
                assert (await exchange(call, infer_request(id="a"))).infer_response.id == "a"
            call.cancel()

    run(scenario())


def test_after_a_wrong_first_request_the_next_one_is_the_first(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            call = client.stream()()
            answer = await exchange(call, infer_request(inputs=[BAD_TENSOR], id="a"))
            assert answer.error_message.startswith('inputs[0] "x": ')
            assert answer.infer_response.id == "a"
            assert (await exchange(call, infer_request(id="b"))).infer_response.id == "b"
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK

    run(scenario())


def test_a_request_that_the_run_refuses_is_reported_and_the_stream_continues(run: Run) -> None:
    class Picky(FakeStream):
        async def take(self, request: InferRequest) -> None:
            if request.id == "refused":
                raise RequestError('there is no input "z"')
            if request.id == "failed":
                self.emit(InferFailure("failed", RequestError("too dark")))
            elif request.id == "broken":
                self.emit(InferFailure("broken", ValueError("/srv/secret")))
            else:
                self.emit(echoed(request))

    async def scenario() -> None:
        async with serving(plane(Picky)) as client:
            call = client.stream()()
            status_of = {}
            for name in ("refused", "failed", "broken", "good"):
                answer = await exchange(call, infer_request("m", id=name))
                assert answer.infer_response.id == name
                status_of[name] = answer.error_message
            assert status_of.pop("broken").startswith("internal error (request ")
            assert status_of == {
                "refused": 'there is no input "z"',
                "failed": "too dark",
                "good": "",
            }
            call.cancel()

    run(scenario())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (failed(RequestError("the frame is black")), "INVALID_ARGUMENT: the frame is black"),
        (failed(ValueError("/srv/secret")), 'INTERNAL: internal error in node "node" (request '),
        (RuntimeError("/srv/secret"), "INTERNAL: internal error (request "),
    ],
)
def test_a_run_that_fails_ends_the_stream_of_a_silent_client(
    run: Run, error: Exception, status: str
) -> None:
    class Failing(FakeStream):
        async def take(self, request: InferRequest) -> None:
            self.emit(echoed(request))
            self.close_inputs()

        async def wait(self) -> None:
            await self.inputs_closed.wait()
            raise error

    async def scenario() -> None:
        async with serving(plane(Failing)) as client:
            call = client.stream()()
            assert (await exchange(call, infer_request("m", id="a"))).infer_response.id == "a"
            assert (await end_of(call)).startswith(status)

    run(scenario())


def test_answers_before_a_failure_arrive_before_it(run: Run) -> None:
    class Failing(FakeStream):
        async def take(self, request: InferRequest) -> None:
            for number in range(50):
                self.emit(InferResponse("m", "1", str(number)))
            self.close_inputs()

        async def wait(self) -> None:
            await self.inputs_closed.wait()
            raise failed(RequestError("no more"))

    async def scenario() -> None:
        async with serving(plane(Failing)) as client:
            call = client.stream()()
            await call.write(infer_request("m"))
            ids = [(await call.read()).infer_response.id for _ in range(50)]
            assert ids == [str(number) for number in range(50)]
            assert await end_of(call) == "INVALID_ARGUMENT: no more"

    run(scenario())


def test_a_request_to_a_failed_run_ends_with_its_error(run: Run) -> None:
    class Failing(FakeStream):
        async def take(self, request: InferRequest) -> None:
            self.close_inputs()
            raise failed(RequestError("the frame is black"))

        async def wait(self) -> None:
            await self.inputs_closed.wait()
            raise failed(RequestError("the frame is black"))

    async def scenario() -> None:
        async with serving(plane(Failing)) as client:
            call = client.stream()()
            await call.write(infer_request("m"))
            assert await end_of(call) == "INVALID_ARGUMENT: the frame is black"

    run(scenario())


@pytest.mark.parametrize("place", ["send", "emit"])
def test_an_internal_error_ends_the_stream(run: Run, place: str) -> None:
    class Broken(FakeStream):
        async def take(self, request: InferRequest) -> None:
            if place == "send":
                raise ZeroDivisionError
            self.emit(InferResponse("m", parameters={"p": 2**64}))

    async def scenario() -> None:
        async with serving(plane(Broken)) as client:
            call = client.stream()()
            await call.write(infer_request("m"))
            assert (await end_of(call)).startswith("INTERNAL: internal error (request ")

    run(scenario())


class Endless(FakeStream):
    """A run that continues when no more requests arrive."""

    async def wait(self) -> None:
        await asyncio.Event().wait()


def test_a_client_that_leaves_cancels_the_run_and_its_calculators(run: Run) -> None:
    async def scenario() -> None:
        data_plane = plane(Endless)
        async with serving(data_plane) as client:
            call = client.stream()()
            await exchange(call, infer_request("m"))
            (stream,) = data_plane.opened
            assert stream.client is not None
            gone = asyncio.Event()
            stream.client.on_disconnect(gone.set)
            assert not stream.client.is_disconnected
            call.cancel()
            await gone.wait()
            await data_plane.ended.wait()
            assert stream.client.is_disconnected
            await stream.client.writable()
            assert data_plane.cancelled == 1
            assert await client.call("ModelInfer", model_name="echo")

    run(scenario())


def test_a_deadline_that_passes_cancels_the_run(run: Run) -> None:
    async def scenario() -> None:
        data_plane = plane(Endless)
        async with serving(data_plane) as client:
            call = client.stream()(timeout=2.0)
            await call.write(infer_request("m"))
            assert (await end_of(call)).startswith("DEADLINE_EXCEEDED")
            await data_plane.ended.wait()
            assert data_plane.cancelled == 1

    run(scenario())


PAYLOAD = 100_000
SMALL = GrpcSettings(write_buffer_bytes=1000, max_unsent_bytes=20 * PAYLOAD)


async def send_until_stuck(call: Any, stream: FakeStream) -> int:
    """Write without reading until the server stops; return how many requests it accepted."""
    writing = asyncio.create_task(_write_for_ever(call))
    taken = -1
    while taken != len(stream.requests):
        taken = len(stream.requests)
        await asyncio.wait([writing], timeout=0.5)
    writing.cancel()
    return taken


async def _write_for_ever(call: Any) -> None:
    while True:
        await call.write(infer_request("m", id="x" * PAYLOAD))


def test_no_requests_are_accepted_from_a_client_that_does_not_read(run: Run) -> None:
    async def scenario() -> None:
        data_plane = plane(FakeStream)
        async with serving(data_plane, SMALL) as client:
            call = client.stream()()
            await call.write(infer_request("m"))
            await data_plane.begun.wait()
            (stream,) = data_plane.opened
            assert stream.client is not None
            # The windows of both sides hold some requests; then nothing moves.
            assert await send_until_stuck(call, stream) < 200
            assert not stream.client.is_writable
            call.cancel()
            await data_plane.ended.wait()

    run(scenario())


def test_a_client_that_reads_again_gets_everything(run: Run) -> None:
    class Many(FakeStream):
        async def take(self, request: InferRequest) -> None:
            assert self.client is not None
            for number in range(100):
                await self.client.writable()
                self.emit(InferResponse("m", "1", str(number), {"p": "x" * PAYLOAD}))
            self.close_inputs()

    async def scenario() -> None:
        async with serving(plane(Many), SMALL) as client:
            call = client.stream()()
            await call.write(infer_request("m"))
            await call.done_writing()
            ids = [answer.infer_response.id async for answer in call]
            assert ids == [str(number) for number in range(100)]
            assert await call.code() is grpc.StatusCode.OK

    run(scenario())


def test_a_run_that_does_not_wait_for_its_client_is_cut_off(run: Run) -> None:
    emitted = 0

    class Flood(FakeStream):
        async def take(self, request: InferRequest) -> None:
            nonlocal emitted
            while True:
                self.emit(InferResponse("m", "1", "", {"p": "x" * PAYLOAD}))
                emitted += 1
                await asyncio.sleep(0)

    async def scenario() -> None:
        data_plane = plane(Flood)
        async with serving(data_plane, SMALL) as client:
            call = client.stream()()
            await call.write(infer_request("m"))
            await data_plane.ended.wait()
            status_of = await end_of(call)
            assert status_of.startswith(
                "RESOURCE_EXHAUSTED: the client does not take its answers: "
            )

    run(scenario())


def test_many_streams_run_at_once(run: Run) -> None:
    async def one(client: Client, number: int) -> None:
        call = client.stream()()
        for at in range(20):
            name = f"{number}.{at}"
            assert (await exchange(call, infer_request(id=name))).infer_response.id == name
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK

    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client, asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(one(client, number))

    run(scenario())


def test_a_refused_stream_has_the_code_of_its_error(run: Run) -> None:
    class Full(FakeStream):
        async def wait(self) -> None:
            raise RequestError("the queue is full", code=Code.RESOURCE_EXHAUSTED)

    async def scenario() -> None:
        async with serving(plane(Full)) as client:
            call = client.stream()()
            await call.write(infer_request("m"))
            assert await end_of(call) == "RESOURCE_EXHAUSTED: the queue is full"

    run(scenario())
