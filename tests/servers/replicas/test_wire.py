"""Messages between a front and a replica arrive as they were sent."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord
from calculators.tensors.inference import (
    CustomTensor,
    InferRequest,
    InferResponse,
    RequestedOutput,
    Tensor,
)
from graph_runtime import Code, GraphError, NotFoundError, RunError, UnavailableError
from servers.contract.data_plane import InferFailure
from servers.contract.failure import failure_of
from servers.replicas.placement import merged
from servers.replicas.wire import (
    WINDOW,
    AnswerEnding,
    Origin,
    Outgoing,
    SentFailure,
    SentTensors,
    Update,
    answer_of,
    sent_answer,
)


def travelled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def test_tensors_of_requests_and_answers_arrive() -> None:
    numbers = Tensor.of("numbers", np.arange(6, dtype=np.float32).reshape(2, 3))
    words = Tensor.of("words", np.array([b"one", b"\xff"], dtype=object), {"content": "raw"})
    custom = CustomTensor("custom", "MINE", (2,), memoryview(b"ab"), defect="no length")
    outputs = (RequestedOutput("out", {"classification": 3}),)
    asked = InferRequest("m", "2", "id", {"key": True}, (numbers, words, custom), outputs)
    request = travelled(SentTensors.of_request(asked)).request()
    assert (request.model, request.version, request.id) == ("m", "2", "id")
    assert request.parameters == {"key": True}
    assert request.requested_outputs == outputs
    first, second, third = request.inputs
    assert np.array_equal(first.data, numbers.data)
    assert list(second.data) == [b"one", b"\xff"]
    assert second.parameters == {"content": "raw"}
    assert (third.datatype, bytes(third.data), third.defect) == ("MINE", b"ab", "no length")

    answer = travelled(sent_answer(InferResponse("m", "1", "id", {}, (numbers,))))
    response = answer_of(answer)
    assert isinstance(response, InferResponse)
    assert np.array_equal(response.outputs[0].data, numbers.data)
    failure = answer_of(travelled(sent_answer(InferFailure("id", RequestError("no")))))
    assert isinstance(failure, InferFailure)
    assert (failure.id, str(failure.error)) == ("id", "no")


@pytest.mark.parametrize(
    "error",
    [
        RequestError("wrong", param="messages[0]", reason="a_word", detail="of the log"),
        RequestError("full", code=Code.RESOURCE_EXHAUSTED, retry_after=2.5),
        RunError([RequestError("late", code=Code.DEADLINE_EXCEEDED)]),
        NotFoundError("no such version"),
        UnavailableError("loading"),
        GraphError("conflict", code=Code.FAILED_PRECONDITION),
    ],
    ids=lambda error: type(error).__name__,
)
def test_clients_get_the_failure_that_one_machine_would_give(error: Exception) -> None:
    arrived = travelled(SentFailure.of(error)).error()
    assert failure_of(arrived) == failure_of(error)
    assert isinstance(arrived, RunError) == isinstance(error, RunError)


def test_a_secret_stays_in_the_replica() -> None:
    arrived = travelled(SentFailure.of(ValueError("/secret/path"))).error()
    failure = failure_of(arrived)
    assert (failure.code, failure.text) == (Code.INTERNAL, "")
    assert "secret" not in repr(arrived)


def test_times_of_a_record_are_those_of_the_front() -> None:
    there = Origin.of(RequestRecord("id", "m", keeps_texts=True)).record("m")
    assert (there.request_id, there.keeps_texts) == ("id", True)
    generation = there.begin_generation("llm", "chat/completions")
    generation.submitted = generation.began + 5
    generation.completion_tokens = 7
    there.note_route("small", "short")
    here = RequestRecord("id", "m")
    travelled(AnswerEnding.of(there, None)).note_in(here, sent=1000)
    (arrived,) = here.generations
    assert arrived.submitted - arrived.began == 5
    assert arrived.began == 1000 + generation.began - there.began
    assert arrived.first_token == 0
    assert here.completion_tokens == 7
    assert here.routes[0].name == "small"


def test_an_update_has_all_that_is_there_and_the_last_one_the_end() -> None:
    async def scenario() -> list[Update]:
        outgoing = Outgoing(RequestRecord("id"))
        go = asyncio.Event()

        async def run() -> None:
            outgoing.put("a")
            outgoing.put("b")
            outgoing.record.warnings = ("careful",)
            await go.wait()
            raise RequestError("enough")

        updates = []
        async for update in outgoing.updates(run, "run"):
            updates.append(update)
            go.set()
        return updates

    first, last = asyncio.run(scenario())
    assert (first.packets, first.warnings, first.ending) == (["a", "b"], ("careful",), None)
    assert last.packets == []
    assert last.warnings == ()
    assert last.ending is not None
    assert last.ending.failure is not None
    assert last.ending.failure.text == "enough"


def test_a_run_is_cancelled_with_its_updates() -> None:
    async def scenario() -> bool:
        outgoing = Outgoing(RequestRecord("id"))
        begun, ended = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.set()
                raise

        reading = asyncio.ensure_future(anext(outgoing.updates(run, "run")))
        await begun.wait()
        reading.cancel()
        await ended.wait()
        return outgoing.client.is_disconnected

    assert asyncio.run(scenario())


def test_a_client_is_writable_within_its_window() -> None:
    async def scenario() -> None:
        client = Outgoing(RequestRecord("id")).client
        assert client.is_writable
        client.spend(WINDOW)
        assert not client.is_writable
        waiting = asyncio.ensure_future(client.writable())
        await asyncio.sleep(0)
        assert not waiting.done()
        client.give(WINDOW // 2)
        await waiting
        client.spend(WINDOW)
        client.disconnect()
        await client.writable()  # so that the run can end

    asyncio.run(scenario())


def test_metrics_of_replicas_are_told_apart() -> None:
    own = "# HELP graphrt_x X\n# TYPE graphrt_x counter\ngraphrt_x 1\n"
    theirs = (
        own
        + '# HELP graphrt_up Up\n# TYPE graphrt_up gauge\ngraphrt_up{graph="a"} 1\n'
        + "# HELP process_y Y\n# TYPE process_y gauge\nprocess_y 3\n"
    )
    text = merged(own, [("r1", theirs), ("r2", theirs)], "").body.decode()
    assert text.splitlines() == [
        "# HELP graphrt_x X",
        "# TYPE graphrt_x counter",
        "graphrt_x 1.0",
        "# HELP graphrt_up Up",
        "# TYPE graphrt_up gauge",
        'graphrt_up{replica="r1",graph="a"} 1.0',
        'graphrt_up{replica="r2",graph="a"} 1.0',
    ]
