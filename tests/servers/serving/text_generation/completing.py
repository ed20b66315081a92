"""A graph that answers completions from a script, and requests to it through KServe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np

from calculators.kit.requests.http_payload import (
    ClientConnection,
    HttpPayload,
    NoClient,
    RequestError,
)
from calculators.tensors.inference import InferRequest, InferResponse, RequestedOutput, Tensor
from graph_runtime import REGISTRY, Calculator, CalculatorContext, In, Out, Registry
from servers.contract.data_plane import InferAnswer, InferFailure
from servers.serving.loaded_graph import LoadedGraph, load_graph
from servers.serving.text_generation.text_model import TextGenerationModel
from tests.servers.serving.served_graphs import COUNT_GRAPH, write_graph
from tests.support.patience import PATIENCE


class Script:
    """The behaviour of `Completing`, and a record of its requests.

    Attributes:
        pieces: of each answer.
        refusal: raised instead of an answer, or after ``refuses_after`` pieces.
        gates: by prompt, awaited before the second piece.
        raw: packets instead of an answer.
        alive: runs that have begun and not ended.
    """

    def __init__(self) -> None:
        self.pieces = ["one", " two", " three"]
        self.refusal: Exception | None = None
        self.refuses_after = 0
        self.gates: dict[str, asyncio.Event] = {}
        self.raw: list[str | bytes] | None = None
        self.asked: list[HttpPayload] = []
        self.alive = 0

    @property
    def body(self) -> Any:
        """Return the only request's body."""
        (payload,) = self.asked
        assert json.loads(payload.body) == payload.parsed_json
        return payload.parsed_json


SCRIPT = Script()


class Completing(Calculator):
    """Answers ``/v3/completions`` and ``/v3/chat/completions`` in OpenAI's form, one packet each
    turn of the loop."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    turn = In[bool]("LOOPBACK")
    response = Out[str | bytes]("HTTP_RESPONSE_PAYLOAD")
    next_turn = Out[bool]("LOOPBACK")
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        SCRIPT.alive += 1
        self.clock = 0

    def close(self, cc: CalculatorContext) -> None:
        SCRIPT.alive -= 1

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.request):
            payload = cc.get(self.request)
            SCRIPT.asked.append(payload)
            self.packets = _packets(payload)
        packet = await anext(self.packets, None)
        if packet is not None:
            cc.emit(self.response, packet, at=self.clock)
            cc.emit(self.next_turn, True, at=self.clock)
            self.clock += 1


async def _packets(payload: HttpPayload) -> AsyncIterator[str | bytes]:
    body = payload.parsed_json
    if SCRIPT.raw is not None:
        for packet in SCRIPT.raw:
            yield packet
        return
    if not body["stream"]:
        if SCRIPT.refusal is not None:
            raise SCRIPT.refusal
        yield json.dumps(_answer(payload))
        return
    for number, piece in enumerate(SCRIPT.pieces):
        if SCRIPT.refusal is not None and number == SCRIPT.refuses_after:
            raise SCRIPT.refusal
        await payload.client.writable()
        gate = SCRIPT.gates.get(body.get("prompt"))
        if number == 1 and gate is not None:
            await gate.wait()
        for index in range(body.get("n", 1)):
            yield _event(payload, index, piece, None)
    for index in range(body.get("n", 1)):
        yield _event(payload, index, "", "stop")
    yield f"data: {json.dumps({'choices': [], 'usage': _usage(body)})}\n\n"
    yield "data: [DONE]\n\n"


def _usage(body: dict[str, Any]) -> dict[str, int]:
    n = body.get("n", 1)
    return {"prompt_tokens": 5, "completion_tokens": n * (len(SCRIPT.pieces) + 1)}


def _logprobs(payload: HttpPayload, pieces: list[str]) -> dict[str, Any] | None:
    asked = payload.parsed_json.get("logprobs")
    if not pieces or asked is None or asked is False:
        return None
    if payload.uri.endswith("/chat/completions"):
        return {"content": [{"token": piece, "logprob": -0.5} for piece in pieces]}
    return {"tokens": pieces, "token_logprobs": [-0.5] * len(pieces)}


def _choice(
    payload: HttpPayload, index: int, pieces: list[str], reason: str | None, member: str
) -> dict[str, Any]:
    text = "".join(pieces)
    is_chat = payload.uri.endswith("/chat/completions")
    content = {member: {"role": "assistant", "content": text}} if is_chat else {"text": text}
    logprobs = _logprobs(payload, [piece for piece in pieces if piece])
    return {"index": index, **content, "logprobs": logprobs, "finish_reason": reason}


def _answer(payload: HttpPayload) -> dict[str, Any]:
    body = payload.parsed_json
    choices = [
        _choice(payload, index, SCRIPT.pieces, "stop", "message")
        for index in range(body.get("n", 1))
    ]
    return {"choices": choices, "usage": _usage(body)}


def _event(payload: HttpPayload, index: int, piece: str, reason: str | None) -> str:
    choice = _choice(payload, index, [piece], reason, "delta")
    return f"data: {json.dumps({'choices': [choice], 'usage': None})}\n\n"


# Asking -------------------------------------------------------------------------------------------


def tensor(name: str, *elements: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of one dimension."""
    return Tensor.of(name, np.array(elements, dtype=dtype or _dtype_of(elements)))


def _dtype_of(elements: tuple[Any, ...]) -> Any:
    kinds = {bool: np.bool_, int: np.int32, float: np.float32}
    return kinds.get(type(elements[0]) if elements else str, object)


def asking(
    *tensors: Tensor, text: str | None = "Hi", id: str = "1", outputs: str = "", **parameters: Any
) -> InferRequest:
    """Return a request; ``outputs``: the names of requested outputs."""
    first = () if text is None else (tensor("text_input", text),)
    return InferRequest(
        "model",
        id=id,
        parameters=parameters,
        inputs=(*first, *tensors),
        requested_outputs=tuple(RequestedOutput(name) for name in outputs.split()),
    )


def given(response: InferResponse) -> dict[str, list[Any]]:
    """Return the outputs as lists, with texts decoded."""
    return {
        output.name: _decoded(output.data.tolist())
        for output in response.outputs
        if isinstance(output, Tensor)
    }


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


class Answers:
    """The answers of a stream, in order."""

    def __init__(self) -> None:
        self.all: list[InferAnswer] = []
        self._more = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def emit(self, answer: InferAnswer) -> None:
        self.all.append(answer)
        task = asyncio.ensure_future(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        async with self._more:
            self._more.notify_all()

    async def reached(self, count: int) -> None:
        """Return once there are ``count`` answers."""
        async with asyncio.timeout(PATIENCE), self._more:
            await self._more.wait_for(lambda: len(self.all) >= count)

    def of(self, id: str = "1") -> list[InferResponse]:
        """Return the responses to one request."""
        return [each for each in self.all if isinstance(each, InferResponse) and each.id == id]

    def failures(self) -> list[InferFailure]:
        return [each for each in self.all if isinstance(each, InferFailure)]

    def texts(self, id: str = "1") -> list[str]:
        """Return the first text of each response to one request that has outputs."""
        return [given(each)["text_output"][0] for each in self.of(id) if each.outputs]


def serving(
    folder: Path, scenario: Callable[[TextGenerationModel], Coroutine[Any, Any, None]]
) -> None:
    """Run a scenario with a model of the graph; the script is reset before it."""

    async def run() -> None:
        registry = Registry(REGISTRY)
        registry.register_calculator(Completing)
        graph: LoadedGraph = await load_graph(
            write_graph(folder, "model", COUNT_GRAPH.replace("Count", "Completing")), registry
        )
        SCRIPT.__init__()  # type: ignore[misc]
        await scenario(TextGenerationModel("model", graph.answer))
        await graph.close()
        assert SCRIPT.alive == 0

    asyncio.run(run())


def inferring(
    folder: Path, request: InferRequest, client: ClientConnection | None = None
) -> InferResponse:
    """Return the whole answer to one request."""
    answers: list[InferResponse] = []

    async def scenario(model: TextGenerationModel) -> None:
        answers.append(await model.infer(request, client or NoClient()))

    serving(folder, scenario)
    return answers[0]


def refused(folder: Path, request: InferRequest, refusal: Exception | None = None) -> str:
    """Return the refusal of a request, by the model or, if given, by its graph."""
    reasons: list[str] = []

    async def scenario(model: TextGenerationModel) -> None:
        SCRIPT.refusal = refusal
        try:
            await model.infer(request, NoClient())
        except RequestError as error:
            reasons.append(error.message)

    serving(folder, scenario)
    (reason,) = reasons
    return reason
