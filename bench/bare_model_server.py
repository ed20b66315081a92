"""A plain model behind a handler of `grpcio` or aiohttp that does nothing else: the fronts' limit.

    python -m bench.bare_model_server grpc|rest MODEL_FILE ELEMENTS [PROPERTY=VALUE ...]

Prints its port and serves until it is ended. The last 4 * ELEMENTS bytes of a request are the
tensor, as `bench.infer_clients` sends it; nothing is parsed, checked, counted or logged. The
properties are OpenVINO's.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np
import openvino
import uvloop

from bench.echo_servers import serve_grpc, serve_http


class BareModel:
    """A compiled model with as many infer requests as OpenVINO recommends."""

    def __init__(self, compiled: Any, elements: int) -> None:
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
        request.set_input_tensor(0, openvino.Tensor(array, shared_memory=True))
        request.start_async()
        await done
        answer: bytes = request.get_output_tensor(0).data.tobytes()
        self._idle.put_nowait(request)
        return answer


async def serve(protocol: str, file: str, elements: int, properties: dict[str, str]) -> None:
    model = BareModel(openvino.Core().compile_model(file, "CPU", properties), elements)
    await (serve_grpc if protocol == "grpc" else serve_http)(model.infer, 0)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit((__doc__ or "").strip())
    protocol, file, elements, *properties = sys.argv[1:]
    settings = dict(each.split("=", 1) for each in properties)
    uvloop.run(serve(protocol, file, int(elements), settings))
