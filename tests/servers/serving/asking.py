"""Requests to a data plane, in the form that fronts make."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload, NoClient
from calculators.tensors.inference import InferRequest, InferResponse
from servers.contract.data_plane import DataPlane, InferAnswer, InferStream, Method


async def answer(plane: DataPlane, model: str, body: str = "") -> list[Any]:
    """Return the packets of the answer to an HTTP request."""
    packets: list[Any] = []
    servable = await plane.resolve(model, Method.UNARY)
    await servable.answer(HttpPayload("/v3/x", {}, body.encode()), packets.append)
    return packets


async def infer(plane: DataPlane, asked: InferRequest) -> InferResponse:
    """Return the answer to tensors."""
    servable = await plane.resolve(asked.model, Method.INFER, asked.version)
    return await servable.infer(asked, NoClient())


@asynccontextmanager
async def opened(
    plane: DataPlane, first: InferRequest, emit: Callable[[InferAnswer], object]
) -> AsyncIterator[InferStream]:
    """Open a stream to the model of ``first``."""
    servable = await plane.resolve(first.model, Method.INFER_STREAM, first.version)
    async with servable.open_stream(first, NoClient(), emit) as stream:
        yield stream
