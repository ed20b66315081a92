"""kserve's client for REST, with version 2 of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httpx
from kserve import InferenceRESTClient, RESTConfig

from tests.process.kserve import kserve_client
from tests.process.kserve.asked import MODELS, NO_MODEL, REFUSED, REST_WAYS, Asked
from tests.process.kserve.endless import SOON, endless

IS_REST: Final = True


def facts(address: str, spare: str) -> dict[str, Any]:
    return asyncio.run(_facts(f"http://{address}"))


async def _facts(url: str) -> dict[str, Any]:
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        return {
            "live": await client.is_server_live(url),
            "ready": await client.is_server_ready(url),
            "models_ready": {name: await client.is_model_ready(url, name) for name in MODELS},
            "no_model_ready": await client.is_model_ready(url, NO_MODEL),
            "answers": {
                way: {
                    name: await _infer(client, url, asked, is_binary=way == "binary")
                    for name, asked in requests.items()
                }
                for way, requests in REST_WAYS.items()
            },
            "errors": {
                way: {
                    name: await _infer(client, url, asked, is_binary=way == "binary")
                    for name, asked in REFUSED.items()
                }
                for way in REST_WAYS
            },
            "timeout": await _timeout(client, url),
        }


async def _infer(client: Any, url: str, asked: Asked, *, is_binary: bool, **how: Any) -> Any:
    # The client has only the model's name, which it puts into the path.
    path = f"{asked.model}/versions/{asked.version}" if asked.version else asked.model
    request = kserve_client.request(asked, is_binary=is_binary, binary_data_output=is_binary)
    try:
        return kserve_client.answer(await client.infer(url, request, path, **how))
    except httpx.HTTPStatusError as raised:
        return [str(raised.response.status_code), str(raised).rpartition(", '")[0]]


async def _timeout(client: Any, url: str) -> Any:
    with endless() as run:
        try:
            return await _infer(client, url, run.asked, is_binary=True, timeout=SOON)
        except httpx.ReadTimeout as error:
            return type(error).__name__
