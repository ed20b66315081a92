"""tritonclient.http.aio, the asynchronous client on aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import tritonclient.http.aio as library
from tritonclient.utils import InferenceServerException

from tests.process.kserve import triton_client
from tests.process.kserve.asked import ANSWERED, MODELS, NO_MODEL, REFUSED, REST_WAYS, Asked
from tests.process.kserve.endless import endless

IS_REST: Final = True


def facts(address: str, spare: str) -> dict[str, Any]:
    return asyncio.run(_facts(address, spare))


async def _facts(address: str, spare: str) -> dict[str, Any]:
    async with library.InferenceServerClient(address) as client:
        return {
            **await _lookups(client),
            "answers": {
                **{
                    f"{way}, {algorithm}": {
                        name: await _infer(
                            client,
                            asked,
                            way == "binary",
                            request_compression_algorithm=algorithm,
                            response_compression_algorithm=algorithm,
                        )
                        for name, asked in requests.items()
                    }
                    for way, requests in REST_WAYS.items()
                    for algorithm in (None, "gzip", "deflate")
                },
                "together": await _together(client),
            },
            "encodings": triton_client.encodings(
                await client.infer(**triton_client.mixed(library))
            ),
            "errors": {
                way: {
                    name: await _infer(client, asked, way == "binary")
                    for name, asked in REFUSED.items()
                }
                for way in REST_WAYS
            },
            "ended": {"call": await _cancelled_call(client)},
            "own": await _infer(client, ANSWERED["latest version"], **triton_client.OWN),
            "big": await _big(client),
            "reload": await _reload(client, spare),
            "unserved": {
                "config": await _error(client.get_model_config("passing")),
                "statistics": await _error(client.get_inference_statistics("passing")),
                "trace": await _error(client.get_trace_settings()),
                "shared_memory": await _error(client.get_system_shared_memory_status()),
                "load_config": await _error(client.load_model("passing", config="{}")),
            },
        }


async def _lookups(client: Any) -> dict[str, Any]:
    server = await client.get_server_metadata()
    return {
        "live": await client.is_server_live(),
        "ready": await client.is_server_ready(),
        "server": [server["name"], server["extensions"]],
        "models_ready": {name: await client.is_model_ready(name) for name in MODELS},
        "no_model_ready": await client.is_model_ready(NO_MODEL),
        "metadata": {
            name: triton_client.metadata(await client.get_model_metadata(name)) for name in MODELS
        },
        "no_metadata": await _error(client.get_model_metadata(NO_MODEL)),
        "index": triton_client.index(await client.get_model_repository_index()),
    }


async def _infer(client: Any, asked: Asked, is_binary: bool = True, **how: Any) -> Any:
    try:
        return triton_client.answer(
            await client.infer(
                asked.model,
                triton_client.inputs(library, asked, binary_data=is_binary),
                **triton_client.options(library, asked, binary_data=is_binary),
                **how,
            )
        )
    except InferenceServerException as raised:
        return triton_client.error(raised)


async def _together(client: Any) -> Any:
    """Send all requests at the same time."""
    answers = await asyncio.gather(*(_infer(client, asked) for asked in ANSWERED.values()))
    return dict(zip(ANSWERED, answers, strict=True))


async def _big(client: Any) -> bool:
    asked = triton_client.BIG
    result = await client.infer(asked.model, triton_client.inputs(library, asked))
    return triton_client.is_big(result)


async def _error(call: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await call
    except InferenceServerException as raised:
        return triton_client.error(raised)


async def _cancelled_call(client: Any) -> list[Any]:
    with endless() as run:
        call = asyncio.create_task(_infer(client, run.asked))
        await asyncio.to_thread(run.wait_until_begun)
        call.cancel()
        ended = await asyncio.to_thread(run.end)
        await asyncio.wait([call])
        return [ended, call.cancelled()]


async def _reload(client: Any, spare: str) -> dict[str, Any]:
    asked = Asked(spare, ANSWERED["FP32"].inputs)
    await client.unload_model(spare)
    unloaded = {
        "unloaded_ready": await client.is_model_ready(spare),
        "unloaded_infer": await _infer(client, asked),
        "unloaded_index": triton_client.index(await client.get_model_repository_index())[spare],
    }
    await client.load_model(spare)
    return {
        **unloaded,
        "loaded_ready": await client.is_model_ready(spare),
        "loaded_infer": await _infer(client, asked),
        "unknown": await _error(client.load_model(NO_MODEL)),
    }
