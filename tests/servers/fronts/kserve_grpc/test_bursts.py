"""Bursts of calls: each call is answered, none is dropped unseen."""

from __future__ import annotations

import asyncio
from collections import Counter

import grpc.aio
import pytest

from calculators.kit.requests.request_record import (
    RequestRecord,
    name_model,
    set_current_record,
)
from servers.fronts.kserve_grpc.settings import GrpcSettings
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane
from tests.servers.fronts.kserve_grpc.grpc_client import Client, serving

pytestmark = pytest.mark.both_loops

CALLS = 3000
MAX_CALLS = 50


async def status(client: Client) -> str:
    try:
        await client.call("ServerLive")
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


@pytest.mark.unmeasured
def test_thousands_of_calls_at_once_are_answered(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            statuses = await asyncio.gather(*(status(client) for _ in range(CALLS)))
            assert Counter(statuses) == {"OK": CALLS}

    run(scenario())


def test_calls_above_the_limit_are_refused(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), GrpcSettings(max_calls=MAX_CALLS)) as client:
            statuses = await asyncio.gather(*(status(client) for _ in range(10 * MAX_CALLS)))
            assert set(statuses) <= {"OK", "RESOURCE_EXHAUSTED"}
            assert statuses.count("OK") >= MAX_CALLS

    run(scenario())


def test_what_a_client_calls_a_model_is_not_kept_with_the_record() -> None:
    """Records of requests that have ended are kept for the page."""
    record = RequestRecord(request_id="a")
    set_current_record(record)
    name_model("x" * 10**6)
    set_current_record(None)
    assert len(record.model) <= 256
