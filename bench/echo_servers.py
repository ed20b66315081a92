"""Servers on the fronts' libraries that do next to nothing: the fronts' upper limit.

    python -m bench.echo_servers grpc-bytes|grpc-messages|http [PORT]
    python -m bench.echo_servers grpc-model|http-model MODEL_FILE ELEMENTS [PROPERTY=VALUE ...]

Prints its port and serves until it is ended. Several processes with one PORT share it.
``grpc-messages`` parses each request and makes its answer again with protobuf; the other echoes do
not look at the data. The last two run a plain model with OpenVINO's properties: the last
4 * ELEMENTS bytes of a request are the tensor, as `bench.clients` sends it; nothing is parsed,
checked, counted or logged.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import numpy as np
import uvloop
from aiohttp import web

from protos.pool import message_class

SERVICE: Final = "inference.GRPCInferenceService"
LARGEST: Final = 64 * 1024 * 1024
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
)


async def serve_grpc(answer: Callable[[bytes], Awaitable[bytes]], port: int = 0) -> None:
    """Serve ``ModelInfer`` by a function of its message, at a port; 0: any."""

    async def infer(request: bytes, _: Any) -> bytes:
        return await answer(request)

    server = grpc.aio.server(options=_OPTIONS)
    handler = grpc.unary_unary_rpc_method_handler(infer)
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(SERVICE, {"ModelInfer": handler})]
    )
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def echo(data: bytes) -> bytes:
    return data


async def made_anew(data: bytes) -> bytes:
    """A new ``ModelInferResponse`` with the tensors of a ``ModelInferRequest``."""
    request: Any = message_class("inference.ModelInferRequest")()
    request.ParseFromString(data)
    response: Any = message_class("inference.ModelInferResponse")(
        model_name=request.model_name, id=request.id
    )
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        response.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        response.raw_output_contents.append(raw)
    return bytes(response.SerializeToString())


async def serve_http(answer: Callable[[bytes], Awaitable[bytes]], port: int = 0) -> None:
    """Serve any path by a function of its body, at a port; 0: any."""

    async def infer(request: web.BaseRequest) -> web.StreamResponse:
        # aiohttp's own `read` refuses more than a megabyte.
        body = await request.content.read()
        head = request.headers.get("Inference-Header-Content-Length")
        headers = {} if head is None else {"Inference-Header-Content-Length": head}
        body = await answer(body)
        return web.Response(body=body, headers=headers, content_type=request.content_type)

    runner = web.ServerRunner(web.Server(infer, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, reuse_port=True)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


class BareModel:
    """A compiled model with as many infer requests as OpenVINO recommends."""

    def __init__(self, file: str, elements: int, properties: dict[str, str]) -> None:
        import openvino

        compiled = openvino.Core().compile_model(file, "CPU", properties)
        self._tensor = openvino.Tensor
        self._size = 4 * elements
        self._idle: asyncio.Queue[Any] = asyncio.Queue()
        for _ in range(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")):
            self._idle.put_nowait(compiled.create_infer_request())

    async def infer(self, data: bytes) -> bytes:
        """Return the bytes of the first output for the tensor at the end of ``data``."""
        # OpenVINO needs aligned numbers, and the tensor may begin anywhere in a message.
        numbers = np.frombuffer(data, np.uint8)[-self._size :].view(np.float32)
        array = np.require(numbers, requirements="A").reshape(1, -1)
        request = await self._idle.get()
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        request.set_callback(lambda _: loop.call_soon_threadsafe(done.set_result, None), None)
        request.set_input_tensor(0, self._tensor(array, shared_memory=True))
        request.start_async()
        await done
        answer: bytes = request.get_output_tensor(0).data.tobytes()
        self._idle.put_nowait(request)
        return answer


def main() -> None:
    match sys.argv[1:]:
        case ["grpc-bytes", *port]:
            uvloop.run(serve_grpc(echo, *map(int, port)))
        case ["grpc-messages", *port]:
            uvloop.run(serve_grpc(made_anew, *map(int, port)))
        case ["http", *port]:
            uvloop.run(serve_http(echo, *map(int, port)))
        case ["grpc-model" | "http-model" as kind, file, elements, *properties]:
            settings = dict(each.split("=", 1) for each in properties)
            model = BareModel(file, int(elements), settings)
            uvloop.run((serve_grpc if kind == "grpc-model" else serve_http)(model.infer))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
