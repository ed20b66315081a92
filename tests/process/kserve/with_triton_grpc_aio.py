"""tritonclient.grpc.aio, the asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Final

import grpc
import tritonclient.grpc.aio as library
from tritonclient.utils import InferenceServerException

from tests.process.kserve import triton_client
from tests.process.kserve.asked import ANSWERED, MODELS, NO_MODEL, REFUSED, STREAMS, Asked
from tests.process.kserve.endless import SOON, endless

IS_REST: Final = False


def facts(address: str, spare: str) -> dict[str, Any]:
    return asyncio.run(_facts(address, spare))


async def _facts(address: str, spare: str) -> dict[str, Any]:
    async with library.InferenceServerClient(address) as client:
        return {
            **await _lookups(client),
            "answers": {
                # All at the same time, over one connection.
                "together": await _gathered(
                    {n: _infer(client, each) for n, each in ANSWERED.items()}
                ),
                "gzip": {
                    name: await _infer(client, asked, compression_algorithm="gzip")
                    for name, asked in ANSWERED.items()
                },
            },
            "errors": {
                "raw": await _gathered({n: _infer(client, each) for n, each in REFUSED.items()})
            },
            "streams": await _gathered({n: _stream(client, each) for n, each in STREAMS.items()}),
            "ended": {
                "call": await _cancelled_call(client),
                "stream": await _cancelled_stream(client),
            },
            "timeout": await _timeout(client),
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
    server = await client.get_server_metadata(as_json=True)
    return {
        "live": await client.is_server_live(),
        "ready": await client.is_server_ready(),
        "server": [server["name"], server["extensions"]],
        "models_ready": {name: await client.is_model_ready(name) for name in MODELS},
        "no_model_ready": await _error(client.is_model_ready(NO_MODEL)),
        "metadata": {
            name: triton_client.metadata(await client.get_model_metadata(name, as_json=True))
            for name in MODELS
        },
        "no_metadata": await _error(client.get_model_metadata(NO_MODEL)),
        "index": await _index(client),
    }


async def _index(client: Any) -> dict[str, Any]:
    return triton_client.index((await client.get_model_repository_index(as_json=True))["models"])


async def _infer(client: Any, asked: Asked, **how: Any) -> Any:
    try:
        return triton_client.answer(
            await client.infer(
                asked.model,
                triton_client.inputs(library, asked),
                **triton_client.options(library, asked),
                **how,
            )
        )
    except InferenceServerException as raised:
        return triton_client.error(raised)


async def _big(client: Any) -> bool:
    asked = triton_client.BIG
    result = await client.infer(asked.model, triton_client.inputs(library, asked))
    return triton_client.is_big(result)


async def _error(call: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await call
    except InferenceServerException as raised:
        return triton_client.error(raised)


async def _gathered(calls: dict[str, Coroutine[Any, Any, Any]]) -> dict[str, Any]:
    return dict(zip(calls, await asyncio.gather(*calls.values()), strict=True))


async def _stream(client: Any, requests: Sequence[Asked]) -> list[Any]:
    answers: list[Any] = []
    try:
        async for result, error in client.stream_infer(_sent(requests)):
            answers.append(
                triton_client.streamed(result) if error is None else triton_client.error(error)
            )
    except grpc.aio.AioRpcError as raised:
        # Exceptions that its client lets through.
        answers.append([str(raised.code()), raised.details()])
    return answers


async def _sent(requests: Sequence[Asked]) -> AsyncIterator[dict[str, Any]]:
    for asked in requests:
        yield {
            "model_name": asked.model,
            "inputs": triton_client.inputs(library, asked),
            **triton_client.options(library, asked),
        }


# Ends that the client brings about ----------------------------------------------------------------


async def _cancelled_call(client: Any) -> list[Any]:
    with endless() as run:
        call = asyncio.create_task(_infer(client, run.asked))
        await asyncio.to_thread(run.wait_until_begun)
        call.cancel()
        ended = await asyncio.to_thread(run.end)
        await asyncio.wait([call])
        return [ended, call.cancelled()]


async def _cancelled_stream(client: Any) -> list[Any]:
    with endless() as run:
        stream = client.stream_infer(_sent((run.asked,)))
        reading = asyncio.create_task(anext(stream))
        await asyncio.to_thread(run.wait_until_begun)
        stream.cancel()
        ended = await asyncio.to_thread(run.end)
        await asyncio.wait([reading])
        return [ended, reading.cancelled()]


async def _timeout(client: Any) -> Any:
    with endless() as run:
        return await _infer(client, run.asked, client_timeout=SOON)


async def _reload(client: Any, spare: str) -> dict[str, Any]:
    asked = Asked(spare, ANSWERED["FP32"].inputs)
    await client.unload_model(spare)
    unloaded = {
        "unloaded_ready": await client.is_model_ready(spare),
        "unloaded_infer": await _infer(client, asked),
        "unloaded_index": (await _index(client))[spare],
    }
    await client.load_model(spare)
    return {
        **unloaded,
        "loaded_ready": await client.is_model_ready(spare),
        "loaded_infer": await _infer(client, asked),
        "unknown": await _error(client.load_model(NO_MODEL)),
    }
