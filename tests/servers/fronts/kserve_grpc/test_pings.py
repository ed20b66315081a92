"""Keepalive pings of clients."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
import pytest

from calculators.kit.requests.http_payload import ClientConnection
from calculators.tensors.inference import InferRequest, InferResponse
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane
from tests.servers.fronts.kserve_grpc.grpc_client import infer_request, serving

#: A client that pings every second, whatever happens.
ASKING = (
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
#: Time for one ping too many by gRPC's own limit, which cuts off after five.
SECONDS = 7.0


async def never(request: InferRequest, client: ClientConnection) -> InferResponse:
    await asyncio.Event().wait()
    raise AssertionError


def test_a_long_inference_is_not_cut_off_for_pings() -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(never=never), None, *ASKING) as client:
            request = infer_request("never").SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call_raw("ModelInfer", request, timeout=SECONDS)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    asyncio.run(scenario())
