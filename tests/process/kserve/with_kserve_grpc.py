"""kserve's client for gRPC."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
from kserve import InferenceGRPCClient

from tests.process.kserve import kserve_client
from tests.process.kserve.asked import MODELS, NO_MODEL, REFUSED, REST_WAYS, Asked
from tests.process.kserve.endless import SOON, endless

IS_REST: Final = False


def facts(address: str, spare: str) -> dict[str, Any]:
    return asyncio.run(_facts(address))


async def _facts(address: str) -> dict[str, Any]:
    async with InferenceGRPCClient(address) as client:
        return {
            "live": await client.is_server_live(),
            "ready": await client.is_server_ready(),
            "models_ready": {name: await client.is_model_ready(name) for name in MODELS},
            "no_model_ready": await _no_model_ready(client),
            "answers": {
                # The client's typed contents have no FP16 either.
                way: {
                    name: await _infer(client, asked, is_binary=way == "binary")
                    for name, asked in requests.items()
                }
                for way, requests in REST_WAYS.items()
            },
            "errors": {
                "raw": {
                    name: await _infer(client, asked, is_binary=True)
                    for name, asked in REFUSED.items()
                }
            },
            "timeout": await _timeout(client),
        }


async def _infer(client: Any, asked: Asked, *, is_binary: bool = True, **how: Any) -> Any:
    try:
        return kserve_client.answer(
            await client.infer(kserve_client.request(asked, is_binary=is_binary), **how)
        )
    except grpc.aio.AioRpcError as raised:
        return [str(raised.code()), raised.details()]


async def _no_model_ready(client: Any) -> Any:
    try:
        return await client.is_model_ready(NO_MODEL)
    except grpc.aio.AioRpcError as raised:
        return [str(raised.code()), raised.details()]


async def _timeout(client: Any) -> Any:
    with endless() as run:
        return await _infer(client, run.asked, timeout=SOON)
