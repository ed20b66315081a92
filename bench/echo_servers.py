"""Echo servers of the fronts' libraries, whose throughput is the fronts' upper limit.

    python -m bench.echo_servers grpc-bytes|grpc-messages|http [PORT]

Prints its port and serves until it is ended. Several processes with one PORT share it.
``grpc-messages`` parses each request and makes its answer again with protobuf; the others do not
look at the data.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import uvloop
from aiohttp import web

from protos.pool import message_class

SERVICE: Final = "inference.GRPCInferenceService"
LARGEST: Final = 64 * 1024 * 1024
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
)


async def serve_grpc(answer: Callable[[bytes], Awaitable[bytes]], port: int) -> None:
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


async def serve_http(answer: Callable[[bytes], Awaitable[bytes]], port: int) -> None:
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


def main() -> None:
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    match sys.argv[1:2]:
        case ["grpc-bytes"]:
            uvloop.run(serve_grpc(echo, port))
        case ["grpc-messages"]:
            uvloop.run(serve_grpc(made_anew, port))
        case ["http"]:
            uvloop.run(serve_http(echo, port))
        case _:
            sys.exit((__doc__ or "").strip())


if __name__ == "__main__":
    main()
