"""tritonclient.http, the blocking client on gevent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.request import Request, urlopen

import tritonclient.http as library
from tritonclient.utils import InferenceServerException

from tests.process.kserve import triton_client
from tests.process.kserve.asked import ANSWERED, MODELS, NO_MODEL, REFUSED, REST_WAYS, Asked
from tests.process.kserve.endless import SOON, endless

IS_REST: Final = True


def facts(address: str, spare: str) -> dict[str, Any]:
    with library.InferenceServerClient(address, concurrency=4) as client:
        return {
            **_lookups(client),
            "answers": {
                **{
                    f"{way}, {algorithm}": {
                        name: _infer(
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
                "async": _infer_later(client, ANSWERED),
            },
            "encodings": triton_client.encodings(client.infer(**triton_client.mixed(library))),
            "errors": {
                way: {
                    name: _infer(client, asked, way == "binary") for name, asked in REFUSED.items()
                }
                for way in REST_WAYS
            },
            "own_transport": _own_transport(address),
            "timeout": _timeout(address),
            "own": _infer(client, ANSWERED["latest version"], **triton_client.OWN),
            "big": _big(client),
            "reload": _reload(client, spare),
            "unserved": {
                "config": _error(lambda: client.get_model_config("passing")),
                "statistics": _error(lambda: client.get_inference_statistics("passing")),
                "trace": _error(client.get_trace_settings),
                "shared_memory": _error(client.get_system_shared_memory_status),
                "load_config": _error(lambda: client.load_model("passing", config="{}")),
            },
        }


def _lookups(client: Any) -> dict[str, Any]:
    server = client.get_server_metadata()
    return {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "server": [server["name"], server["extensions"]],
        "models_ready": {name: client.is_model_ready(name) for name in MODELS},
        "no_model_ready": client.is_model_ready(NO_MODEL),
        "metadata": {
            name: triton_client.metadata(client.get_model_metadata(name)) for name in MODELS
        },
        "no_metadata": _error(lambda: client.get_model_metadata(NO_MODEL)),
        "index": triton_client.index(client.get_model_repository_index()),
    }


def _infer(client: Any, asked: Asked, is_binary: bool = True, **how: Any) -> Any:
    try:
        return triton_client.answer(
            client.infer(
                asked.model,
                triton_client.inputs(library, asked, binary_data=is_binary),
                **triton_client.options(library, asked, binary_data=is_binary),
                **how,
            )
        )
    except InferenceServerException as raised:
        return triton_client.error(raised)


def _infer_later(client: Any, requests: Mapping[str, Asked]) -> Any:
    """Send all requests at the same time."""
    begun = {
        name: client.async_infer(
            asked.model,
            triton_client.inputs(library, asked),
            **triton_client.options(library, asked),
        )
        for name, asked in requests.items()
    }
    return {name: triton_client.answer(each.get_result()) for name, each in begun.items()}


def _big(client: Any) -> bool:
    asked = triton_client.BIG
    result = client.infer(asked.model, triton_client.inputs(library, asked))
    return triton_client.is_big(result)


def _own_transport(address: str) -> Any:
    """Send bodies that the library writes and reads with another client."""
    asked = ANSWERED["BYTES"]
    body, size = library.InferenceServerClient.generate_request_body(
        triton_client.inputs(library, asked), request_id=asked.id
    )
    request = Request(f"http://{address}/v2/models/{asked.model}/infer", bytes(body))
    request.add_header("Inference-Header-Content-Length", str(size))
    with urlopen(request) as response:
        size = int(response.headers["Inference-Header-Content-Length"])
        result = library.InferenceServerClient.parse_response_body(
            response.read(), header_length=size
        )
    return triton_client.answer(result)


def _error(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except InferenceServerException as raised:
        return triton_client.error(raised)


def _timeout(address: str) -> Any:
    with endless() as run, library.InferenceServerClient(address, network_timeout=SOON) as client:
        try:
            return _infer(client, run.asked)
        except TimeoutError as error:
            return type(error).__name__


def _reload(client: Any, spare: str) -> dict[str, Any]:
    asked = Asked(spare, ANSWERED["FP32"].inputs)
    client.unload_model(spare)
    unloaded = {
        "unloaded_ready": client.is_model_ready(spare),
        "unloaded_infer": _infer(client, asked),
        "unloaded_index": triton_client.index(client.get_model_repository_index())[spare],
    }
    client.load_model(spare)
    return {
        **unloaded,
        "loaded_ready": client.is_model_ready(spare),
        "loaded_infer": _infer(client, asked),
        "unknown": _error(lambda: client.load_model(NO_MODEL)),
    }
