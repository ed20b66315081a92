"""tritonclient.grpc, the blocking client."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import tritonclient.grpc as library
from tritonclient.utils import InferenceServerException

from tests.process.kserve import triton_client
from tests.process.kserve.asked import (
    ANSWERED,
    MODELS,
    NO_MODEL,
    REFUSED,
    RESTARTED,
    STREAMS,
    Asked,
)
from tests.process.kserve.endless import SOON, endless

IS_REST: Final = False


def facts(address: str, spare: str) -> dict[str, Any]:
    with library.InferenceServerClient(address) as client:
        return {
            **_lookups(client),
            "answers": {
                "raw": {name: _infer(client, asked) for name, asked in ANSWERED.items()},
                "gzip": {
                    name: _infer(client, asked, compression_algorithm="gzip")
                    for name, asked in ANSWERED.items()
                },
                "async": {name: _infer_later(client, asked) for name, asked in ANSWERED.items()},
            },
            "errors": {"raw": {name: _infer(client, asked) for name, asked in REFUSED.items()}},
            "streams": {name: _stream(client, requests) for name, requests in STREAMS.items()},
            "empty_final": _stream(
                client, STREAMS["language model"], enable_empty_final_response=True
            ),
            "ended": {"call": _cancelled_call(client), "stream": _cancelled_stream(client)},
            "timeout": _timeout(client),
            "own": _infer(client, ANSWERED["latest version"], **triton_client.OWN),
            "big": _big(client),
            "reload": _reload(client, spare),
            "restarted": _restarted(client),
            "unserved": {
                "config": _error(lambda: client.get_model_config("passing")),
                "statistics": _error(lambda: client.get_inference_statistics("passing")),
                "trace": _error(client.get_trace_settings),
                "shared_memory": _error(client.get_system_shared_memory_status),
                "load_config": _error(lambda: client.load_model("passing", config="{}")),
            },
        }


def _lookups(client: Any) -> dict[str, Any]:
    server = client.get_server_metadata(as_json=True)
    return {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "server": [server["name"], server["extensions"]],
        "models_ready": {name: client.is_model_ready(name) for name in MODELS},
        "no_model_ready": _error(lambda: client.is_model_ready(NO_MODEL)),
        "metadata": {
            name: triton_client.metadata(client.get_model_metadata(name, as_json=True))
            for name in MODELS
        },
        "no_metadata": _error(lambda: client.get_model_metadata(NO_MODEL)),
        "index": triton_client.index(client.get_model_repository_index(as_json=True)["models"]),
    }


def _infer(client: Any, asked: Asked, **how: Any) -> Any:
    try:
        return triton_client.answer(
            client.infer(
                asked.model,
                triton_client.inputs(library, asked),
                **triton_client.options(library, asked),
                **how,
            )
        )
    except InferenceServerException as raised:
        return triton_client.error(raised)


def _infer_later(client: Any, asked: Asked) -> Any:
    answers: queue.Queue[Any] = queue.Queue()
    client.async_infer(
        asked.model,
        triton_client.inputs(library, asked),
        lambda result, error: answers.put(error or result),
        **triton_client.options(library, asked),
    )
    return triton_client.answer(answers.get())


def _big(client: Any) -> bool:
    asked = triton_client.BIG
    result = client.infer(asked.model, triton_client.inputs(library, asked))
    return triton_client.is_big(result)


def _error(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except InferenceServerException as raised:
        return triton_client.error(raised)


# Streams ------------------------------------------------------------------------------------------


def _stream(client: Any, requests: tuple[Asked, ...], **how: Any) -> list[Any]:
    """Send all requests; return the answers in their order."""
    answers: list[Any] = []

    def take(result: Any, error: InferenceServerException | None) -> None:
        if error is not None:
            answers.append(triton_client.error(error))
            return
        answers.append(triton_client.streamed(result))

    client.start_stream(take)
    for asked in requests:
        client.async_stream_infer(
            asked.model,
            triton_client.inputs(library, asked),
            **triton_client.options(library, asked),
            **how,
        )
    client.stop_stream()
    return answers


# Ends that the client brings about ----------------------------------------------------------------


def _cancelled_call(client: Any) -> list[Any]:
    errors: queue.Queue[Any] = queue.Queue()
    with endless() as run:
        call = client.async_infer(
            run.asked.model,
            triton_client.inputs(library, run.asked),
            lambda result, error: errors.put(error),
            **triton_client.options(library, run.asked),
        )
        run.wait_until_begun()
        call.cancel()
        return [run.end(), errors.get().status()]


def _cancelled_stream(client: Any) -> list[Any]:
    errors: list[Any] = []
    with endless() as run:
        client.start_stream(lambda result, error: errors.append(error.status()))
        client.async_stream_infer(
            run.asked.model,
            triton_client.inputs(library, run.asked),
            **triton_client.options(library, run.asked),
        )
        run.wait_until_begun()
        client.stop_stream(cancel_requests=True)
        return [run.end(), *errors]


def _timeout(client: Any) -> Any:
    with endless() as run:
        return _infer(client, run.asked, client_timeout=SOON)


# The repository -----------------------------------------------------------------------------------


def _reload(client: Any, spare: str) -> dict[str, Any]:
    asked = Asked(spare, ANSWERED["FP32"].inputs)
    client.unload_model(spare)
    unloaded = {
        "unloaded_ready": client.is_model_ready(spare),
        "unloaded_infer": _infer(client, asked),
        "unloaded_index": triton_client.index(
            client.get_model_repository_index(as_json=True)["models"]
        )[spare],
    }
    client.load_model(spare)
    return {
        **unloaded,
        "loaded_ready": client.is_model_ready(spare),
        "loaded_infer": _infer(client, asked),
        "unknown": _error(lambda: client.load_model(NO_MODEL)),
    }


def _restarted(client: Any) -> Any:
    """Load the model right after unloading it: the old one needs a moment to end."""
    client.unload_model(RESTARTED)
    client.load_model(RESTARTED)
    return _infer(client, replace(ANSWERED["handler"], model=RESTARTED))
