"""A data plane without graphs: the model's name says how it behaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import NotFoundError
from servers.contract.data_plane import (
    LoadedServable,
    Method,
    ModelDescription,
    ServedEndpoint,
)
from tests.servers.fronts.http.fake_models import FakeModels, FakeServable, refuse

Emit = Callable[[ResponsePacket], object]
Behaviour = Callable[[HttpPayload, Emit], Awaitable[None]]

END = "data: [DONE]\n\n"


class FakeDataPlane(FakeModels):
    """Serves `behaviours` and KServe's models; records payloads and counts running answers.

    ``echo`` always exists: it answers with the request's body, in two events or as one body.
    """

    def __init__(self, **behaviours: Behaviour) -> None:
        super().__init__()
        self.behaviours: dict[str, Behaviour] = {"echo": echo, **behaviours}
        self.described = [
            ModelDescription(name, 1_700_000_000) for name in ("echo", "org/model:7b")
        ]
        self.is_ready = True
        self.payloads: list[HttpPayload] = []
        self.begun_twice = asyncio.Event()

    def endpoints(self) -> Sequence[ServedEndpoint]:
        return ()

    def models(self) -> Sequence[ModelDescription]:
        return self.described

    def statuses(self) -> dict[str, object]:
        return {"echo": {"model_version_status": []}}

    async def resolve(self, model: str, method: Method, version: str = "") -> LoadedServable:
        if method in (Method.INFER, Method.INFER_STREAM):
            self._find(model, version)
            return FakeServable(refuse, self._run)
        behaviour = self.behaviours.get(model)
        if behaviour is None:
            raise NotFoundError(f'no model "{model}" is served')
        return FakeServable(partial(self._answer, behaviour), self._run)

    async def _answer(self, behaviour: Behaviour, payload: HttpPayload, emit: Emit) -> None:
        self.payloads.append(payload)
        self.running += 1
        self.begun.set()
        if len(self.payloads) == 2:
            self.begun_twice.set()
        try:
            await behaviour(payload, emit)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
            self.ended.set()


async def echo(payload: HttpPayload, emit: Emit) -> None:
    if payload.parsed_json.get("stream"):
        emit(f"data: {json.dumps(payload.parsed_json)}\n\n")
        emit(END)
    else:
        emit(json.dumps({"uri": payload.uri, "echo": payload.parsed_json}))


def raising(error: BaseException, *, after: int = 0) -> Behaviour:
    """Fail with ``error`` after ``packets`` packets."""

    async def behave(payload: HttpPayload, emit: Emit) -> None:
        for number in range(after):
            emit(f"data: {number}\n\n")
        raise error

    return behave


async def hang(payload: HttpPayload, emit: Emit) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def hang_after_one(payload: HttpPayload, emit: Emit) -> None:
    """Send one packet, then nothing for ever."""
    emit("data: first\n\n")
    await asyncio.Event().wait()
