"""Requests in a stream: text piece by piece, several at a time, each with its own end."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import ClientConnection, NoClient, RequestError
from calculators.tensors.inference import InferRequest
from graph_runtime import Code, GraphError, RunError
from servers.serving.text_generation.generation_request import read_request
from servers.serving.text_generation.text_model import TextGenerationModel, TextStream
from tests.servers.serving.text_generation.completing import (
    SCRIPT,
    Answers,
    asking,
    given,
    serving,
    tensor,
)
from tests.support.patience import PATIENCE


def streaming(
    folder: Path,
    *requests: InferRequest,
    client: ClientConnection | None = None,
    refusal: Exception | None = None,
    raw: list[str | bytes] | None = None,
    refuses_after: int = 0,
) -> Answers:
    """Return the answers of a stream to these requests."""
    answers = Answers()

    async def scenario(model: TextGenerationModel) -> None:
        SCRIPT.refusal, SCRIPT.raw, SCRIPT.refuses_after = refusal, raw, refuses_after
        async with model.open_stream(requests[0], client or NoClient(), answers.emit) as stream:
            for request in requests:
                await stream.send(request)
            stream.close_inputs()
            await stream.wait()

    serving(folder, scenario)
    return answers


def finals(answers: Answers, id: str = "1") -> list[object]:
    return [each.parameters["triton_final_response"] for each in answers.of(id)]


def test_each_piece_is_a_response_and_the_last_is_marked(tmp_path: Path) -> None:
    answers = streaming(tmp_path, asking())
    assert answers.texts() == ["one", " two", " three", ""]
    assert finals(answers) == [False, False, False, True]
    assert [each.model for each in answers.of()] == ["model"] * 4
    assert SCRIPT.body["stream"] is True


def test_an_empty_response_ends_the_answer_on_request(tmp_path: Path) -> None:
    answers = streaming(tmp_path, asking(triton_enable_empty_final_response=True))
    assert answers.texts() == ["one", " two", " three", ""]
    assert finals(answers) == [False, False, False, False, True]
    assert answers.of()[-1].outputs == ()
    assert "triton_enable_empty_final_response" not in SCRIPT.body


@pytest.mark.parametrize("wants_empty", [False, True])
def test_a_stream_can_give_whole_answers(tmp_path: Path, wants_empty: bool) -> None:
    request = asking(
        tensor("stream", False), triton_enable_empty_final_response=wants_empty, text="Hi "
    )
    answers = streaming(tmp_path, request)
    assert answers.texts() == ["Hi one two three"]
    assert finals(answers) == ([False, True] if wants_empty else [True])


def test_the_input_is_sent_with_the_first_piece_on_request(tmp_path: Path) -> None:
    request = asking(exclude_input_in_output=False, n=2)
    answers = streaming(tmp_path, request)
    (first, second, *_) = [given(each)["text_output"] for each in answers.of()]
    assert (first, second) == (["Hione", "Hi"], ["", "one"])


def test_totals_are_sent_with_the_last_response(tmp_path: Path) -> None:
    flags: dict[str, Any] = dict.fromkeys(
        (
            "return_finish_reason",
            "return_cumulative_logprob",
            "return_num_input_tokens",
            "return_num_output_tokens",
        ),
        True,
    )
    responses = [given(each) for each in streaming(tmp_path, asking(**flags)).of()]
    assert responses[1] == {
        "text_output": [" two"],
        "finish_reason": ["None"],
        "cumulative_logprob": [-1.0],
        "num_output_tokens": [1],
    }
    assert responses[3] == {
        "text_output": [""],
        "finish_reason": ["stop"],
        "cumulative_logprob": [-1.5],
        "num_input_tokens": [5],
        "num_output_tokens": [1],
    }


def test_a_chat_is_streamed(tmp_path: Path) -> None:
    answers = streaming(tmp_path, asking(chat=True))
    assert answers.texts() == ["one", " two", " three", ""]


def test_requests_of_one_stream_run_at_the_same_time(tmp_path: Path) -> None:
    answers = Answers()

    async def scenario(model: TextGenerationModel) -> None:
        gate = SCRIPT.gates["slow"] = asyncio.Event()
        async with model.open_stream(asking(), NoClient(), answers.emit) as stream:
            await stream.send(asking(text="slow", id="a"))
            await answers.reached(1)
            await stream.send(asking(text="quick", id="b"))
            await answers.reached(5)
            assert answers.texts("a") == ["one"]
            assert answers.texts("b") == ["one", " two", " three", ""]
            gate.set()
            stream.close_inputs()
            await stream.wait()
        assert answers.texts("a") == ["one", " two", " three", ""]

    serving(tmp_path, scenario)


def test_a_request_beyond_the_limit_waits_for_room(tmp_path: Path) -> None:
    ended: list[str] = []

    async def scenario() -> None:
        gates = {"a": asyncio.Event(), "b": asyncio.Event()}

        async def generate(request: Any, *_: Any) -> None:
            await gates[request.id].wait()
            ended.append(request.id)

        read = partial(read_request, model="model", version="1", in_stream=True)
        stream = TextStream(read, generate, NoClient(), lambda _: None, limit=1)
        await stream.send(asking(id="a"))
        second = asyncio.ensure_future(stream.send(asking(id="b")))
        gates["b"].set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not second.done()
        gates["a"].set()
        await asyncio.wait_for(second, PATIENCE)
        stream.close_inputs()
        await stream.wait()

    asyncio.run(scenario())
    assert ended == ["a", "b"]


def test_an_invalid_request_is_refused_at_once(tmp_path: Path) -> None:
    answers = Answers()

    async def scenario(model: TextGenerationModel) -> None:
        async with model.open_stream(asking(), NoClient(), answers.emit) as stream:
            with pytest.raises(RequestError, match="text_input"):
                await stream.send(asking(text=None))
            await stream.send(asking(id="2"))
            stream.close_inputs()
            await stream.wait()

    serving(tmp_path, scenario)
    assert answers.texts("2")[0] == "one"
    assert not answers.failures()


@pytest.mark.parametrize("refuses_after", [0, 2])
def test_a_refusal_of_the_graph_names_the_tensor(tmp_path: Path, refuses_after: int) -> None:
    refusal = RequestError('Invalid value for "top_p": 3 is too much', param="top_p")
    answers = streaming(
        tmp_path,
        asking(tensor("top_p", 3.0), id="x"),
        refusal=refusal,
        refuses_after=refuses_after,
    )
    (failure,) = answers.failures()
    assert failure.id == "x"
    assert isinstance(failure.error, RequestError)
    assert failure.error.message == 'inputs[1] "top_p": 3 is too much'
    assert len(answers.of("x")) == refuses_after
    assert answers.all[-1] is failure


def test_a_graph_that_fails_fails_its_request_only(tmp_path: Path) -> None:
    answers = Answers()

    async def scenario(model: TextGenerationModel) -> None:
        async with model.open_stream(asking(), NoClient(), answers.emit) as stream:
            SCRIPT.refusal = ValueError("broken")
            await stream.send(asking(id="a"))
            await answers.reached(1)
            SCRIPT.refusal = None
            await stream.send(asking(id="b"))
            stream.close_inputs()
            await stream.wait()

    serving(tmp_path, scenario)
    (failure,) = answers.failures()
    assert failure.id == "a"
    assert isinstance(failure.error, RunError)
    assert answers.texts("b") == ["one", " two", " three", ""]


EVENT = 'data: {"choices": [{"index": 0, "text": "héllo", "finish_reason": null}]}\n\n'
FAILURE = (
    'data: {"error": {"message": "out of room", "type": "server_error", "param": null,'
    ' "code": "service_unavailable"}}\n\n'
)


def test_an_error_event_is_an_error_and_nothing_follows_it(tmp_path: Path) -> None:
    answers = streaming(tmp_path, asking(), raw=[EVENT, FAILURE, EVENT, "data: [DONE]\n\n"])
    assert answers.texts() == ["héllo"]
    (failure,) = answers.failures()
    assert isinstance(failure.error, GraphError)
    assert (failure.error.message, failure.error.code) == ("out of room", Code.UNAVAILABLE)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_may_be_cut_anywhere(tmp_path: Path, size: int) -> None:
    data = (f": a comment\n\nevent: piece\n{EVENT}" * 2).encode()
    packets: list[str | bytes] = [data[at : at + size] for at in range(0, len(data), size)]
    answers = streaming(tmp_path, asking(), raw=packets)
    assert "".join(answers.texts()) == "héllohéllo"
    assert not answers.failures()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ([], 'gave no answer: node "node" ran once and sent nothing on "output"'),
        (["data: [DONE]\n\n"], "the graph's answer is not a completion"),
        (["data: nonsense\n\n"], "the graph's answer is not a completion"),
    ],
)
def test_a_graph_without_an_answer_is_an_error(
    tmp_path: Path, raw: list[str | bytes], reason: str
) -> None:
    (failure,) = streaming(tmp_path, asking(), raw=raw).failures()
    assert str(failure.error).endswith(reason)


class Leaving(NoClient):
    """A client that leaves on command, and reads nothing before ``reads`` is set."""

    def __init__(self) -> None:
        self.callbacks: list[Any] = []
        self.reads = asyncio.Event()
        self.waited = asyncio.Event()

    def on_disconnect(self, callback: Any) -> None:
        self.callbacks.append(callback)

    async def writable(self) -> None:
        self.waited.set()
        await self.reads.wait()


def test_a_slow_client_delays_the_graph(tmp_path: Path) -> None:
    answers = Answers()

    async def scenario(model: TextGenerationModel) -> None:
        client = Leaving()
        async with model.open_stream(asking(), client, answers.emit) as stream:
            await stream.send(asking())
            await client.waited.wait()
            assert answers.all == []
            client.reads.set()
            stream.close_inputs()
            await stream.wait()

    serving(tmp_path, scenario)
    assert answers.texts() == ["one", " two", " three", ""]


def test_the_departure_of_a_client_reaches_its_running_requests(tmp_path: Path) -> None:
    answers = Answers()
    told: list[str] = []

    async def scenario(model: TextGenerationModel) -> None:
        client = Leaving()
        client.reads.set()
        SCRIPT.gates["second"] = asyncio.Event()
        async with model.open_stream(asking(), client, answers.emit) as stream:
            for text in ("first", "second"):
                await stream.send(asking(text=text, id=text))
            await answers.reached(5)
            # Nothing is left of the first request: the connection knows only the stream.
            (callback,) = client.callbacks
            for payload in SCRIPT.asked:
                prompt = payload.parsed_json["prompt"]
                payload.client.on_disconnect(partial(told.append, prompt))
            callback()
        assert SCRIPT.alive == 0

    serving(tmp_path, scenario)
    assert told == ["second"]


def test_leaving_a_stream_ends_its_graphs(tmp_path: Path) -> None:
    answers = Answers()

    async def scenario(model: TextGenerationModel) -> None:
        SCRIPT.gates["slow"] = asyncio.Event()
        async with model.open_stream(asking(), NoClient(), answers.emit) as stream:
            await stream.send(asking(text="slow"))
            await answers.reached(1)
            assert SCRIPT.alive == 1
        assert SCRIPT.alive == 0

    serving(tmp_path, scenario)
    assert not answers.failures()
